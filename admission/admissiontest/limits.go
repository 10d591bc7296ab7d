package admissiontest

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// taking is one granted cost on the store's clock.
type taking struct {
	at   time.Time
	cost float64
}

// bound fails if more than burst + rate x T was taken in any T.
func (f *fixture) bound(what string, taken []taking, rate, burst float64) {
	f.Helper()
	for i := range taken {
		sum := 0.0
		for j := i; j < len(taken); j++ {
			sum += taken[j].cost
			most := burst + rate*taken[j].at.Sub(taken[i].at).Seconds()
			if sum > most+1e-6 {
				f.Fatalf("%s: %.1f within %s, at most %.1f", what, sum, taken[j].at.Sub(taken[i].at), most)
			}
		}
	}
}

var limitCases = map[string]func(*fixture){
	"never more than burst + rate x T": func(f *fixture) {
		random := rand.New(rand.NewPCG(1, 2))
		narrow := limits(func(l *admission.Limit) { l.Rate, l.Burst, l.TokenRate, l.TokenBurst = 50, 20, 1000, 600 })
		var requests, tokens []taking
		var open []admission.Grant
		for range 4000 {
			r, k := 1+random.Int64N(3), random.Int64N(100)
			g, ok := f.try(f.claim(narrow, costs(r, k), tenant(string(rune('a'+random.IntN(4))))))
			if ok {
				requests = append(requests, taking{g.At, float64(r)})
				tokens = append(tokens, taking{g.At, float64(k)})
				open = append(open, g)
			}
			for len(open) > 5 {
				f.settle(open[0], ended(neutral))
				open = open[1:]
			}
			f.clock.Advance(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
		}
		f.bound("requests", requests, 50, 20)
		f.bound("tokens", tokens, 1000, 600)
	},

	"never more, also 64 at a time": func(f *fixture) {
		narrow := limits(func(l *admission.Limit) { l.Rate, l.Burst = 100, 30 })
		var mu sync.Mutex
		var taken []taking
		for range 20 {
			together(64, func(int) {
				g, ok := f.try(f.claim(narrow))
				if ok {
					mu.Lock()
					taken = append(taken, taking{g.At, 1})
					mu.Unlock()
				}
			})
			f.clock.Advance(50 * time.Millisecond)
		}
		f.bound("requests", taken, 100, 30)
		if len(taken) < 115 {
			f.Errorf("%d granted in 950 ms, want about 125", len(taken))
		}
	},

	// What was not sent returns, and still no more leaves than the bound allows.
	"never more is sent when unsent requests return": func(f *fixture) {
		narrow := limits(func(l *admission.Limit) { l.Rate, l.Burst = 10, 10 })
		var early []admission.Grant
		for range 10 {
			early = append(early, f.granted(f.claim(narrow)))
		}
		f.clock.Advance(time.Second) // the bucket is full again
		equal(f, "granted from the full bucket", f.attempts(20, good, narrow), 10)
		for _, g := range early {
			f.settle(g, admission.Settlement{NotSent: true, Tokens: -1})
		}
		equal(f, "granted at the same instant", f.attempts(20, good, narrow), 0)
	},

	"what was not sent returns": func(f *fixture) {
		narrow := limits(func(l *admission.Limit) { l.Rate, l.Burst, l.TokenRate, l.TokenBurst = 0.01, 2, 0.01, 100 })
		for range 5 {
			g := f.granted(f.claim(narrow, costs(2, 100), spends("account", 100, 100)))
			f.refused(f.claim(narrow, costs(1, 0)), stoplog.ReasonRateLimited)
			f.settle(g, admission.Settlement{NotSent: true, Tokens: -1, Spend: []int64{-1}})
		}
	},

	// A cost above the burst waited for ever: golang/go#16854, golang/time#22, 0xProject/0x-mesh#585.
	"a cost above the burst is refused for good": func(f *fixture) {
		narrow := limits(func(l *admission.Limit) { l.Rate, l.Burst, l.TokenRate, l.TokenBurst = 1, 20, 10, 1000 })
		f.granted(f.claim(narrow))
		before := f.taken()
		for _, c := range []tune{costs(21, 0), costs(1, 1001)} {
			for range 5 {
				e := f.refused(f.claim(narrow, c), stoplog.ReasonCostExceedsBurst)
				equal(f, "retry after", e.RetryAfter, time.Duration(0))
			}
		}
		f.untouched(before)
		f.granted(f.claim(narrow, costs(19, 1000)))
	},

	"zero limits refuse everything": func(f *fixture) {
		for name, zero := range map[string]tune{
			"all":    limits(func(l *admission.Limit) { *l = admission.Limit{} }),
			"rate":   limits(func(l *admission.Limit) { l.Rate = 0 }),
			"burst":  limits(func(l *admission.Limit) { l.Burst = 0 }),
			"seats":  limits(func(l *admission.Limit) { l.Seats = 0 }),
			"no rat": limits(func(l *admission.Limit) { l.Rate = -1 }),
		} {
			_, ok := f.try(f.claim(zero))
			if ok {
				f.Errorf("zero %s: granted", name)
			}
		}
		e := f.refused(f.claim(retry, limits(func(l *admission.Limit) { l.RetryRate, l.RetryBurst = 0, 0 })),
			stoplog.ReasonRetryBudgetUsed)
		equal(f, "retry after", e.RetryAfter, time.Duration(0))
	},

	"tokens are not counted where the dimension is not used": func(f *fixture) {
		f.granted(f.claim(costs(1, 1e12), limits(func(l *admission.Limit) { l.TokenRate, l.TokenBurst = 0, 0 })))
	},

	"a refusal says when": func(f *fixture) {
		narrow := limits(func(l *admission.Limit) { l.Rate, l.Burst, l.TokenRate, l.TokenBurst = 2, 2, 100, 100 })
		f.attempts(2, good, narrow)
		e := f.refused(f.claim(narrow), stoplog.ReasonRateLimited)
		equal(f, "retry after", e.RetryAfter, 500*time.Millisecond)
		f.clock.Advance(e.RetryAfter)
		f.settle(f.granted(f.claim(narrow, costs(1, 100))), ended(good))
		f.clock.Advance(500 * time.Millisecond)
		e = f.refused(f.claim(narrow, costs(1, 80)), stoplog.ReasonTokensLimited)
		equal(f, "retry after", e.RetryAfter, 300*time.Millisecond)
		f.clock.Advance(e.RetryAfter)
		f.granted(f.claim(narrow, costs(1, 80)))
	},

	"estimated tokens become used ones": func(f *fixture) {
		narrow := limits(func(l *admission.Limit) { l.TokenRate, l.TokenBurst = 1e-3, 1000 })
		g := f.granted(f.claim(narrow, costs(1, 800)))
		f.refused(f.claim(narrow, costs(1, 300)), stoplog.ReasonTokensLimited)
		f.settle(g, admission.Settlement{Health: good, Tokens: 100})
		g = f.granted(f.claim(narrow, costs(1, 400)))
		f.settle(g, admission.Settlement{Health: good, Tokens: 1400}) // a debt
		f.refused(f.claim(narrow, costs(1, 1)), stoplog.ReasonTokensLimited)
		f.clock.Advance(501_001 * time.Second)
		f.granted(f.claim(narrow, costs(1, 1)))
	},

	"retries have a bucket of their own": func(f *fixture) {
		narrow := limits(func(l *admission.Limit) { l.RetryRate, l.RetryBurst = 2, 3 })
		equal(f, "retries at once", f.attempts(10, bad, narrow, retry), 3)
		e := f.refused(f.claim(narrow, retry), stoplog.ReasonRetryBudgetUsed)
		equal(f, "retry after", e.RetryAfter, 500*time.Millisecond)
		f.granted(f.claim(narrow))
		f.clock.Advance(time.Second)
		equal(f, "retries a second later", f.attempts(10, good, narrow, retry), 2)
	},

	"throttling cools the credential, not the breaker": func(f *fixture) {
		f.settle(f.granted(f.claim()), admission.Settlement{Health: throttled, Cool: 3 * time.Second, Tokens: -1})
		e := f.refused(f.claim(), stoplog.ReasonRateLimited)
		equal(f, "retry after", e.RetryAfter, 3*time.Second)
		f.settle(f.granted(f.claim(func(c *admission.Claim) { c.Charges.Destination.Name = "other" })), ended(good))
		f.clock.Advance(3 * time.Second)
		f.settle(f.granted(f.claim()), admission.Settlement{Health: good, Cool: time.Hour, Tokens: -1}) // not throttled
		f.settle(f.granted(f.claim()), admission.Settlement{Health: throttled, Cool: 1e9 * time.Second, Tokens: -1})
		e = f.refused(f.claim(), stoplog.ReasonRateLimited)
		if e.RetryAfter > time.Hour { // nodejs/undici#5519: a wait of years was honoured
			f.Errorf("retry after %s", e.RetryAfter)
		}
		f.state("", admission.BreakerClosed)
	},

	"a clock that is set back gives nothing away": func(f *fixture) {
		narrow := limits(func(l *admission.Limit) { l.Rate, l.Burst = 1, 5 })
		equal(f, "burst", f.attempts(10, good, narrow), 5)
		for range 10 {
			f.clock.Advance(-500 * time.Millisecond)
			equal(f, "granted after a step back", f.attempts(5, good, narrow), 0)
			f.clock.Advance(500 * time.Millisecond)
		}
		equal(f, "granted when the clock has caught up", f.attempts(5, good, narrow), 0)
		f.clock.Advance(2 * time.Second)
		equal(f, "granted two seconds later", f.attempts(5, good, narrow), 2)
	},
}

var seatCases = map[string]func(*fixture){
	"never more than the ceiling, 64 at a time": func(f *fixture) {
		ceiling := limits(func(l *admission.Limit) { l.Seats, l.TenantSeats = 7, 7 })
		var mu sync.Mutex
		now, most := 0, 0
		together(64, func(int) {
			for range 50 {
				g, ok := f.try(f.claim(ceiling))
				if !ok {
					continue
				}
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				mu.Lock()
				now--
				mu.Unlock()
				f.settle(g, ended(good))
			}
		})
		if most > 7 {
			f.Errorf("%d seats were taken at one time, ceiling 7", most)
		}
		equal(f, "seats at the end", f.seats(), int64(0))
		var held []admission.Grant
		for range 7 {
			held = append(held, f.granted(f.claim(ceiling)))
		}
		e := f.refused(f.claim(ceiling), stoplog.ReasonSeatsTaken)
		if e.RetryAfter <= 0 {
			f.Error("seats are given back, but the refusal does not say that waiting helps")
		}
		f.settle(held[3], ended(neutral))
		f.granted(f.claim(ceiling))
	},

	// MervinPraison/PraisonAI#5168: one tenant took every slot.
	"a tenant has a ceiling of its own": func(f *fixture) {
		ceiling := limits(func(l *admission.Limit) { l.Seats, l.TenantSeats = 10, 4 })
		for range 4 {
			f.granted(f.claim(ceiling, tenant("greedy")))
		}
		f.refused(f.claim(ceiling, tenant("greedy")), stoplog.ReasonTenantSeatsTaken)
		f.granted(f.claim(ceiling, tenant("modest")))
	},

	// BerriAI/litellm#32441, redisson/redisson#4462: slots of a dead process were lost for ever.
	"seats come back when their process dies": func(f *fixture) {
		ceiling := limits(func(l *admission.Limit) { l.Seats, l.TenantSeats = 3, 3 })
		var held []admission.Grant
		for range 3 {
			held = append(held, f.granted(f.claim(ceiling)))
		}
		f.refused(f.claim(ceiling), stoplog.ReasonSeatsTaken)
		f.crash()
		equal(f, "attempts after the crash", f.attempts(10, good, ceiling), 10)
		for range 3 {
			f.granted(f.claim(ceiling))
		}
		for _, g := range held { // late words of the dead
			f.settle(g, ended(good))
		}
		equal(f, "seats", f.seats(), int64(3))
		f.refused(f.claim(ceiling), stoplog.ReasonSeatsTaken)
	},

	"a long stream keeps its seat": func(f *fixture) {
		ceiling := limits(func(l *admission.Limit) { l.Seats, l.TenantSeats = 1, 1 })
		g := f.granted(f.claim(ceiling))
		for range 60 {
			f.clock.Advance(10 * time.Second)
			f.refused(f.claim(ceiling), stoplog.ReasonSeatsTaken)
		}
		f.settle(g, ended(good))
		f.granted(f.claim(ceiling))
	},
}
