package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoplog/stoplog/internal/fakevendor"
	"github.com/stoplog/stoplog/receipts"
)

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

const call = `{"model":"tiny","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]}`

// Parallel calls never overspend a hard budget (BerriAI/litellm#34732, #40095), and every path gives back what it took
// (BerriAI/litellm#30522, #36592): after refusals, errors and truncation the account holds nothing.
func TestBudgetUnderParallelCalls(t *testing.T) {
	s := start(t, []dest{{name: "openai", seats: 100}}, withConfig(`
price_tables: [{name: p, unknown_usd_micros_per_million: 100000000, prices: [{model: "tiny*", input_usd_micros_per_million: 1000000, output_usd_micros_per_million: 1000000}]}]
budgets: [{name: money, spend_usd_micros: 5000, window: DAY, keyed_by: [TENANT], hard: true}]
`))
	var wg sync.WaitGroup
	var ok, refused atomic.Int64
	for range 64 {
		wg.Go(func() {
			a := s.post("openai", "/v1/chat/completions", call)
			switch {
			case a.status == 200:
				ok.Add(1)
			case strings.Contains(a.body, "budget_exhausted"):
				refused.Add(1)
			default:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	wg.Wait()
	if ok.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d passed, %d refused; want some of both", ok.Load(), refused.Load())
	}
	for _, f := range []fakevendor.Fault{
		{Kind: fakevendor.Status, Status: 401}, {Kind: fakevendor.CutBeforeEffect}, {Kind: fakevendor.CutMidBody}, {Kind: fakevendor.Garbage},
	} {
		f.Vendor, f.Times = "openai", 1
		if err := s.fleet.AddFault(f); err != nil {
			t.Fatal(err)
		}
		s.post("openai", "/v1/chat/completions", call)
	}
	eventually(t, "everything is settled", func() bool {
		b, err := s.operator().Budgets(t.Context())
		if err != nil || len(b) != 1 {
			t.Fatalf("budgets: %v, %v", b, err)
		}
		if b[0].Used+b[0].Held > b[0].Limit {
			t.Fatalf("overspent: %+v", b[0])
		}
		return b[0].Held == 0
	})
}

// An unknown price is the configured ceiling, never zero (BerriAI/litellm#36561, #24949).
func TestUnknownPrice(t *testing.T) {
	s := start(t, []dest{{name: "openai"}}, withConfig(`
price_tables: [{name: p, unknown_usd_micros_per_million: 10000000, prices: [{model: tiny, input_usd_micros_per_million: 1000000, output_usd_micros_per_million: 1000000}]}]
budgets: [{name: money, spend_usd_micros: 100000000, window: DAY, keyed_by: [TENANT]}]
`))
	if a := s.post("openai", "/v1/chat/completions", strings.Replace(call, "tiny", "new-model-x", 1)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	eventually(t, "settled at the ceiling", func() bool {
		rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeOutcome && len(r.Budgets) == 1 })
		return len(rs) == 1 && rs[0].Budgets[0].Actual == rs[0].Outcome.Usage.Total()*10
	})
}

// A stream without usage is counted, never free (BerriAI/litellm#3490, lmstudio-ai/lmstudio-js#184), and the body is not altered
// to ask for it.
func TestStreamWithoutUsage(t *testing.T) {
	var sent string
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		sent = string(drain(r))
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 50 {
			io.WriteString(w, frame(i))
		}
		io.WriteString(w, "data: [DONE]\n\n")
	})
	s := start(t, []dest{{name: "openai", url: url}})
	s.post("openai", "/v1/chat/completions", chat)
	if sent != chat {
		t.Errorf("the vendor got %s", sent)
	}
	eventually(t, "estimated usage", func() bool {
		rs := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeOutcome })
		return len(rs) == 1 && rs[0].Outcome.Usage.Estimated && rs[0].Outcome.Usage.Output >= 50
	})
}

// Layers of retries do not multiply (10-X-eng/vibecad#177, NousResearch/hermes-agent#53918): the vendor sees no more than the
// intent's attempts in total; after that every call with the intent is refused here.
func TestIntentBoundsAllLayers(t *testing.T) {
	var n atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) { drain(r); n.Add(1); w.WriteHeader(503) })
	s := start(t, []dest{{name: "openai", url: url, attempts: 2}})
	var last answer
	for range 18 {
		last = s.post("openai", "/v1/chat/completions", call, "Stoplog-Intent", `"wish-1"`)
	}
	if n.Load() != 2 {
		t.Errorf("%d attempts at the vendor, want 2", n.Load())
	}
	if p := last.problem(t); p.Reason != "attempts_used" || last.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %+v", last.status, p)
	}
	// The official clients number their own retries: those join the intent of the first try.
	n.Store(0)
	for i := range 4 {
		s.post("openai", "/v1/chat/completions", strings.Replace(call, "hi", "ho", 1), "X-Stainless-Retry-Count", fmt.Sprint(i))
	}
	if n.Load() != 2 {
		t.Errorf("%d attempts at the vendor for the client's retries, want 2", n.Load())
	}
}

// Each further attempt has less time, none begins without a useful rest, and the intent ends at its deadline
// (envoyproxy/envoy#13196).
func TestDeadlineCoversAllAttempts(t *testing.T) {
	var n atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) { drain(r); n.Add(1); <-r.Context().Done() })
	s := start(t, []dest{{name: "generic", url: url, total: "250ms", perAttempt: "100ms", attempts: 5}})
	begin := time.Now()
	a := s.do("GET", s.URL("generic")+"/items/1", "")
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if a.status != 504 || n.Load() > 3 {
		t.Errorf("%d after %d attempts, want 504 after at most 3", a.status, n.Load())
	}
	// A header may only shorten it.
	n.Store(0)
	s.do("GET", s.URL("generic")+"/items/1", "", "Stoplog-Intent", `"i2";dl=60`)
	if n.Load() != 1 {
		t.Errorf("%d attempts within 60 ms, want 1", n.Load())
	}
}

// Clients that leave say nothing about the vendor (tsouza/cerberus#738), one caller's mistakes do not close it to others
// (sgl-project/sglang#25811), and one broken operation does not stop the rest (samosa-ai-com/opencode-go-multi-auth#6).
func TestBreakerCountsOnlyTheVendor(t *testing.T) {
	var status atomic.Int64
	status.Store(200)
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b := string(drain(r))
		if strings.Contains(b, "broken") {
			w.WriteHeader(500)
			return
		}
		w.WriteHeader(int(status.Load()))
		io.WriteString(w, `{}`)
	})
	breaker := "{window: 10s, min_requests: 20, failure_bps: 5000, consecutive_failures: 3, cooldown: 60s, probes_per_second: 20, close_after: 1}"
	s := start(t, []dest{{name: "openai", url: url, breaker: breaker}})
	for _, code := range []int64{400, 429, 401} {
		status.Store(code)
		for range 6 {
			s.post("openai", "/v1/chat/completions", call)
		}
	}
	status.Store(200)
	eventually(t, "the bucket has cooled and calls pass", func() bool {
		return s.post("openai", "/v1/chat/completions", call).status == 200
	})
	for range 4 {
		s.post("openai", "/v1/chat/completions", strings.Replace(call, "tiny", "broken", 1))
	}
	if a := s.post("openai", "/v1/chat/completions", strings.Replace(call, "tiny", "broken", 1)); !strings.Contains(a.body, "breaker_open") {
		t.Errorf("the broken model: %d %s, want breaker_open", a.status, a.body)
	}
	if a := s.post("openai", "/v1/chat/completions", call); a.status != 200 {
		t.Errorf("another model: %d %s", a.status, a.body)
	}
}

// A destination without answers opens its breaker; calls are refused without being sent; probes close it again.
func TestBreakerOpensAndRecovers(t *testing.T) {
	var down atomic.Bool
	var n atomic.Int64
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		if down.Load() {
			w.WriteHeader(503)
			return
		}
		io.WriteString(w, "{}")
	})
	s := start(t, []dest{{name: "generic", url: url, breaker: "{window: 10s, min_requests: 100, failure_bps: 9000, consecutive_failures: 3, cooldown: 0.2s, probes_per_second: 20, close_after: 1}"}})
	get := func() answer { return s.do("GET", s.URL("generic")+"/items/1", "") }
	down.Store(true)
	for range 3 {
		get()
	}
	before := n.Load()
	a := get()
	if p := a.problem(t); p.Reason != "breaker_open" || a.status != 503 || a.header.Get("Retry-After") == "" || n.Load() != before {
		t.Errorf("%d %+v; %d requests while open", a.status, p, n.Load()-before)
	}
	down.Store(false)
	eventually(t, "it recovers", func() bool { return get().status == 200 })
	eventually(t, "its moves are recorded", func() bool {
		moves := s.find(func(r *receipts.Receipt) bool { return r.Type == receipts.TypeBreaker })
		return len(moves) >= 3 && moves[0].Breaker == "open" && moves[len(moves)-1].Breaker == "closed"
	})
}

// A destination that fails as a whole opens for every operation, not one by one.
func TestBreakerOfTheWholeDestination(t *testing.T) {
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) { drain(r); panic(http.ErrAbortHandler) })
	s := start(t, []dest{{name: "github", url: url, breaker: "{window: 10s, min_requests: 100, failure_bps: 9000, consecutive_failures: 3, cooldown: 60s, probes_per_second: 20, close_after: 1}"}})
	for _, path := range []string{"/repos/o/r/issues", "/repos/o/r/pulls", "/user"} {
		s.do("GET", s.URL("github")+path, "")
	}
	if a := s.do("GET", s.URL("github")+"/repos/o/r/commits", ""); a.problem(t).Reason != "breaker_open" {
		t.Errorf("%d %s, want breaker_open", a.status, a.body)
	}
}
