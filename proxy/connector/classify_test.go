package connector

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
)

func reasonIsTyped(t *testing.T, err error) {
	t.Helper()
	if reason(err) == stoplog.ReasonInternal {
		t.Fatalf("error without a reason: %v", err)
	}
}

func TestClassify(t *testing.T) {
	p := compile(t, testSpec())
	for _, tc := range []struct {
		name string
		r    *Request
		want stoplog.Effect
	}{
		{
			"message as JSON", request("POST /messages", `{"channel":"C1","thread_ts":"1.2","text":"x"}`, asJSON),
			stoplog.Effect{Class: stoplog.ClassMessage, Action: "message.send", Recipients: []string{"C1"}, Thread: "1.2"},
		},
		{
			"message as a form, keyed", request("POST /messages", `channel=C1&text=x`, asForm, "Idempotency-Key: k"),
			stoplog.Effect{Class: stoplog.ClassMessage, Action: "message.send", Recipients: []string{"C1"}},
		},
		{
			"message in the query", request("POST /messages?channel=C1", ``),
			stoplog.Effect{Class: stoplog.ClassMessage, Action: "message.send", Recipients: []string{"C1"}},
		},
		{
			"message as multipart", request("POST /messages", multi("Content-Disposition: form-data; name=channel\r\n\r\nC1"), "Content-Type: multipart/form-data; boundary=XyZ"),
			stoplog.Effect{Class: stoplog.ClassMessage, Action: "message.send", Recipients: []string{"C1"}},
		},
		{
			"mail: sorted, unique, bare addresses",
			request("POST /mail", `{"personalizations":[{"to":[{"email":"Bo <B@x.org>"},{"email":"a@x.org"}],"cc":[{"email":"b@x.org"}]}],"template_id":"t1"}`, asJSON),
			stoplog.Effect{Class: stoplog.ClassMessage, Action: "mail.send", Recipients: []string{"a@x.org", "b@x.org"}, Citations: []string{"template:t1"}, Irreversible: true},
		},
		{
			"charge", request("POST /charges", `amount=1999&currency=usd&items[0][price]=p1&items[1][price]=p2&tag=a&tag=b`, asForm),
			stoplog.Effect{Class: stoplog.ClassWrite, Action: "charge.create", Amount: stoplog.Money{Currency: "USD", Micros: 19_990_000}, Citations: []string{"p1", "p2"}},
		},
		{
			"path variables", request("POST /repos/a/b%2Fc/issues/7/comments", `{"body":"x"}`, asJSON),
			stoplog.Effect{Class: stoplog.ClassWrite, Action: "issue.comment", Citations: []string{"a/b/c#7"}},
		},
		{
			"read by condition", request("POST /search", `{"items":[{"op":"get"},{"op":"list"}]}`, asJSON),
			stoplog.Effect{Class: stoplog.ClassRead, Action: "search", Retry: stoplog.RetrySafe},
		},
		{
			"one value that fails the condition", request("POST /search", `{"items":[{"op":"get"},{"op":"delete"}]}`, asJSON),
			stoplog.Effect{Class: stoplog.ClassWrite, Action: Unnamed, Unnamed: true},
		},
		{
			"tail and opaque body", request("PUT /files/a/b.json", `{"a":1,"a":2}`, asJSON),
			stoplog.Effect{Class: stoplog.ClassWrite, Action: "files.put", Citations: []string{"a/b.json"}},
		},
		{
			"read", request("GET /anything/at/all?x=1&x=2", ""),
			stoplog.Effect{Class: stoplog.ClassRead, Action: "read", Retry: stoplog.RetrySafe},
		},
		{
			"unnamed method", request("PATCH /messages", `{"channel":"C1"}`, asJSON),
			stoplog.Effect{Class: stoplog.ClassWrite, Action: Unnamed, Unnamed: true},
		},
		{
			"lower-case method is another method", request("get /x", ""),
			stoplog.Effect{Class: stoplog.ClassWrite, Action: Unnamed, Unnamed: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := bytes.Clone(tc.r.Body)
			rd, err := p.Classify(tc.r)
			if err != nil {
				t.Fatal(err)
			}
			want := tc.want
			want.Connector = "acme"
			if want.Class.Durable() {
				want.Idempotency.Header = "Idempotency-Key"
				want.Idempotency.Key = tc.r.Header.Get("Idempotency-Key")
				if !want.Unnamed {
					want.Retry = stoplog.RetryKeyed
				}
			}
			if diff := cmp.Diff(want, rd.Effect); diff != "" {
				t.Error(diff)
			}
			if !bytes.Equal(body, tc.r.Body) {
				t.Error("the body was changed")
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	p := compile(t, testSpec())
	var bomb bytes.Buffer
	zw := gzip.NewWriter(&bomb)
	_, _ = zw.Write(make([]byte, 8<<20))
	_ = zw.Close()
	const coded = "Content-Encoding: "
	good := gzipped(`{"channel":"C1"}`)
	for _, tc := range []struct {
		name string
		r    *Request
		want stoplog.Reason
	}{
		// golang/go#54663: parts of a query that two readers split differently.
		{"semicolon in the query", request("POST /messages?channel=C_OK;channel=C_EVIL", ""), stoplog.ReasonAmbiguousQuery},
		{"bad escape in the query", request("GET /x?x=%zz", ""), stoplog.ReasonAmbiguousQuery},
		{"argument twice in the query", request("POST /messages?channel=C_OK&channel=C_EVIL", ""), stoplog.ReasonAmbiguousQuery},
		{"argument in query and body", request("POST /messages?channel=C_OK", `{"channel":"C_EVIL"}`, asJSON), stoplog.ReasonAmbiguousQuery},
		{"argument in query and form", request("POST /messages?channel=C_OK", `channel=C_EVIL`, asForm), stoplog.ReasonAmbiguousQuery},
		{"duplicate key", request("POST /messages", `{"channel":"C_OK","channel":"C_EVIL"}`, asJSON), stoplog.ReasonDuplicateKey},
		{"duplicate key of an unnamed operation", request("POST /other", `{"a":1,"a":2}`, asJSON), stoplog.ReasonDuplicateKey},
		{"case variant is not the argument", request("POST /messages", `{"Channel":"C1"}`, asJSON), stoplog.ReasonMalformedBody},
		{"no recipient", request("POST /messages", `{"text":"x"}`, asJSON), stoplog.ReasonMalformedBody},
		{"recipient is an object", request("POST /messages", `{"channel":{"id":"C1"}}`, asJSON), stoplog.ReasonMalformedBody},
		{"claims JSON", request("POST /other", `channel=C1`, asJSON), stoplog.ReasonMalformedBody},
		{"claims JSON, is a form", request("POST /charges", `amount=1`, asJSON), stoplog.ReasonMalformedBody},
		{"form where JSON is read in another way", request("POST /charges", `{"amount":1}`, asJSON), stoplog.ReasonMalformedBody},
		{"no type where several forms are read", request("POST /messages", `{"channel":"C1"}`), stoplog.ReasonMalformedBody},
		{"unknown type where the body is read", request("POST /messages", `{"channel":"C1"}`, "Content-Type: text/plain"), stoplog.ReasonMalformedBody},
		{"array where an object is read", request("POST /messages", `[{"channel":"C1"}]`, asJSON), stoplog.ReasonMalformedBody},
		{"two types", request("POST /messages", `{}`, asJSON, asForm), stoplog.ReasonMalformedHeader},
		{"body on GET", request("GET /x", `{}`, asJSON), stoplog.ReasonMalformedBody},
		{"override header", request("POST /x", "", "X-HTTP-Method-Override: DELETE"), stoplog.ReasonMethodOverride},
		{"override of the path", request("GET /x", "", "X-Original-URL: /admin"), stoplog.ReasonMethodOverride},
		{"override in the query", request("POST /x?_method=DELETE", ""), stoplog.ReasonMethodOverride},
		{"override in a form", request("POST /messages", "channel=C1&_method=DELETE", asForm), stoplog.ReasonMethodOverride},
		{"two keys", request("POST /messages", `{"channel":"C1"}`, asJSON, "Idempotency-Key: a", "Idempotency-Key: b"), stoplog.ReasonMalformedHeader},
		// corazawaf/coraza#976 and its kin: a label must not hide a body, and a false label is no reason to skip it.
		{"br", request("POST /messages", `x`, asJSON, coded+"br"), stoplog.ReasonUnsupportedCoding},
		{"two codings", request("POST /messages", good, asJSON, coded+"gzip, gzip"), stoplog.ReasonUnsupportedCoding},
		{"unknown coding of an unnamed operation", request("POST /other", `x`, coded+"aes128gcm"), stoplog.ReasonUnsupportedCoding},
		{"plain text labelled gzip", request("POST /messages", `{"channel":"C1"}`, asJSON, coded+"gzip"), stoplog.ReasonUnsupportedCoding},
		{"cut gzip", request("POST /messages", good[:len(good)-4], asJSON, coded+"gzip"), stoplog.ReasonUnsupportedCoding},
		{"second gzip member", request("POST /messages", good+gzipped("x"), asJSON, coded+"gzip"), stoplog.ReasonUnsupportedCoding},
		{"bomb", request("POST /messages", bomb.String(), asJSON, coded+"gzip"), stoplog.ReasonBodyTooLarge},
		{"negative limit", request("POST /chat", `{"model":"m","max_tokens":-1}`, asJSON), stoplog.ReasonMalformedBody},
		{"limit that is no whole number", request("POST /chat", `{"model":"m","max_tokens":1e9}`, asJSON), stoplog.ReasonMalformedBody},
		{"no model", request("POST /chat", `{"messages":[]}`, asJSON), stoplog.ReasonMalformedBody},
		{"amount that is no number", request("POST /charges", `amount=1e3&currency=usd`, asForm), stoplog.ReasonMalformedBody},
		{"amount below zero", request("POST /charges", `amount=-5&currency=usd`, asForm), stoplog.ReasonMalformedBody},
		{"amount out of range", request("POST /charges", `amount=99999999999999999999&currency=usd`, asForm), stoplog.ReasonMalformedBody},
		{"no currency code", request("POST /charges", `amount=5&currency=dollars`, asForm), stoplog.ReasonMalformedBody},
		{"malformed path", request("GET /%zz", ""), stoplog.ReasonAmbiguousPath},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rd, err := p.Classify(tc.r)
			if got := reason(err); got != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
			if err != nil && rd != nil {
				t.Error("a refusal came with a reading")
			}
		})
	}
	rd, err := p.Classify(request("POST /messages", good, asJSON, coded+"gzip"))
	if err != nil || rd.Effect.Recipients[0] != "C1" {
		t.Errorf("gzip: %v", err)
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

func TestSingleForm(t *testing.T) {
	s := testSpec()
	s.Bodies = []Body{BodyJSON}
	p := compile(t, s)
	// What curl -d sends to a vendor that takes JSON only is read as JSON, strictly.
	rd, err := p.Classify(request("POST /messages", `{"channel":"C1"}`, asForm))
	if err != nil || rd.Effect.Recipients[0] != "C1" || rd.Body != BodyJSON {
		t.Errorf("%v %v", rd, err)
	}
	_, err = p.Classify(request("POST /messages", `channel=C1`, asForm))
	if reason(err) != stoplog.ReasonMalformedBody {
		t.Errorf("a form for JSON: %v", err)
	}
	rd, err = p.Classify(request("POST /other", `channel=C1`, asForm))
	if err != nil || !rd.Effect.Unnamed || rd.Body != BodyOpaque {
		t.Errorf("unnamed: %+v %v", rd, err)
	}
}

func TestModelCall(t *testing.T) {
	p := compile(t, testSpec())
	rd, err := p.Classify(request("POST /chat", `{"model":"gpt-4o","max_tokens":10,"max_completion_tokens":300,"n":3,"stream":true,"messages":[{"role":"user","content":"hi"}]}`, asJSON))
	if err != nil {
		t.Fatal(err)
	}
	got := rd.Effect.Model
	if got.Name != "gpt-4o" || got.MaxOutputTokens != 900 || !got.Stream || got.InputTokens < 10 || got.InputTokens > 60 {
		t.Errorf("got %+v", got)
	}
	if rd.Effect.Retry != stoplog.RetrySafe || rd.BreakerClass() != "model/gpt-4o" {
		t.Errorf("retry %v, class %s", rd.Effect.Retry, rd.BreakerClass())
	}
	rd, err = p.Classify(request("POST /models/gemini-pro:generate", `{"contents":[]}`, asJSON))
	if err != nil || rd.Effect.Model.Name != "gemini-pro" || rd.Template != "/models/{model}:generate" {
		t.Errorf("%+v %v", rd, err)
	}
}

func TestCompileErrors(t *testing.T) {
	op := func(change func(*Operation)) func(*Spec) {
		return func(s *Spec) { change(&s.Operations[3]) }
	}
	for want, change := range map[string]func(*Spec){
		"name: ":                              func(s *Spec) { s.Name = "" },
		"unnamed_class: ":                     func(s *Spec) { s.UnnamedClass = stoplog.ClassRead },
		"operations[3].action: ":              op(func(o *Operation) { o.Action = "" }),
		"operations[3].class: ":               op(func(o *Operation) { o.Class = 0 }),
		"operations[3].path: ":                op(func(o *Operation) { o.Path = "x" }),
		"operations[3].methods: ":             op(func(o *Operation) { o.Methods = nil }),
		"operations[3].model: ":               op(func(o *Operation) { o.Model = nil }),
		"operations[3].model.name: ":          op(func(o *Operation) { o.Model.Name = Source{} }),
		"operations[3].model.max_output[0]: ": op(func(o *Operation) { o.Model.MaxOutput = []Source{{JSON: "x"}} }),
		"operations[3].recipients[0]: ":       op(func(o *Operation) { o.Recipients = []Source{{JSON: "/a", Form: "b"}} }),
		"operations[3].citations[0]: ":        op(func(o *Operation) { o.Citations = []Source{{JSON: "/a", Transforms: []string{"upper"}}} }),
		"operations[3].when[0].source: ": op(func(o *Operation) {
			o.When = []Condition{{Source: Source{JSON: "/a"}, Absent: true, Equals: []string{"x"}}}
		}),
		"operations[3].tools: ":                op(func(o *Operation) { o.Tools = []string{"x"} }),
		"operations[3].rpc_methods: ":          op(func(o *Operation) { o.RPCMethods = []string{"x"} }),
		"operations[3].answers[0].status: ":    op(func(o *Operation) { o.Answers = []AnswerRule{{Status: []string{"100"}}} }),
		"operations[3].path: has no variable ": op(func(o *Operation) { o.Thread = []Source{{Path: "nothing"}} }),
		"operations[0].recipients: ":           func(s *Spec) { s.Operations[0].Recipients = nil },
		"operations[5].retry: ":                func(s *Spec) { s.Idempotency = nil; s.Operations[5].Retry = RetryKeyed },
		"answers[0].when[0].source: ":          func(s *Spec) { s.Answers = []AnswerRule{{When: []Condition{{Source: Source{Form: "x"}}}}} },
		"provider_ids[0]: ":                    func(s *Spec) { s.ProviderIDs = []Source{{Path: "x"}} },
		"cool[0]: ":                            func(s *Spec) { s.Cool = []Source{{Header: "x"}} },
	} {
		s := testSpec()
		model := *s.Operations[3].Model
		s.Operations[3].Model = &model
		change(&s)
		_, err := Compile(s)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestFlat holds the promise that finding one operation among many costs what finding it among few costs.
func TestFlat(t *testing.T) {
	cost := func(n int) time.Duration {
		s := testSpec()
		for i := range n {
			s.Operations = append(s.Operations, Operation{
				Action: "x", Methods: []string{"POST"}, Path: fmt.Sprintf("/repos/{owner}/{repo}/kind%d/{id}", i), Class: stoplog.ClassWrite,
			})
		}
		p := compile(t, s)
		r := request(fmt.Sprintf("POST /repos/a/b/kind%d/1", n-1), "")
		best := time.Hour
		for range 20 {
			start := time.Now()
			for range 500 {
				_, _ = p.Classify(r)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	few, many := cost(10), cost(10_000)
	if many > 4*few { // a linear search would be hundreds of times slower
		t.Errorf("10 operations: %v, 10,000: %v", few, many)
	}
}

// FuzzClassify: whatever comes, the answer is a reading or a typed refusal, and no message leaves without a recipient.
func FuzzClassify(f *testing.F) {
	f.Add("POST", "/messages", "channel=C", "application/json", []byte(`{"channel":"C1"}`))
	f.Add("POST", "/charges", "", "application/x-www-form-urlencoded", []byte(`amount=1&currency=usd`))
	f.Add("POST", "/chat", "", "application/json", []byte(`{"model":"m","messages":[],"n":2,"max_tokens":5}`))
	f.Add("POST", "/messages", "", "multipart/form-data; boundary=XyZ", []byte(multi("Content-Disposition: form-data; name=channel\r\n\r\nC1")))
	p, err := Compile(testSpec())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, query, typ string, body []byte) {
		h := http.Header{}
		if typ != "" {
			h.Set("Content-Type", typ)
		}
		rd, err := p.Classify(&Request{Method: method, Path: path, RawQuery: query, Header: h, Body: body})
		if err != nil {
			reasonIsTyped(t, err)
			return
		}
		e := rd.Effect
		if e.Class == stoplog.ClassMessage && len(e.Recipients) == 0 && !e.Unnamed {
			t.Fatal("a message without a recipient")
		}
		if e.Class == stoplog.ClassModel && e.Model.Name == "" {
			t.Fatal("a model call without a model")
		}
		if e.Unnamed && !e.Class.Durable() {
			t.Fatal("unnamed and mild")
		}
	})
}
