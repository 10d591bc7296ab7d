package connector

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stoplog/stoplog"
)

// testSpec is a small vendor with one operation of each kind.
func testSpec() Spec {
	return Spec{
		Name: "acme", Bodies: []Body{BodyJSON, BodyForm, BodyMultipart},
		Idempotency: &Idempotency{Header: "Idempotency-Key"},
		ProviderIDs: []Source{{JSON: "/id"}},
		Operations: []Operation{
			{
				Action: "message.send", Methods: []string{"POST"}, Path: "/messages", Class: stoplog.ClassMessage,
				Recipients: []Source{{Field: "channel", Required: true}}, Thread: []Source{{Field: "thread_ts"}},
			},
			{
				Action: "mail.send", Methods: []string{"POST"}, Path: "/mail", Class: stoplog.ClassMessage, Irreversible: true,
				Recipients: []Source{
					{JSON: "/personalizations/*/to/*/email", Transforms: []string{"address"}, Required: true},
					{JSON: "/personalizations/*/cc/*/email", Transforms: []string{"address"}},
				},
				Citations: []Source{{JSON: "/template_id", Transforms: []string{"prefix:template:"}}},
			},
			{
				Action: "charge.create", Methods: []string{"POST"}, Path: "/charges", Class: stoplog.ClassWrite, Bodies: []Body{BodyForm},
				Amount:    &Amount{Value: Source{Form: "amount"}, Currency: Source{Form: "currency"}, MinorUnits: true},
				Citations: []Source{{Form: "items[*][price]"}}, RepeatedFields: []string{"tag"},
			},
			{
				Action: "chat", Methods: []string{"POST"}, Path: "/chat", Class: stoplog.ClassModel, Bodies: []Body{BodyJSON},
				Model: &Model{
					Name: Source{JSON: "/model"}, MaxOutput: []Source{{JSON: "/max_tokens"}, {JSON: "/max_completion_tokens"}},
					Choices: &Source{JSON: "/n"}, Stream: &Source{JSON: "/stream"}, Usage: UsageOpenAIChat,
				},
			},
			{
				Action: "generate", Methods: []string{"POST"}, Path: "/models/{model}:generate", Class: stoplog.ClassModel, Bodies: []Body{BodyJSON},
				Model: &Model{Name: Source{Path: "model"}, Usage: UsageGemini},
			},
			{
				Action: "issue.comment", Methods: []string{"POST"}, Path: "/repos/{owner}/{repo}/issues/{number}/comments",
				Class: stoplog.ClassWrite, Citations: []Source{{Text: "{owner}/{repo}#{number}"}},
			},
			{
				Action: "search", Methods: []string{"POST"}, Path: "/search", Class: stoplog.ClassRead,
				When: []Condition{{Source: Source{JSON: "/items/*/op"}, Equals: []string{"get", "list"}}},
			},
			{Action: "files.put", Methods: []string{"PUT"}, Path: "/files/{path=**}", Class: stoplog.ClassWrite, Bodies: []Body{BodyOpaque}, Citations: []Source{{Path: "path"}}},
			{Action: "read", Methods: []string{"GET", "HEAD"}, Path: "/{rest=**}", Class: stoplog.ClassRead},
		},
	}
}

func mcpSpec() Spec {
	const path = "/{rest=**}"
	return Spec{
		Name: "mcp", Bodies: []Body{BodyJSONRPC}, AnswerForm: AnswerRPC, Shape: ShapeMCP,
		Operations: []Operation{
			{Action: "listen", Methods: []string{"GET"}, Path: path, Class: stoplog.ClassRead, Listen: true},
			{Action: "init", Methods: []string{"POST"}, Path: path, RPCMethods: []string{"initialize", "notifications/*", "$response"}, Class: stoplog.ClassRead},
			{Action: "lookup", Methods: []string{"POST"}, Path: path, RPCMethods: []string{"tools/call"}, Tools: []string{"search", "fetch"}, Class: stoplog.ClassRead},
			{Action: "git", Methods: []string{"POST"}, Path: path, RPCMethods: []string{"tools/call"}, Tools: []string{"git_*"}, Class: stoplog.ClassWrite},
			{
				Action: "call", Methods: []string{"POST"}, Path: path, RPCMethods: []string{"tools/call"}, Class: stoplog.ClassWrite,
				Key: []Source{{JSON: "/params/name"}, {JSON: "/params/arguments", Raw: true}},
			},
		},
	}
}

func compile(t testing.TB, s Spec) *Profile {
	t.Helper()
	p, err := Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// request builds a request from "POST /path?query", header lines and a body.
func request(line, body string, headers ...string) *Request {
	method, target, _ := strings.Cut(line, " ")
	path, query, _ := strings.Cut(target, "?")
	h := http.Header{}
	for _, l := range headers {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return &Request{Method: method, Path: path, RawQuery: query, Header: h, Body: []byte(body)}
}

const (
	asJSON = "Content-Type: application/json"
	asForm = "Content-Type: application/x-www-form-urlencoded"
)
