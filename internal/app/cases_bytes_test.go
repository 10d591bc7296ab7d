package app_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/fakevendor"
	"github.com/stoplog/stoplog/receipts"
)

// A signed request still verifies behind Stoplog: target, body, framing and signed headers arrive as they were sent
// (aws/mcp-proxy-for-aws#313, denoland/clawpatrol#644, pgbackrest/pgbackrest#1340).
func TestSignatureSurvives(t *testing.T) {
	sign := func(parts ...string) string {
		m := hmac.New(sha256.New, []byte("key"))
		io.WriteString(m, strings.Join(parts, "\n"))
		return hex.EncodeToString(m.Sum(nil))
	}
	var framing, target atomic.Value
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b := bodyText(r)
		framing.Store(strings.Join(r.TransferEncoding, ",") + r.Header.Get("Content-Length"))
		target.Store(r.RequestURI)
		if r.Header.Get("X-Signature") != sign(r.Method, r.RequestURI, b, r.Header.Get("X-Date"), r.Header.Get("Content-Type")) {
			w.WriteHeader(403)
		}
		io.WriteString(w, "{}")
	})
	s := start(t, []dest{{name: "generic", url: url}})
	const uri, body, typ, date = "/items?q=%E2%82%AC&r=&a=b+c&d=/e?f", `{ "a" : 1 , "b":"\u00e9" }`, "application/json;charset=utf-8", "20261201T000000Z"
	for _, chunked := range []bool{false, true} {
		var r io.Reader = strings.NewReader(body)
		want := itoa(len(body))
		if chunked {
			r, want = io.MultiReader(r), "chunked"
		}
		req, _ := http.NewRequest("POST", s.URL("generic")+uri, r)
		req.Header = http.Header{
			"Content-Type": {typ}, "X-Date": {date}, "X-Signature": {sign("POST", uri, body, date, typ)}, "Authorization": {"AWS4-HMAC-SHA256 Credential=x"},
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || target.Load() != uri || framing.Load() != want {
			t.Errorf("chunked %v: %d, target %q, framing %q", chunked, resp.StatusCode, target.Load(), framing.Load())
		}
	}
	if got := s.ended("generic", 2); got[0].Outcome.Outcome != stoplog.OutcomeConfirmed {
		t.Errorf("%+v", got[0].Outcome)
	}
}

// The length stays a length and chunks stay chunks, seen on the wire itself.
func TestFramingIsKept(t *testing.T) {
	heads := make(chan string, 2)
	url := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
		var head strings.Builder
		for {
			l, err := r.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(l)
			if l == "\r\n" {
				break
			}
		}
		heads <- head.String()
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
	s := start(t, []dest{{name: "generic", url: url}})
	for want, r := range map[string]io.Reader{
		"Content-Length: 11\r\n": strings.NewReader(`{ "a" : 1 }`), "Transfer-Encoding: chunked\r\n": io.MultiReader(strings.NewReader(`{ "a" : 1 }`)),
	} {
		req, _ := http.NewRequest("POST", s.URL("generic")+"/items", r)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		head := <-heads
		if !strings.Contains(head, want) || strings.Count(head, "Content-Length")+strings.Count(head, "Transfer-Encoding") != 1 {
			t.Errorf("the vendor read %q, want one framing: %q", head, want)
		}
	}
}

// A client cannot name away the credential that Stoplog adds, nor Stoplog's own fields of an answer (golang/go#50580, #46313).
func TestOwnHeadersCannotBeNamedAway(t *testing.T) {
	t.Setenv("STOPLOG_TEST_SECRET", "injected")
	var got http.Header
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		got = r.Header.Clone()
		w.Header().Set("Connection", "Stoplog-Receipt, Stoplog-Decision, X-Gone")
		w.Header().Set("X-Gone", "1")
		io.WriteString(w, "{}")
	})
	s := start(t, []dest{{name: "generic", url: url, more: "credential: {header: X-Vendor-Key, env: STOPLOG_TEST_SECRET}"}})
	a := s.post("generic", "/items", `{"a":1}`, "Connection", "X-Vendor-Key, Content-Type, Idempotency-Key, Authorization", "Idempotency-Key", "k", "X-Vendor-Key", "forged")
	if v := got.Values("X-Vendor-Key"); len(v) != 1 || v[0] != "injected" {
		t.Errorf("the vendor got the credential %q, want the injected one", v)
	}
	for _, h := range []string{"Content-Type", "Idempotency-Key", "Authorization"} {
		if got.Get(h) == "" {
			t.Errorf("%s was named away", h)
		}
	}
	if a.header.Get("Stoplog-Decision") != "allow" || a.header.Get("Stoplog-Receipt") == "" || a.header.Get("X-Gone") != "" {
		t.Errorf("the agent got %v", a.header)
	}
}

// No spelling of a path or a query dodges a rule (golang/go#50243, #54663): under a freeze each is refused or held, and none
// reaches the vendor, rewritten or not.
func TestSpellingsDodgeNoRule(t *testing.T) {
	s := start(t, []dest{{name: "slack"}})
	s.raise("fleet", stoplog.L1)
	base := strings.TrimPrefix(strings.TrimSuffix(s.URL("slack"), "/slack"), "http://")
	for target, want := range map[string]string{
		"//slack/api/chat.postMessage":                                         "ambiguous_path",
		"/slack//api/chat.postMessage":                                         "ambiguous_path",
		"/slack/api/./chat.postMessage":                                        "ambiguous_path",
		"/slack/api/x/../chat.postMessage":                                     "ambiguous_path",
		"/slack/api/x/%2e%2e/chat.postMessage":                                 "ambiguous_path",
		"/slack/api/chat%2EpostMessage":                                        "ambiguous_path",
		"/slack/api%2Fchat.postMessage":                                        "ambiguous_path",
		"/slack/api%2fchat.postMessage":                                        "ambiguous_path",
		`/slack/api\chat.postMessage`:                                          "ambiguous_path",
		"/slack/api/chat.postMessage?channel=C_OK;channel=C_EVIL&x=%zz":        "ambiguous_query",
		"/slack/api/chat.postMessage?channel=C_OK;channel=C_EVIL":              "ambiguous_query",
		"/slack/api/chat.postMessage?channel=C_OK&x=%zz":                       "ambiguous_query",
		"/slack/api/chat.postMessage?channel=C_OK&channel=C_EVIL":              "ambiguous_query", // one argument, two values
		"/slack/API/CHAT.POSTMESSAGE":                                          "outreach_freeze", // not named: held like a message
		"/slack/api/chat.postMessage/":                                         "outreach_freeze",
		"/slack/api/chat.postMessage?channel=C_OK&text=x&an=%E2%82%AC+b&r=&q=": "outreach_freeze",
	} {
		c, err := net.Dial("tcp", base)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "POST "+target+" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		b, _ := io.ReadAll(c)
		c.Close()
		if !strings.Contains(string(b), `"reason":"`+want+`"`) {
			t.Errorf("%s: %s, want %s", target, b, want)
		}
		if ok := strings.HasPrefix(string(b), "HTTP/1.1 400 ") || strings.Contains(string(b), `"ok":false`); !ok { // what Slack's client throws on
			t.Errorf("%s: %.30q parses as success", target, b)
		}
	}
	if n := len(s.fleet.Requests("slack")); n != 0 {
		t.Errorf("%d requests reached the vendor", n)
	}
}

// A JSON-RPC batch, or anything that is not exactly one object, never reaches the server (permission-protocol/deploy-gate#59,
// stacklok/toolhive#5745, NVIDIA/OpenShell#2082).
func TestOnlyOneCallPerRequest(t *testing.T) {
	s := start(t, []dest{{name: "mcp"}})
	one := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_note","arguments":{"text":"x"}}}`
	utf16 := func(in string) string {
		var b strings.Builder
		b.WriteString("\xff\xfe")
		for _, c := range []byte(in) {
			b.WriteByte(c)
			b.WriteByte(0)
		}
		return b.String()
	}
	for name, body := range map[string]string{
		"batch": "[" + one + "]", "behind spaces": " \r\n\t[" + one + "]", "behind a byte order mark": "\xef\xbb\xbf" + one, "UTF-16": utf16(one),
		"two documents": one + "\n" + one, "tool named twice": strings.Replace(one, `"name":"add_note"`, `"name":"echo","n\u0061me":"add_note"`, 1),
	} {
		a := s.post("mcp", "/mcp", body, "Mcp-Session-Id", "S", "Accept", "application/json, text/event-stream")
		if a.status != 400 || !strings.Contains(a.body, `"code":-32600`) || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %d %s, want 400 and -32600", name, a.status, a.body)
		}
	}
	if n := len(s.fleet.Requests("mcp")); n != 0 {
		t.Errorf("%d requests reached the server", n)
	}
}

// Two names that are one after unescaping are refused; names that differ in case are two, and the one that the vendor's
// documentation names is read (opena2a-org/secretless-ai#140, luisgf/infrabroker#228).
func TestOneReadingOfAChannel(t *testing.T) {
	s := start(t, []dest{{name: "slack"}})
	for _, body := range []string{
		`{"channel":"C_OK","channel":"C_EVIL","text":"x"}`, `{"channel":"C_OK","chann\u0065l":"C_EVIL","text":"x"}`,
		`{"text":"x","blocks":[{"a":1,"a":2}],"channel":"C_OK"}`,
	} {
		if a := s.post("slack", "/api/chat.postMessage", body); !strings.Contains(a.body, `"reason":"duplicate_key"`) || !strings.Contains(a.body, `"ok":false`) {
			t.Errorf("%s: %s, want duplicate_key", body, a.body)
		}
	}
	if n := len(s.fleet.Requests("slack")); n != 0 {
		t.Fatalf("%d requests reached the vendor", n)
	}
	variant := `{"Channel":"C_EVIL","channel":"C0GENERAL","text":"x"}`
	if a := s.post("slack", "/api/chat.postMessage", variant); !strings.Contains(a.body, `"ok":true`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if e := s.fleet.Effects("slack"); len(e) != 1 || string(e[0].Body) != variant {
		t.Errorf("effects %+v, want the bytes as they were sent", e)
	}
	rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeDispatching })
	if len(rs) != 1 || rs[0].Recipients.N != 1 {
		t.Errorf("%+v, want one recipient", rs)
	}
}

// Numbers that canonical forms merge are two effects under one key, and the key stands for the first
// (cyberphone/json-canonicalization#20, agentrust-io/agent-manifest#338).
func TestNumbersAreNotMerged(t *testing.T) {
	var n atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) { drain(r); n.Add(1); io.WriteString(w, "{}") })
	s := start(t, []dest{{name: "generic", url: url}})
	for i, c := range [][2]string{
		{`{"amount":9007199254740992}`, `{"amount":9007199254740993}`}, {`{"amount":1}`, `{"amount":1.0}`}, {`{"amount":0}`, `{"amount":-0}`},
		{`{"amount":1e400}`, `{"amount":1e401}`}, {`{"9007199254740992":1}`, `{"9007199254740993":1}`}, {`{"a":1}`, `{"a":1 }`},
	} {
		key := []string{"Idempotency-Key", "k" + itoa(i)}
		if a := s.post("generic", "/items", c[0], key...); a.status/100 != 2 {
			t.Fatalf("%s: %d %s", c[0], a.status, a.body)
		}
		if a := s.post("generic", "/items", c[1], key...); a.problem(t).Reason != "idempotency_mismatch" {
			t.Errorf("%s for %s: %d %s, want idempotency_mismatch", c[1], c[0], a.status, a.body)
		}
	}
	for _, bad := range []string{"{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}", `{"a":"\ud800"}`} { // two bodies, one U+FFFD
		if a := s.post("generic", "/items", bad); a.problem(t).Reason != "malformed_body" {
			t.Errorf("%q: %d %s, want malformed_body", bad, a.status, a.body)
		}
	}
	if n.Load() != 6 {
		t.Errorf("%d requests at the vendor, want the 6 first ones", n.Load())
	}
}

// One operation id names one effect, also as money: more of it, or an added field, is refused here; the same again is answered
// from the record (stripe/stripe-java#389, fjordllc/bootcamp#4268, thephpleague/omnipay-stripe#33).
func TestOperationNamesOneCharge(t *testing.T) {
	s := start(t, []dest{{name: "stripe"}})
	charge := func(body string) answer {
		return s.post("stripe", "/v1/charges", body, "Content-Type", "application/x-www-form-urlencoded", "Stoplog-Operation", `"order-17"`)
	}
	first := charge("amount=2000&currency=usd&source=tok_visa")
	if first.status != 200 {
		t.Fatalf("%d %s", first.status, first.body)
	}
	for _, other := range []string{"amount=2001&currency=usd&source=tok_visa", "amount=2000&currency=usd&source=tok_visa&metadata[a]=b"} {
		if a := charge(other); a.problem(t).Reason != "idempotency_mismatch" {
			t.Errorf("%s: %d %s, want idempotency_mismatch", other, a.status, a.body)
		}
	}
	if again := charge("amount=2000&currency=usd&source=tok_visa"); again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same again: %d %s, want the recorded answer", again.status, again.body)
	}
	if n := len(s.fleet.Effects("stripe")); n != 1 {
		t.Errorf("%d charges, want 1", n)
	}
}

// The key is the agent's own and stays it over all attempts (stripe/stripe-ruby#503).
func TestKeyIsStableOverAttempts(t *testing.T) {
	s := start(t, []dest{{name: "stripe", attempts: 3}})
	if err := s.fleet.AddFault(fakevendor.Fault{Vendor: "stripe", Method: "POST", Kind: fakevendor.CutBeforeEffect, Times: 2}); err != nil {
		t.Fatal(err)
	}
	a := s.post("stripe", "/v1/charges", "amount=2000&currency=usd&source=tok_visa", "Content-Type", "application/x-www-form-urlencoded", "Idempotency-Key", "order-18")
	if a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	got := s.fleet.Requests("stripe")
	if len(got) != 3 {
		t.Errorf("%d requests on the wire, want 3", len(got))
	}
	for _, r := range got {
		if k := r.Header.Values("Idempotency-Key"); len(k) != 1 || k[0] != "order-18" || string(r.Body) != string(got[0].Body) {
			t.Errorf("attempt with key %q and body %q", k, r.Body)
		}
	}
}
