package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/configs/configv1"
	"github.com/stoplog/stoplog/proxy/connector"
)

const recorded = "../proxy/connector/testdata"

func shippedConnector(t testing.TB, name string) *connector.Profile {
	t.Helper()
	msg := shippedProfiles()[name]
	if msg == nil {
		t.Fatalf("no shipped profile %s", name)
	}
	p, err := compileProfile(msg)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return p
}

// TestConnectors reads the recorded exchanges of each shipped profile: a request and the effect it is read as, then answers
// and what they mean. A file is sections that begin with "---- "; those called effect and result are written by -update.
func TestConnectors(t *testing.T) {
	paths, err := filepath.Glob(recorded + "/*/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no recorded exchanges: ", err)
	}
	seen := map[string]bool{}
	for _, path := range paths {
		vendor := filepath.Base(filepath.Dir(path))
		seen[vendor] = true
		if filepath.Base(path) == "operations.txt" {
			continue
		}
		t.Run(vendor+"/"+strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, path, string(data), replayed(t, shippedConnector(t, vendor), string(data)))
		})
	}
	for name := range shippedProfiles() {
		if !seen[name] {
			t.Errorf("profile %s has no recorded exchange", name)
		}
	}
}

func compareGolden(t *testing.T, path, want, got string) {
	t.Helper()
	if *update && want != got {
		err := os.WriteFile(path, []byte(got), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// replayed is the file's text with what is got in place of what is wanted.
func replayed(t *testing.T, p *connector.Profile, text string) string {
	var out strings.Builder
	sections := strings.Split("\n"+text, "\n---- ")
	line, header, body := message(sections[0][1:])
	method, target, _ := strings.Cut(line, " ")
	path, query, _ := strings.Cut(target, "?")
	fmt.Fprintf(&out, "%s\n---- effect\n", strings.TrimRight(sections[0][1:], "\n"))
	rd, err := p.Classify(&connector.Request{Method: method, Path: path, RawQuery: query, Header: header, Body: body})
	if err != nil {
		fmt.Fprintf(&out, "%v\n", refusal(err))
		return out.String()
	}
	fmt.Fprintf(&out, "%s\n", indented(t, effectOf(rd)))
	for _, s := range sections[1:] {
		if !strings.HasPrefix(s, "answer ") {
			continue
		}
		line, header, body := message(strings.TrimPrefix(s, "answer "))
		code, how, _ := strings.Cut(line, " ")
		status, err := strconv.Atoi(code)
		if err != nil {
			t.Fatalf("status %q", code)
		}
		o := rd.Observe(status, header)
		for b := range slices.Chunk(body, 100) {
			o.Write(b)
		}
		res := o.End(connector.End{Complete: how == "", Abandoned: how == "abandoned"})
		fmt.Fprintf(&out, "---- %s\n---- result\n%s\n", strings.TrimRight(s, "\n"), indented(t, resultOf(rd, res, status)))
	}
	return out.String()
}

// message reads a first line, header lines, an empty line and a body. The lines of a multipart body end in CR LF.
func message(s string) (string, http.Header, []byte) {
	head, body, _ := strings.Cut(strings.TrimRight(s, "\n"), "\n\n")
	lines := strings.Split(head, "\n")
	h := http.Header{}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	switch typ := h.Get("Content-Type"); {
	case strings.HasPrefix(typ, "multipart/"):
		body = strings.ReplaceAll(body, "\n", "\r\n") + "\r\n"
	case typ == "text/event-stream":
		body += "\n\n"
	}
	return lines[0], h, []byte(body)
}

func refusal(err error) string {
	var e *stoplog.Error
	if !errors.As(err, &e) {
		return "untyped: " + err.Error()
	}
	return string(e.Reason) + ": " + e.Detail
}

func indented(t *testing.T, v any) string {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type goldenEffect struct {
	Class, Action string
	Template      string             `json:",omitempty"`
	Recipients    []string           `json:",omitempty"`
	Citations     []string           `json:",omitempty"`
	Thread        string             `json:",omitempty"`
	Amount        *stoplog.Money     `json:",omitempty"`
	Model         *stoplog.ModelCall `json:",omitempty"`
	Retry         string
	Idempotency   *stoplog.Idempotency `json:",omitempty"`
	Irreversible  bool                 `json:",omitempty"`
	Listen        bool                 `json:",omitempty"`
	RPC           *connector.RPC       `json:",omitempty"`
	Keyed         bool                 `json:",omitempty"`
	BreakerClass  string
}

func effectOf(rd *connector.Reading) goldenEffect {
	e := &rd.Effect
	g := goldenEffect{
		Class: e.Class.String(), Action: e.Action, Template: rd.Template, Recipients: e.Recipients, Citations: e.Citations,
		Thread: e.Thread, Retry: e.Retry.String(), Irreversible: e.Irreversible, Listen: rd.Listen, RPC: rd.RPC,
		Keyed: rd.Key != "", BreakerClass: rd.BreakerClass(),
	}
	if !e.Amount.IsZero() {
		g.Amount = &e.Amount
	}
	if e.Class == stoplog.ClassModel {
		g.Model = &e.Model
	}
	if e.Idempotency.Header != "" {
		g.Idempotency = &e.Idempotency
	}
	return g
}

type goldenResult struct {
	Outcome, Health string
	ProviderID      string         `json:",omitempty"`
	Cool            string         `json:",omitempty"`
	Usage           *stoplog.Usage `json:",omitempty"`
	Model           string         `json:",omitempty"`
	Class           string
	Final           bool     `json:",omitempty"`
	Flags           []string `json:",omitempty"`
	Retryable       bool
}

func resultOf(rd *connector.Reading, r connector.Result, status int) goldenResult {
	g := goldenResult{
		Outcome: r.Outcome.String(), Health: r.Health.String(), ProviderID: r.ProviderID, Model: r.Model, Class: r.Class,
		Final: r.Final, Flags: r.Flags, Retryable: rd.Retryable(r, status),
	}
	if r.Cool > 0 {
		g.Cool = r.Cool.Round(time.Millisecond).String()
	}
	if rd.Effect.Class == stoplog.ClassModel {
		g.Usage = &r.Usage
	}
	return g
}

// TestOperations reads the list of each profile's operations: "METHOD target body => class action". Every action that a
// profile names must be reached by one of them, so that none stands behind a rule that takes its requests.
func TestOperations(t *testing.T) {
	for name := range shippedProfiles() {
		t.Run(name, func(t *testing.T) {
			p := shippedConnector(t, name)
			path := recorded + "/" + name + "/operations.txt"
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			reached := map[string]bool{}
			for line := range strings.Lines(string(data)) {
				ask, _, _ := strings.Cut(strings.TrimRight(line, "\n"), " => ")
				rd, err := p.Classify(shortRequest(ask))
				if err != nil {
					fmt.Fprintf(&got, "%s => %s\n", ask, refusal(err))
					continue
				}
				reached[rd.Effect.Action] = true
				fmt.Fprintf(&got, "%s => %s %s\n", ask, rd.Effect.Class, rd.Effect.Action)
			}
			compareGolden(t, path, string(data), got.String())
			for _, a := range p.Actions() {
				if !reached[a] {
					t.Errorf("no line reaches %s", a)
				}
			}
		})
	}
}

// shortRequest reads "POST /path {json}", "POST /path a=b" or "POST /path |field=value" (multipart).
func shortRequest(s string) *connector.Request {
	method, rest, _ := strings.Cut(s, " ")
	target, body, _ := strings.Cut(rest, " ")
	path, query, _ := strings.Cut(target, "?")
	h := http.Header{}
	switch {
	case strings.HasPrefix(body, "{"):
		h.Set("Content-Type", "application/json")
	case strings.HasPrefix(body, "|"):
		name, value, _ := strings.Cut(body[1:], "=")
		h.Set("Content-Type", "multipart/form-data; boundary=b")
		body = "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n--b--\r\n"
	case body != "":
		h.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return &connector.Request{Method: method, Path: path, RawQuery: query, Header: h, Body: []byte(body)}
}

// TestGuide: the worked example of docs/connectors.md compiles and does what the text says.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile("../docs/connectors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	b := &configv1.Bundle{}
	err = decode("docs/connectors.md", []byte(example), b).errs.orNil()
	if err != nil {
		t.Fatal(err)
	}
	p, err := compileProfile(b.GetConnectorProfiles()[0])
	if err != nil {
		t.Fatal(err)
	}
	rd, err := p.Classify(shortRequest(`POST /v2/tickets/T1/replies {"to":[{"email":"Ann <ann@example.com>"}],"body":"Hello"}`))
	if err != nil {
		t.Fatal(err)
	}
	e := rd.Effect
	if e.Class != stoplog.ClassMessage || !slices.Equal(e.Recipients, []string{"ann@example.com"}) || e.Thread != "T1" || !slices.Equal(e.Citations, []string{"ticket:T1"}) {
		t.Errorf("got %+v", e)
	}
	o := rd.Observe(http.StatusOK, http.Header{"Content-Type": {"application/json"}})
	o.Write([]byte(`{"error":{"code":"no_such_ticket"}}`))
	if res := o.End(connector.End{Complete: true}); res.Outcome != stoplog.OutcomeRejected {
		t.Errorf("a refusal with status 200 is %v", res.Outcome)
	}
}
