package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/app"
	"github.com/stoplog/stoplog/receipts"
)

// raw sends bytes over a connection of its own and returns what comes back.
func (s *sidecar) raw(request string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(strings.TrimSuffix(s.URL("generic"), "/generic"), "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		s.t.Fatal(err)
	}
	b, _ := io.ReadAll(bufio.NewReader(c))
	return string(b)
}

// What two parsers can read in two ways is refused, the connection closed, and nothing reaches the vendor (golang/go#71988,
// sozu-proxy/sozu#726, golang/go#54663, golang/go#50243).
func TestAmbiguousRequests(t *testing.T) {
	s := start(t, []dest{{name: "generic"}})
	head := "POST /generic/items HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct{ request, reason string }{
		"chunked and length": {head + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "ambiguous_framing"},
		"LF after a size":    {head + "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n", "ambiguous_framing"},
		"CR before chunked":  {head + "Transfer-Encoding: \rchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "ambiguous_framing"},
		"two lengths":        {head + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "ambiguous_framing"},
		"LF only":            {strings.ReplaceAll(head, "\r\n", "\n") + "Content-Length: 2\n\n{}", "ambiguous_framing"},
		"query":              {"POST /generic/items?a=1;a=2 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "ambiguous_query"},
		"path":               {"POST /generic/x/../items HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "ambiguous_path"},
		"hidden slash":       {"POST /generic%2Fitems HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "unknown_destination"},
		"host":               {"POST /generic/items HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "ambiguous_host"},
		"method override":    {"POST /generic/items HTTP/1.1\r\nHost: 127.0.0.1\r\nX-HTTP-Method-Override: DELETE\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "method_override"},
		"absolute form":      {"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", "unknown_destination"},
		"duplicate key":      {head + "Connection: close\r\nContent-Length: 25\r\n\r\n" + `{"a":"C_OK","\u0061":"C_"}`[:25], "malformed_body"},
	} {
		if name == "duplicate key" {
			body := `{"channel":"C_OK","chann\u0065l":"C_EVIL"}`
			c.request = head + "Connection: close\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body
			c.reason = "duplicate_key"
		}
		got := s.raw(c.request)
		if !strings.Contains(got, `"reason":"`+c.reason+`"`) {
			t.Errorf("%s: %q, want %s", name, got, c.reason)
		}
		if c.reason != "unknown_destination" && !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("%s: %.40q, want 400", name, got)
		}
	}
	if n := len(s.fleet.Requests("generic")); n != 0 {
		t.Errorf("%d requests reached the vendor", n)
	}
	eventually(t, "each has a receipt", func() bool {
		return len(s.find(func(r *receipts.Receipt) bool { return r.Decided && r.Verdict == stoplog.Deny })) >= 12
	})
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }

// A body that is not inspected is not forwarded: too large is refused before it is read.
func TestBodyTooLarge(t *testing.T) {
	s := start(t, []dest{{name: "generic", more: "max_request_bytes: 100"}})
	body := `{"a":"` + strings.Repeat("x", 200) + `"}`
	if a := s.post("generic", "/items", body); a.status != 413 || a.problem(t).Reason != "body_too_large" {
		t.Errorf("declared: %d %s", a.status, a.body)
	}
	req, _ := http.NewRequest("POST", s.URL("generic")+"/items", io.MultiReader(strings.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 413 || len(s.fleet.Requests("generic")) != 0 {
		t.Errorf("chunked: %d, %d requests at the vendor", resp.StatusCode, len(s.fleet.Requests("generic")))
	}
}

// A client cannot name headers away that matter (golang/go#50580), Stoplog's own headers stay here, and the body is byte for
// byte what was sent (aws/mcp-proxy-for-aws#313).
func TestHeaders(t *testing.T) {
	var got http.Header
	var body string
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		got, body = r.Header.Clone(), string(drain(r))
		w.Header().Set("Stoplog-Decision", "forged")
		w.Header().Set("X-Vendor", "1")
		io.WriteString(w, "{}")
	})
	s := start(t, []dest{{name: "generic", url: url}})
	a := s.post("generic", "/items", `{ "a" : 1 }`, "Connection", "Idempotency-Key, X-Mine", "Idempotency-Key", "k", "X-Mine", "1", "X-Kept", "1",
		"Stoplog-Operation", `"op1"`, "Authorization", "Bearer secret", "X-Forwarded-For", "1.2.3.4", "Baggage", "a=b")
	if got.Get("Idempotency-Key") != "k" || got.Get("X-Kept") != "1" || got.Get("Authorization") != "Bearer secret" {
		t.Errorf("the vendor got %v", got)
	}
	for _, h := range []string{"X-Mine", "Stoplog-Operation", "X-Forwarded-For", "Baggage", "Connection"} {
		if got.Get(h) != "" {
			t.Errorf("%s was forwarded: %q", h, got.Get(h))
		}
	}
	if body != `{ "a" : 1 }` {
		t.Errorf("body %q", body)
	}
	if a.header.Get("Stoplog-Decision") != "allow" || a.header.Get("X-Vendor") != "1" || a.header.Get("Stoplog-Receipt") == "" {
		t.Errorf("the agent got %v", a.header)
	}
}

// A redirect is the agent's to follow, through its own admission (golang/go#10767, #70180); links that point back to a
// destination are mapped, others are flagged.
func TestRedirectsAndLinks(t *testing.T) {
	var hits atomic.Int64
	url := ""
	h := func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		switch r.URL.Path {
		case "/items":
			w.Header().Set("Location", "https://evil.example/x")
			w.WriteHeader(307)
		default:
			w.Header().Set("Link", `<`+url+`/items?page=2>; rel="next", <https://evil.example/y>; rel="last"`)
			w.Header().Set("Location", "/items/7")
		}
	}
	url = upstream(t, h)
	s := start(t, []dest{{name: "generic", url: url}})
	a := s.post("generic", "/items", `{"a":1}`, "Authorization", "Bearer secret")
	if a.status != 307 || a.header.Get("Location") != "https://evil.example/x" || hits.Load() != 1 {
		t.Errorf("%d %q after %d requests, want the 307 as it is", a.status, a.header.Get("Location"), hits.Load())
	}
	a = s.do("GET", s.URL("generic")+"/items/7", "")
	if want := `<` + s.URL("generic") + `/items?page=2>; rel="next", <https://evil.example/y>; rel="last"`; a.header.Get("Link") != want {
		t.Errorf("Link %q, want %q", a.header.Get("Link"), want)
	}
	if a.header.Get("Location") != "/generic/items/7" {
		t.Errorf("Location %q, want it under the destination's prefix", a.header.Get("Location"))
	}
	eventually(t, "both are flagged", func() bool {
		return len(s.find(func(r *receipts.Receipt) bool { return has(r.Flags, "link_outside") })) == 2
	})
}

// The address that is dialled decides, not the name in the configuration; observing enforces nothing, except this.
func TestAddressDenied(t *testing.T) {
	var asked atomic.Int64
	for _, observe := range []bool{false, true} {
		s := start(t, []dest{{name: "generic", url: "http://vendor.test:8080", more: "max_request_bytes: 1000"}}, func(s *sidecar, o *app.Options) {
			o.Observe = observe
			o.Resolve = func(context.Context, string) ([]netip.Addr, error) {
				asked.Add(1)
				return []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("169.254.169.254")}, nil
			}
		})
		if a := s.do("GET", s.URL("generic")+"/items", ""); a.status != 403 || a.problem(t).Reason != "address_denied" || a.problem(t).Sent != "none" {
			t.Errorf("observing %v: %d %s, want address_denied", observe, a.status, a.body)
		}
		if a := s.post("generic", "/items", `{"a":1}`); a.problem(t).Reason != "address_denied" {
			t.Errorf("observing %v: a write: %d %s, want address_denied", observe, a.status, a.body)
		}
	}
	if asked.Load() == 0 {
		t.Error("the name was never looked up")
	}
}

// Observing judges and records; what would have been refused passes and says so.
func TestObserve(t *testing.T) {
	s := start(t, []dest{{name: "slack"}}, withOptions(func(o *app.Options) { o.Observe = true }))
	s.raise("fleet", stoplog.L3)
	a := s.post("slack", "/api/chat.postMessage", `{"channel":"C0GENERAL","text":"x"}`)
	if a.status != 200 || !strings.Contains(a.header.Get("Stoplog-Decision"), "observed;would=hold") {
		t.Errorf("%d %v, want it sent and marked", a.status, a.header)
	}
	if n := len(s.fleet.Effects("slack")); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeDispatching })
	if len(rs) != 1 || !rs[0].Observe || rs[0].Verdict != stoplog.Hold {
		t.Errorf("receipts %+v, want an observed hold", rs)
	}
}

// Nothing that knows only ports can lower, release or change anything.
func TestPortsAloneChangeNothing(t *testing.T) {
	s := start(t, []dest{{name: "slack"}})
	s.raise("fleet", stoplog.L1)
	s.post("slack", "/api/chat.postMessage", `{"channel":"C0GENERAL","text":"x"}`)
	agent := strings.TrimSuffix(s.URL("slack"), "/slack")
	holds, err := s.operator().Holds(t.Context())
	if err != nil || len(holds) != 1 {
		t.Fatalf("holds: %v, %v", holds, err)
	}
	id := holds[0].ID
	for _, base := range []string{agent, s.AdminURL()} {
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/v1/levels", `{"scope":"fleet","level":"L0","reason":"x"}`},
			{"POST", "/v1/holds/" + id + ":release", `{"reason":"x"}`},
			{"POST", "/v1/holds/" + id + ":withdraw", `{"reason":"x"}`},
			{"POST", "/v1/holds:release", `{"reason":"x"}`},
			{"POST", "/v1/breakers/slack:force", `{"state":"half_open","reason":"x"}`},
			{"POST", "/v1/config:reload", `{}`},
			{"GET", "/v1/holds", ""},
			{"GET", "/v1/receipts", ""},
			{"GET", "/v1/budgets", ""},
		} {
			for _, h := range [][]string{nil, {"Authorization", "Bearer guess"}, {"Stoplog-Operator", "true"}} {
				if a := s.do(c.method, base+c.path, c.body, h...); a.status < 400 {
					t.Errorf("%s %s%s %v: %d %s", c.method, base, c.path, h, a.status, a.body)
				}
			}
		}
	}
	if after, err := s.operator().Holds(t.Context()); err != nil || len(after) != 1 {
		t.Errorf("holds afterwards: %v, %v", after, err)
	}
	if a := s.post("slack", "/api/chat.postMessage", `{"channel":"C2","text":"y"}`); !strings.Contains(a.body, "held") {
		t.Errorf("the level moved: %s", a.body)
	}
}

// No credential is anywhere under the data directory or in the log (BerriAI/litellm#35678, NousResearch/hermes-agent#50407).
func TestNoSecretIsKept(t *testing.T) {
	var log syncBuffer
	s := start(t, []dest{{name: "slack", more: "hold: {keep_agent_credential: true}"}, {name: "generic"}}, withOptions(func(o *app.Options) { o.LogOut = &log }))
	secrets := []string{"xoxb-SECRET-1", "sk-SECRET-2", "SECRET-3", "SECRET-4", "SECRET-5"}
	s.post("generic", "/items?token="+secrets[3], `{"a":1}`, "Authorization", "Bearer "+secrets[1], "X-Api-Key", secrets[2], "Cookie", "sid="+secrets[4])
	s.raise("fleet", stoplog.L1)
	s.post("slack", "/api/chat.postMessage", `{"channel":"C0GENERAL","text":"x"}`, "Authorization", "Bearer "+secrets[0]) // held with its credential
	s.all()
	files := 0
	err := filepath.WalkDir(s.DataDir(), func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		files++
		for _, x := range secrets {
			if strings.Contains(string(b), x) {
				t.Errorf("%s holds %s", p, x)
			}
		}
		return err
	})
	if err != nil || files < 3 {
		t.Fatalf("walked %d files: %v", files, err)
	}
	for _, x := range secrets {
		if strings.Contains(log.String(), x) {
			t.Errorf("the log holds %s", x)
		}
	}
}

// What is denied as unknown or unclassified names the lines to add.
func TestRefusalsNameTheLinesToAdd(t *testing.T) {
	s := start(t, []dest{{name: "openai", more: "unnamed_operations: DENY"}})
	a := s.do("POST", strings.Replace(s.URL("openai"), "/openai", "/notion", 1)+"/v1/pages", `{}`)
	if p := a.problem(t); p.Reason != "unknown_destination" || !strings.Contains(p.Detail, "`- name: notion`") {
		t.Errorf("%d %+v", a.status, p)
	}
	a = s.post("openai", "/v1/brand-new/thing/3f9a7c55e0d14b2ab", `{}`)
	if p := a.problem(t); p.Reason != "unclassified" || !strings.Contains(p.Detail, `methods: [POST], path: "/v1/brand-new/thing/{id}", class: WRITE`) {
		t.Errorf("%d %+v", a.status, p)
	}
}

// Observing enforces no idempotency either, and says what it would have done.
func TestObserveKnownOperation(t *testing.T) {
	s := start(t, []dest{{name: "generic"}}, withOptions(func(o *app.Options) { o.Observe = true }))
	for range 2 {
		if a := s.post("generic", "/items", `{"a":1}`, "Idempotency-Key", "k"); a.status/100 != 2 || a.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if n := len(s.fleet.Requests("generic")); n != 2 {
		t.Errorf("%d requests at the vendor, want 2", n)
	}
	rs := s.find(func(r *receipts.Receipt) bool { return r.Observe && r.Type == receipts.TypeDispatching })
	if len(rs) != 1 || rs[0].Reason != stoplog.ReasonKnownOperation {
		t.Errorf("receipts %+v, want one observed replay", rs)
	}
}
