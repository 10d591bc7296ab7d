package app_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/app"
	"github.com/stoplog/stoplog/receipts"
)

// A configuration is taken up whole or not at all, and says so.
func TestReload(t *testing.T) {
	s := start(t, []dest{{name: "generic"}})
	get := func() answer { return s.do("GET", s.URL("generic")+"/items", "") }
	first := s.Snapshot().Version()
	s.extra = "\npolicies: [{name: no-reads, selector: {classes: [READ]}, deny: {message: not today}}]\n"
	s.write()
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if a := get(); a.status != 403 || a.problem(t).Reason != "policy_denied" || !strings.Contains(a.problem(t).Detail, "not today") {
		t.Errorf("%d %s, want policy_denied", a.status, a.body)
	}
	second := s.Snapshot().Version()
	s.extra = "\npolicies: [{name: no-reads, selector: {classes: [READ]}, deny: {mesage: typo}}]\n"
	s.write()
	err := s.Reload()
	if err == nil || !strings.Contains(err.Error(), "mesage") || !strings.Contains(err.Error(), "stoplog.yaml:") {
		t.Errorf("a bad file: %v, want its place and the key", err)
	}
	if s.Snapshot().Version() != second || get().status != 403 {
		t.Error("a bad file changed what is in force")
	}
	s.extra = ""
	s.write()
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if s.Snapshot().Version() != first || get().status != 200 {
		t.Error("the first configuration is not back")
	}
	n := len(s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypePolicy }))
	if n != 3 { // start, and two that came into force
		t.Errorf("%d receipts of configurations, want 3", n)
	}
}

// A changed file is taken up by itself.
func TestFileChange(t *testing.T) {
	s := start(t, []dest{{name: "generic"}})
	s.extra = "\npolicies: [{name: no-reads, selector: {classes: [READ]}, deny: {}}]\n"
	s.write()
	eventually(t, "the change is in force", func() bool { return s.do("GET", s.URL("generic")+"/items", "").status == 403 })
}

// At the end new effects are refused, those in flight end, and the log is sealed.
func TestDrain(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		close(arrived)
		<-release
		io.WriteString(w, "{}")
	})
	s := start(t, []dest{{name: "generic", url: url}})
	done := make(chan answer)
	go func() { done <- s.post("generic", "/items", `{"a":1}`) }()
	<-arrived
	closed := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		closed <- s.Close(ctx)
	}()
	eventually(t, "new effects are refused", func() bool {
		a := s.post("generic", "/items", `{"a":2}`)
		return a.err == nil && a.status == 503 && a.problem(t).Reason == "draining"
	})
	close(release)
	if a := <-done; a.status != 200 {
		t.Errorf("in flight: %d %s", a.status, a.body)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	last := receipts.Type("")
	for e, err := range receipts.OpenReader(s.DataDir()).Select(t.Context(), receipts.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		last = e.Receipt.Type
	}
	if last != receipts.TypeLogSeal {
		t.Errorf("the last receipt is %s, want the seal", last)
	}
}

// What was spent and which level was set survives a restart (spoo-me/spoo#324).
func TestRestartForgetsNeitherMoneyNorLevels(t *testing.T) {
	yaml := withConfig(`
price_tables: [{name: p, unknown_usd_micros_per_million: 1000000}]
budgets: [{name: tokens, model_tokens: 1000, window: MONTH, keyed_by: [TENANT]}]
`)
	data, err := os.MkdirTemp("", "sl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	here := withOptions(func(o *app.Options) { o.Data = data })
	var n atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		n.Add(1)
		io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":400,"completion_tokens":500,"total_tokens":900}}`)
	})
	body := `{"model":"tiny","max_tokens":10,"messages":[{"role":"user","content":"hi"}]}`
	s := start(t, []dest{{name: "openai", url: url}, {name: "slack"}}, yaml, here)
	if a := s.post("openai", "/v1/chat/completions", body); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	s.raise("destination/slack", stoplog.L1)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	s = start(t, []dest{{name: "openai", url: url}, {name: "slack"}}, yaml, here)
	b, err := s.operator().Budgets(t.Context())
	if err != nil || len(b) != 1 || b[0].Used != 900 {
		t.Errorf("budgets after the restart: %+v, %v; want 900 used", b, err)
	}
	if a := s.post("slack", "/api/chat.postMessage", `{"channel":"C0GENERAL","text":"x"}`); !strings.Contains(a.body, "held") {
		t.Errorf("slack after the restart: %s, want held", a.body)
	}
	big := strings.Replace(body, `"max_tokens":10`, `"max_tokens":200`, 1)
	if a := s.post("openai", "/v1/chat/completions", big); a.status == 200 || n.Load() != 1 {
		t.Errorf("%d: the budget is fresh again", a.status)
	}
}

// The admin port says how things are, without a token and without secrets.
func TestHealthAndMetrics(t *testing.T) {
	s := start(t, []dest{{name: "generic"}})
	s.do("GET", s.URL("generic")+"/items", "")
	for path, want := range map[string]string{
		"/healthz": `"status":"ok"`, "/readyz": `"mode":"single-node"`, "/problems/breaker_open": "breaker",
		"/metrics": `stoplog_decisions_total{class="read",destination="generic",observed="false",reason="allowed",verdict="allow"} 1`,
	} {
		if a := s.do("GET", s.AdminURL()+path, ""); a.status != 200 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d, lacks %q:\n%.500s", path, a.status, want, a.body)
		}
	}
}

// Without a record there is no effect: the receipt log goes away under the sidecar, and it says so.
func TestNoRecordNoEffect(t *testing.T) {
	var n atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) { drain(r); n.Add(1); io.WriteString(w, "{}") })
	s := start(t, []dest{{name: "generic", url: url}})
	s.broken = true
	if err := os.RemoveAll(s.DataDir() + "/log"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "health is red", func() bool { return s.do("GET", s.AdminURL()+"/healthz", "").status == 503 })
	before := n.Load()
	for _, a := range []answer{s.post("generic", "/items", `{"a":1}`), s.do("GET", s.URL("generic")+"/items", "")} {
		if a.status != 503 || a.problem(t).Reason != "evidence_unavailable" {
			t.Errorf("%d %s, want evidence_unavailable", a.status, a.body)
		}
	}
	if n.Load() != before {
		t.Error("an effect left without a record")
	}
}

// A body that trickles in is refused at the destination's deadline.
func TestSlowBody(t *testing.T) {
	s := start(t, []dest{{name: "generic", total: "200ms", perAttempt: "100ms"}})
	r, w := io.Pipe()
	defer w.Close()
	go io.WriteString(w, `{"a":`)
	req, _ := http.NewRequest("POST", s.URL("generic")+"/items", r)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 504 || !strings.Contains(string(b), "deadline_exceeded") {
		t.Errorf("%d %s", resp.StatusCode, b)
	}
}
