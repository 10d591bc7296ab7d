package limit

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

var start = time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)

func wide(l admission.Limit) admission.Limit {
	l.Seats, l.TenantSeats = math.MaxInt64, math.MaxInt64
	return l
}

// For random traffic with returns and debts: what was sent in any interval stays within burst + rate x T, in both
// dimensions, and neither bucket ever holds more than its size.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := wide(admission.Limit{
			Rate: rapid.Float64Range(1, 100).Draw(t, "rate"), Burst: rapid.Float64Range(1, 50).Draw(t, "burst"),
			TokenRate: rapid.Float64Range(1, 5000).Draw(t, "tokenRate"), TokenBurst: rapid.Float64Range(1, 5000).Draw(t, "tokenBurst"),
			RetryRate: 1, RetryBurst: 3,
		})
		type sent struct {
			at       time.Time
			requests float64
			tokens   float64
		}
		var s State
		var all []*sent
		var open []func(now time.Time)
		now := start
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "wait")) >> rapid.IntRange(0, 10).Draw(t, "short"))
			if len(open) > 0 && rapid.Bool().Draw(t, "settle") {
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				open[i](now)
				open = append(open[:i], open[i+1:]...)
				continue
			}
			a := Ask{
				Tenant: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"), Requests: rapid.Int64Range(1, 3).Draw(t, "requests"),
				Tokens: rapid.Int64Range(0, 2000).Draw(t, "tokens"), Retry: rapid.IntRange(0, 9).Draw(t, "retry") == 0,
			}
			slip, refusal := s.Check(now, a, l)
			if refusal.Reason != "" {
				if refusal.RetryIn <= 0 && refusal.Reason != stoplog.ReasonCostExceedsBurst {
					t.Fatalf("%+v does not say when", refusal)
				}
				continue
			}
			s.Take(slip)
			x := &sent{now, float64(a.Requests), float64(a.Tokens)}
			all = append(all, x)
			use := Use{Tokens: rapid.Int64Range(-1, a.Tokens).Draw(t, "used"), NotSent: rapid.Bool().Draw(t, "notSent")}
			open = append(open, func(now time.Time) {
				if use.NotSent {
					x.requests, x.tokens = 0, 0
				} else if use.Tokens >= 0 {
					x.tokens = float64(use.Tokens)
				}
				s.Settle(now, slip, l, use)
			})
			if s.requests.level > l.Burst || s.tokens.level > l.TokenBurst || s.requests.level < -1e-6 {
				t.Fatalf("buckets hold %v of %v and %v of %v", s.requests.level, l.Burst, s.tokens.level, l.TokenBurst)
			}
		}
		for _, settle := range open {
			settle(now)
		}
		for i := range all {
			var requests, tokens float64
			for _, x := range all[i:] {
				requests, tokens = requests+x.requests, tokens+x.tokens
				T := x.at.Sub(all[i].at).Seconds()
				if requests > l.Burst+l.Rate*T+1e-6 {
					t.Fatalf("%v requests in %v s, at most %v", requests, T, l.Burst+l.Rate*T)
				}
				if tokens > l.TokenBurst+l.TokenRate*T+1e-3 {
					t.Fatalf("%v tokens in %v s, at most %v", tokens, T, l.TokenBurst+l.TokenRate*T)
				}
			}
		}
		if s.Seats() != 0 {
			t.Fatalf("%d seats at the end", s.Seats())
		}
	})
}

// The worked example of the README: capacity 100/s, windows of 250 ms; per window A asks for 5 requests, B for 22.5 and C,
// of weight 2, for 500. A fits, and B and C get 62.5 ms of capacity per weight.
func TestWaterLevel(t *testing.T) {
	s := share{level: -1, length: defaultShareWindow, window: 10, tenants: map[string]*tenant{
		"A": {weight: 1, window: 9, asked: 0.050}, "B": {weight: 1, window: 9, asked: 0.225}, "C": {weight: 2, window: 9, asked: 5},
		"long gone": {weight: 5, window: 3, asked: 9},
	}}
	s.pour(0.25)
	if math.Abs(s.level-0.0625) > 1e-12 {
		t.Errorf("level %v, want 0.0625", s.level)
	}
}

// The fast level against a slow twin that pours drop by drop.
func TestWaterLevelTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := share{level: -1, length: defaultShareWindow, window: 1, tenants: map[string]*tenant{}}
		total := 0.0
		for i := range rapid.IntRange(2, 8).Draw(t, "tenants") {
			x := &tenant{weight: rapid.Float64Range(0.5, 4).Draw(t, "weight"), asked: rapid.Float64Range(0, 0.5).Draw(t, "asked")}
			s.tenants[string(rune('a'+i))] = x
			total += x.asked
		}
		s.pour(0.25)
		if total <= 0.25 {
			if s.level >= 0 {
				t.Fatalf("level %v without contention", s.level)
			}
			return
		}
		low, high := 0.0, 1.0
		for range 60 { // the level at which all that is poured is taken
			mid, taken := (low+high)/2, 0.0
			for _, x := range s.tenants {
				taken += min(x.asked, mid*x.weight)
			}
			if taken < 0.25*poured {
				low = mid
			} else {
				high = mid
			}
		}
		if math.Abs(s.level-low) > 1e-9 {
			t.Fatalf("level %v, drop by drop %v", s.level, low)
		}
	})
}

// A tenant that asks for no more than its share is never refused for another's demand, if its bursts fit (the loader's rule).
func TestModestTenantIsServed(t *testing.T) {
	l := wide(admission.Limit{Rate: 1000, Burst: 100})
	var s State
	refused, asked := 0, 0
	for i := range 5000 {
		now := start.Add(time.Duration(i) * time.Millisecond)
		for range 20 {
			slip, r := s.Check(now, Ask{Tenant: "greedy", Requests: 1}, l)
			if r.Reason == "" {
				s.Take(slip)
			}
		}
		if i%10 == 0 && i > 500 {
			slip, r := s.Check(now, Ask{Tenant: "modest", Requests: 1}, l)
			if r.Reason == "" {
				s.Take(slip)
			}
			if i > 800 { // its first window is the price of an empty bucket
				asked++
				if r.Reason != "" {
					refused++
				}
			}
		}
	}
	if refused > 0 {
		t.Errorf("%d of %d refused", refused, asked)
	}
}

// A tenant that asks now and then finds a token each time, although the other keeps asking for everything.
func TestRareTenantIsServed(t *testing.T) {
	l := wide(admission.Limit{Rate: 100, Burst: 20})
	var s State
	for i := range 20_000 {
		now := start.Add(time.Duration(i) * time.Millisecond)
		for range 2 {
			if slip, r := s.Check(now, Ask{Tenant: "greedy", Requests: 1}, l); r.Reason == "" {
				s.Take(slip)
			}
		}
		if i%700 == 350 {
			slip, r := s.Check(now, Ask{Tenant: "rare", Requests: 1}, l)
			if r.Reason == "" {
				s.Take(slip)
			} else if i > 1000 {
				t.Errorf("at %d ms: %+v", i, r)
			}
		}
	}
}

func TestIdleTenantsAreForgotten(t *testing.T) {
	l := wide(admission.Limit{Rate: 1000, Burst: 1000})
	var s State
	for i := range 500 {
		slip, r := s.Check(start, Ask{Tenant: string(rune('A' + i)), Requests: 1}, l)
		if r.Reason != "" {
			t.Fatal(r)
		}
		s.Take(slip)
		if i > 0 { // the first keeps its seat
			s.Settle(start, slip, l, Use{Tokens: -1})
		}
	}
	for i := range 100 {
		s.Check(start.Add(time.Duration(i)*defaultShareWindow), Ask{Tenant: "new", Requests: 1}, l)
	}
	if got := len(s.Tenants()); got != 2 {
		t.Errorf("%d tenants are remembered, want the one with a seat and the new one", got)
	}
}

func TestUnusableLimits(t *testing.T) {
	for name, l := range map[string]admission.Limit{
		"zero":     {},
		"NaN":      {Rate: math.NaN(), Burst: 10, Seats: 1},
		"infinite": {Rate: math.Inf(1), Burst: 10, Seats: 1},
		"negative": {Rate: 1, Burst: 10, Seats: 1, RetryRate: -1},
		"tokens":   {Rate: 1, Burst: 10, Seats: 1, TokenBurst: 10},
	} {
		if Usable(l) {
			t.Errorf("%s: usable", name)
		}
		var s State
		if _, r := s.Check(start, Ask{Requests: 1}, l); r.Reason == "" || r.RetryIn != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func BenchmarkCheckTake(b *testing.B) {
	l := wide(admission.Limit{Rate: 1e9, Burst: 1e9, TokenRate: 1e9, TokenBurst: 1e9})
	var s State
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		slip, _ := s.Check(now, Ask{Tenant: "acme", Requests: 1, Tokens: 100}, l)
		s.Take(slip)
		s.Settle(now, slip, l, Use{Tokens: 50})
	}
}
