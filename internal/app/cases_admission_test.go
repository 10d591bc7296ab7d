package app_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/fakevendor"
)

// Clients that leave say nothing about a healthy vendor; a vendor that lets them wait does (tsouza/cerberus#738,
// cockroachdb/cockroach#35433, apache/brpc#3532).
func TestLeavingClientsOpenNoBreaker(t *testing.T) {
	arrived := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			arrived <- struct{}{}
			<-r.Context().Done()
		case "/hangs":
			<-r.Context().Done()
		}
	})
	s := start(t, []dest{{name: "generic", url: url, breaker: once, perAttempt: "0.03s"}, {name: "patient", profile: "generic", url: url, breaker: once, total: "5s"}})
	for range 6 {
		gone := make(chan struct{})
		out := s.leaving(gone, "GET", s.URL("patient")+"/slow", "")
		<-arrived
		close(gone)
		<-out
	}
	for _, r := range s.ended("patient", 6) {
		if r.Outcome.Health != stoplog.HealthNeutral {
			t.Errorf("a client that left counts as %s", r.Outcome.Health)
		}
	}
	if a := s.do("GET", s.URL("patient")+"/ok", ""); a.status != 200 {
		t.Errorf("after six clients left: %d %s", a.status, a.body)
	}
	for range 6 {
		if a := s.do("GET", s.URL("generic")+"/hangs", ""); a.problem(t).Reason != "upstream_timeout" {
			t.Fatalf("%d %s, want upstream_timeout", a.status, a.body)
		}
	}
	if a := s.do("GET", s.URL("generic")+"/ok", ""); a.problem(t).Reason != "breaker_open" {
		t.Errorf("after six time-outs: %d %s, want breaker_open", a.status, a.body)
	}
}

// One caller's 400 and 429 cost that caller only (sgl-project/sglang#25811, coder/aibridge#276, vllm-project/router#60).
func TestOneCallersMistakesCostNoOther(t *testing.T) {
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b := bodyText(r)
		for word, status := range map[string]int{"bad": 400, "many": 429, "who": 401, "may not": 403} {
			if strings.Contains(b, word) {
				w.WriteHeader(status)
			}
		}
		io.WriteString(w, "{}")
	})
	s := start(t, []dest{{name: "openai", url: url, breaker: once}}, withNeighbour(t, "careful", "openai"))
	var wg sync.WaitGroup
	for _, word := range []string{"bad", "many", "who", "may not"} {
		for range 20 {
			wg.Go(func() { s.post("openai", "/v1/chat/completions", strings.Replace(call, "hi", word, 1)) })
		}
	}
	wg.Wait()
	if a := s.do("POST", s.BoundURL("openai")+"/v1/chat/completions", call); a.status != 200 {
		t.Errorf("the other tenant: %d %s", a.status, a.body)
	}
	health := map[stoplog.Health]int{}
	for _, r := range s.ended("openai", 81) {
		health[r.Outcome.Health]++
	}
	if health[stoplog.HealthBad] != 0 || health[stoplog.HealthThrottled] != 20 || health[stoplog.HealthNeutral] != 60 {
		t.Errorf("counted %v, want 60 neutral, 20 throttled, none bad", health)
	}
}

// A probe that never answers keeps nobody from recovering, and few ask a vendor that is down (sony/gobreaker#30, #49;
// safe-global/safe-client-gateway#3442).
func TestHungProbe(t *testing.T) {
	var down, hung atomic.Bool
	var n atomic.Int64
	down.Store(true)
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		if down.Load() {
			w.WriteHeader(503)
			return
		}
		if !hung.Swap(true) {
			<-r.Context().Done()
		}
	})
	s := start(t, []dest{{name: "generic", url: url, breaker: quick, total: "5s"}})
	get := func() answer { return s.do("GET", s.URL("generic")+"/items/1", "") }
	for range 6 {
		get()
	}
	down.Store(false)
	n.Store(0)
	gone := make(chan struct{})
	defer close(gone)
	eventually(t, "the first probe hangs", func() bool {
		s.leaving(gone, "GET", s.URL("generic")+"/items/1", "")
		return hung.Load()
	})
	var wg sync.WaitGroup
	begin := time.Now()
	for range 100 {
		wg.Go(func() { get() })
	}
	wg.Wait()
	eventually(t, "it has recovered", func() bool { return get().status == 200 })
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("recovered after %v, behind the probe that hangs", took)
	}
}

// A cost above the bucket is refused for good: no Retry-After, nothing taken (golang/go#16854, golang/time#22).
func TestCostAboveTheBucket(t *testing.T) {
	s := start(t, []dest{{name: "openai", requests: "{capacity: 10, refill_tokens: 10, refill_interval: 1s}, model_tokens: {capacity: 900, refill_tokens: 1, refill_interval: 60s}"}})
	for range 5 {
		a := s.post("openai", "/v1/chat/completions", call) // up to 1,000 tokens
		if a.problem(t).Reason != "cost_exceeds_burst" || a.header.Get("Retry-After") != "" || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d %v %s, want a refusal that nobody retries", a.status, a.header, a.body)
		}
	}
	if a := s.post("openai", "/v1/chat/completions", strings.Replace(call, "1000", "850", 1)); a.status != 200 {
		t.Errorf("a call that fits: %d %s; the refused ones took tokens", a.status, a.body)
	}
}

// Waits that end early leave no reservation behind (thrasher-corp/gocryptotrader#2363): the next token goes to who comes next.
func TestCancelledWaitsTakeNothing(t *testing.T) {
	var n atomic.Int64
	url := upstream(t, func(http.ResponseWriter, *http.Request) { n.Add(1) })
	s := start(t, []dest{{name: "generic", url: url, requests: "{capacity: 1, refill_tokens: 1, refill_interval: 0.2s}"}})
	get := func(h ...string) answer { return s.do("GET", s.URL("generic")+"/items/1", "", h...) }
	if a := get(); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for i := range 5 {
		if a := get("Stoplog-Intent", `"short-`+itoa(i)+`";dl=10`); a.status == 200 {
			t.Fatal("a call with 10 ms went through an empty bucket: the test proves nothing")
		}
	}
	if a := get(); a.status != 200 || n.Load() != 2 { // it waits for the one token; six would take more than a second
		t.Errorf("%d %s after %d requests", a.status, a.body, n.Load())
	}
}

// A request that one limit refuses drains no other (envoyproxy/ratelimit#1060, solo-io/gloo#10613): the seats of one tenant are
// taken, 200 of its requests are refused, and the destination's requests are still there for the other.
func TestRefusedRequestsDrainNothing(t *testing.T) {
	release := make(chan struct{})
	var n atomic.Int64
	url := upstream(t, func(http.ResponseWriter, *http.Request) { n.Add(1); <-release })
	open := sync.OnceFunc(func() { close(release) })
	t.Cleanup(open)
	s := start(t, []dest{{name: "generic", url: url, seats: 4, share: 2500, requests: "{capacity: 3, refill_tokens: 1, refill_interval: 600s}"}},
		withNeighbour(t, "other", "generic"))
	first := make(chan answer, 1)
	go func() { first <- s.do("GET", s.URL("generic")+"/1", "") }()
	eventually(t, "the tenant's seat is taken", func() bool { return n.Load() == 1 })
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			if a := s.do("GET", s.URL("generic")+"/2", "", "Stoplog-Intent", unique()+";dl=30"); a.status == 200 {
				t.Error("granted over the tenant's seats")
			}
		})
	}
	wg.Wait()
	other := make(chan answer, 1)
	go func() { other <- s.do("GET", s.BoundURL("generic")+"/3", "") }()
	eventually(t, "the other tenant is served", func() bool { return n.Load() == 2 })
	open()
	if a, b := <-first, <-other; a.status != 200 || b.status != 200 {
		t.Errorf("%d and %d", a.status, b.status)
	}
}

// When all fail at once, no more retries leave than their bucket holds (envoyproxy/envoy#30205, #24937): those who wait to
// try again are counted, too.
func TestRetryBudget(t *testing.T) {
	var n atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) { n.Add(1); w.WriteHeader(500) })
	s := start(t, []dest{{
		name: "generic", url: url, seats: 200, breaker: "{window: 10s, min_requests: 1000, failure_bps: 9900, consecutive_failures: 1000, cooldown: 1s, probes_per_second: 20, close_after: 1}",
		more: "retry: {attempts: 3, bucket: {capacity: 10, refill_tokens: 1, refill_interval: 600s}, min_useful_attempt: 10ms}",
	}})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if a := s.do("GET", s.URL("generic")+"/items/1", ""); a.status != 500 {
				t.Errorf("%d %s, want the vendor's own answer", a.status, a.body)
			}
		})
	}
	wg.Wait()
	if got := n.Load(); got != 110 {
		t.Errorf("%d requests at the vendor, want 100 and the 10 retries", got)
	}
}

// However a call ends, its reservation returns (BerriAI/litellm#30522, #38647, mozilla-ai/otari#128): five calls end badly on a
// budget that holds little more than one, and the sixth is admitted.
func TestEveryEndReturnsItsReservation(t *testing.T) {
	away, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away.Close()
	s := start(t, []dest{{name: "openai", more: "drain: 0.05s"}, {name: "away", profile: "openai", url: "http://" + away.Addr().String()}}, withConfig(`
price_tables: [{name: p, unknown_usd_micros_per_million: 1000000}]
budgets: [{name: tokens, model_tokens: 2500, window: DAY, keyed_by: [TENANT], hard: true}]
`))
	ask := func(d string) answer { return s.post(d, "/v1/chat/completions", call) }
	for _, f := range []fakevendor.Fault{
		{Kind: fakevendor.Status, Status: 401}, {Kind: fakevendor.Status, Status: 400}, {Kind: fakevendor.RateLimited, RetryAfter: "0"},
	} {
		f.Vendor, f.Times = "openai", 1
		if err := s.fleet.AddFault(f); err != nil {
			t.Fatal(err)
		}
		if a := ask("openai"); a.status < 400 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	for range 3 {
		if a := ask("away"); a.problem(t).Reason != "upstream_unreachable" {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	leave() // gone before anything was taken, or while it was
	doCtx(t, ctx, "POST", s.URL("openai")+"/v1/chat/completions", call)
	eventually(t, "nothing is held", func() bool {
		b, err := s.operator().Budgets(t.Context())
		return err == nil && len(b) == 1 && b[0].Held == 0
	})
	if a := ask("openai"); a.status != 200 {
		t.Errorf("%d %s, want the next call admitted", a.status, a.body)
	}
}

// Each subject has the default budget from its first call on, and eight at once share it (BerriAI/litellm#34732, #40095).
func TestFirstCallsShareABudget(t *testing.T) {
	release := make(chan struct{})
	var n atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		drain(r)
		n.Add(1)
		<-release
		io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20}}`)
	})
	open := sync.OnceFunc(func() { close(release) })
	t.Cleanup(open)
	s := start(t, []dest{{name: "openai", url: url}}, withNeighbour(t, "never-seen", "openai"), withConfig(`
price_tables: [{name: p, unknown_usd_micros_per_million: 1000000}]
budgets: [{name: tokens, model_tokens: 3400, window: DAY, keyed_by: [TENANT], hard: true}]
`))
	var wg sync.WaitGroup
	var refused atomic.Int64
	for range 8 { // about 1,020 tokens each: three fit
		wg.Go(func() {
			if a := s.do("POST", s.BoundURL("openai")+"/v1/chat/completions", call); strings.Contains(a.body, "budget_exhausted") {
				if refused.Add(1) == 5 {
					open()
				}
			}
		})
	}
	wg.Wait()
	if n.Load() != 3 || refused.Load() != 5 {
		t.Errorf("%d sent, %d refused; want 3 and 5", n.Load(), refused.Load())
	}
}
