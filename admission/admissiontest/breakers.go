package admissiontest

import (
	"math"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

const (
	good      = stoplog.HealthGood
	bad       = stoplog.HealthBad
	neutral   = stoplog.HealthNeutral
	throttled = stoplog.HealthThrottled
)

// trip opens the breaker of a class by failures in a row.
func (f *fixture) trip(tunes ...tune) {
	f.Helper()
	n := f.attempts(12, bad, tunes...)
	f.refused(f.claim(tunes...), stoplog.ReasonBreakerOpen)
	equal(f, "failures that opened", n, 12)
}

// probes claims n probes at their spacing and settles each.
func (f *fixture) probes(n int, h stoplog.Health, tunes ...tune) {
	f.Helper()
	for range n {
		g := f.granted(f.claim(tunes...))
		equal(f, "is a probe", g.Probe, true)
		f.settle(g, ended(h))
		f.clock.Advance(quick.ProbeSpacing)
	}
}

func (f *fixture) state(class string, want admission.BreakerState) {
	f.Helper()
	equal(f, "breaker", f.breaker(class).State, want)
}

var breakerCases = map[string]func(*fixture){
	"failures in a row open it": func(f *fixture) {
		f.attempts(11, bad)
		f.attempts(1, good)
		f.attempts(11, bad, breakers(func(b *admission.Breaker) { b.MinRequests = 1000 }))
		f.state("", admission.BreakerClosed)
		f.attempts(1, bad, breakers(func(b *admission.Breaker) { b.MinRequests = 1000 }))
		f.state("", admission.BreakerOpen)
	},

	"a failure rate opens it": func(f *fixture) {
		patient := breakers(func(b *admission.Breaker) { b.Consecutive = 1000 })
		f.attempts(15, good, patient)
		f.attempts(14, bad, patient)
		f.state("", admission.BreakerClosed) // 14 of 29
		f.attempts(1, bad, patient)
		f.state("", admission.BreakerOpen) // 15 of 30
	},

	"few results say nothing": func(f *fixture) {
		f.attempts(8, good)
		f.attempts(11, bad)
		f.state("", admission.BreakerClosed) // 11 of 19
		f.attempts(1, bad)
		f.state("", admission.BreakerOpen)
	},

	"the window forgets": func(f *fixture) {
		f.attempts(9, good)
		f.attempts(10, bad)
		f.clock.Advance(quick.Window + time.Second)
		f.attempts(1, good)
		f.attempts(9, bad)
		v := f.breaker("")
		equal(f, "failures in the window", v.Fails, 9)
		f.state("", admission.BreakerClosed)
	},

	"open refuses until the cooldown is over, closed lets all through": func(f *fixture) {
		f.trip()
		e := f.refused(f.claim(), stoplog.ReasonBreakerOpen)
		equal(f, "retry after", e.RetryAfter, quick.Cooldown)
		f.clock.Advance(quick.Cooldown - time.Millisecond)
		f.refused(f.claim(), stoplog.ReasonBreakerOpen)
		f.clock.Advance(time.Millisecond)
		g := f.granted(f.claim())
		equal(f, "state", g.BreakerState, admission.BreakerHalfOpen)
		equal(f, "probe", g.Probe, true)
		e = f.refused(f.claim(), stoplog.ReasonProbeSlotUsed)
		equal(f, "retry after a used slot", e.RetryAfter, quick.ProbeSpacing)
	},

	"good probes close it": func(f *fixture) {
		f.trip()
		f.clock.Advance(quick.Cooldown)
		f.probes(19, good)
		f.state("", admission.BreakerHalfOpen)
		f.probes(1, good)
		f.state("", admission.BreakerClosed)
		equal(f, "attempts", f.attempts(100, good), 100)
		equal(f, "trips in a row", f.breaker("").Trips, 0)
	},

	"a bad probe opens it for twice as long, up to a limit": func(f *fixture) {
		f.trip()
		for _, seconds := range []int{30, 60, 100, 100} {
			f.clock.Advance(time.Duration(seconds)*time.Second - time.Millisecond)
			f.refused(f.claim(), stoplog.ReasonBreakerOpen)
			f.clock.Advance(time.Millisecond)
			f.probes(1, good)
			f.settle(f.granted(f.claim()), ended(bad))
			f.state("", admission.BreakerOpen)
		}
	},

	"a signal opens it, whatever its epoch": func(f *fixture) {
		old := f.granted(f.claim())
		f.settle(f.granted(f.claim()), admission.Settlement{Health: neutral, Trip: true, Tokens: -1})
		f.state("", admission.BreakerOpen)
		f.clock.Advance(quick.Cooldown)
		f.probes(3, good)
		f.state("", admission.BreakerHalfOpen)
		f.settle(old, admission.Settlement{Health: good, Trip: true, Tokens: -1})
		f.state("", admission.BreakerOpen)
	},

	// Results of calls from before a trip were counted in the state after it: App-vNext/Polly#223, sony/gobreaker#122.
	"results of an older epoch are ignored": func(f *fixture) {
		var early []admission.Grant
		for range 40 {
			early = append(early, f.granted(f.claim()))
		}
		f.trip()
		for _, g := range early[:10] {
			f.settle(g, ended(good))
		}
		f.state("", admission.BreakerOpen)
		f.clock.Advance(quick.Cooldown)
		f.probes(1, good)
		for _, g := range early[10:20] {
			f.settle(g, ended(bad))
		}
		f.state("", admission.BreakerHalfOpen)
		for _, g := range early[20:40] {
			f.settle(g, ended(good))
		}
		equal(f, "good probes", f.breaker("").ProbesGood, 1)
		f.state("", admission.BreakerHalfOpen)
	},

	"at most 20 probes in any second": func(f *fixture) {
		f.trip()
		f.clock.Advance(quick.Cooldown)
		var at []time.Time
		for range 5000 {
			g, ok := f.try(f.claim())
			if ok {
				at = append(at, g.At)
			}
			f.clock.Advance(time.Millisecond)
		}
		for i := 20; i < len(at); i++ {
			if at[i].Sub(at[i-20]) <= time.Second {
				f.Fatalf("21 probes within %s", at[i].Sub(at[i-20]))
			}
		}
		if len(at) < 90 {
			f.Errorf("%d probes in 5 s, want about 94", len(at))
		}
	},

	// A probe that never answers kept others half-open for ever: sony/gobreaker#30, #49, alibaba/sentinel-golang#196,
	// resilience4j/resilience4j#935.
	"a probe that never answers blocks nothing": func(f *fixture) {
		f.trip()
		f.clock.Advance(quick.Cooldown)
		for range 30 {
			f.granted(f.claim()) // never settled
			f.clock.Advance(quick.ProbeSpacing)
		}
		f.probes(20, good)
		f.state("", admission.BreakerClosed)
	},

	// Callers who left opened the breaker of a healthy destination: cockroachdb/cockroach#35433, apache/brpc#3532.
	"callers who leave say nothing, time-outs do": func(f *fixture) {
		sensitive := breakers(func(b *admission.Breaker) { b.Consecutive = 6 })
		f.attempts(6, neutral, sensitive)
		f.state("", admission.BreakerClosed)
		f.attempts(6, bad, sensitive)
		f.state("", admission.BreakerOpen)
		f.clock.Advance(quick.Cooldown)
		f.probes(5, neutral)
		f.state("", admission.BreakerHalfOpen)
		f.probes(20, good)
		f.state("", admission.BreakerClosed)
	},

	// One caller's mistakes and throttling opened the breaker for everybody: sgl-project/sglang#25811, coder/aibridge#276.
	"refused and throttled requests of one tenant cost no other": func(f *fixture) {
		f.attempts(20, neutral, tenant("careless"))
		f.attempts(20, throttled, tenant("careless"))
		f.state("", admission.BreakerClosed)
		equal(f, "attempts of the other", f.attempts(1, good, tenant("careful")), 1)
	},

	// One broken operation opened the whole destination: samosa-ai-com/opencode-go-multi-auth#6.
	"each class of operations has its own": func(f *fixture) {
		f.trip(operation("model-x"))
		equal(f, "attempts of another class", f.attempts(5, good, operation("model-y")), 5)
		f.state("model-x", admission.BreakerOpen)
		f.state("model-y", admission.BreakerClosed)
	},

	"the destination's own stands above its classes": func(f *fixture) {
		f.granted(f.claim(operation("post")))
		f.force("", admission.BreakerOpen)
		f.refused(f.claim(operation("post")), stoplog.ReasonBreakerOpen)
		f.refused(f.claim(operation("new")), stoplog.ReasonBreakerOpen)
		f.force("", admission.BreakerHalfOpen)
		f.probes(20, good, operation("post"))
		f.state("", admission.BreakerClosed)
		f.granted(f.claim(operation("post")))
	},

	"opened by hand, it stays open": func(f *fixture) {
		f.force("", admission.BreakerOpen)
		f.clock.Advance(1000 * time.Hour)
		e := f.refused(f.claim(), stoplog.ReasonBreakerOpen)
		equal(f, "retry after", e.RetryAfter, time.Duration(0))
		f.force("", admission.BreakerHalfOpen)
		f.probes(1, good)
		err := f.Operate.Force(f.Context(), "vendor", "", admission.BreakerClosed)
		if err == nil {
			f.Error("closed by hand")
		}
		f.state("", admission.BreakerHalfOpen)
	},

	"half-opened by hand, it probes at once": func(f *fixture) {
		f.trip()
		f.force("", admission.BreakerHalfOpen)
		f.probes(20, good)
		f.state("", admission.BreakerClosed)
	},

	"little traffic closes it after two days": func(f *fixture) {
		f.trip()
		f.clock.Advance(quick.Cooldown)
		f.probes(1, neutral)
		f.clock.Advance(48 * time.Hour)
		f.probes(1, good) // no good probe before this one: still half-open
		g := f.granted(f.claim())
		equal(f, "state", g.BreakerState, admission.BreakerClosed)
	},

	"it closes gradually": func(f *fixture) {
		ramp := breakers(func(b *admission.Breaker) { b.RampDouble = 3 * time.Second })
		f.trip(ramp)
		f.clock.Advance(quick.Cooldown)
		f.probes(20, good, ramp)
		start := f.clock.Now()
		var got [5]int
		for range 5000 {
			for f.attempts(1, good, ramp) == 1 {
				got[int(f.clock.Now().Sub(start)/time.Second)]++
			}
			f.clock.Advance(time.Millisecond)
		}
		for i, n := range got {
			// The cap 20 x 2^(t/3) integrated over the second, and two for the bucket.
			want := 20 * 3 / math.Ln2 * (math.Exp2(float64(i+1)/3) - math.Exp2(float64(i)/3))
			if float64(n) > want+3 || float64(n) < want-3 {
				f.Errorf("second %d: %d starts, want about %.1f", i, n, want)
			}
		}
		f.clock.Advance(time.Minute)
		equal(f, "attempts when the ramp is over", f.attempts(1000, good, ramp), 1000)
	},

	"a failing ramp opens it again": func(f *fixture) {
		ramp := breakers(func(b *admission.Breaker) { b.RampDouble = 3 * time.Second })
		f.trip(ramp)
		f.clock.Advance(quick.Cooldown)
		f.probes(20, good, ramp)
		for f.breaker("").State == admission.BreakerClosed {
			if f.attempts(1, bad, ramp) == 0 {
				f.clock.Advance(10 * time.Millisecond)
			}
		}
		f.state("", admission.BreakerOpen)
		equal(f, "ramp", f.breaker("").Ramp, 0)
	},

	"a ramp of one class slows no other": func(f *fixture) {
		ramp := []tune{operation("slow"), breakers(func(b *admission.Breaker) { b.RampDouble = 3 * time.Second })}
		f.trip(ramp...)
		f.clock.Advance(quick.Cooldown)
		f.probes(20, good, ramp...)
		f.refusedSoon(stoplog.ReasonRateLimited, ramp...)
		equal(f, "attempts of another class", f.attempts(100, good, operation("fast")), 100)
	},
}

func (f *fixture) force(class string, to admission.BreakerState) {
	f.Helper()
	err := f.Operate.Force(f.Context(), "vendor", class, to)
	if err != nil {
		f.Fatalf("force %s: %v", to, err)
	}
}

// refusedSoon claims until a claim is refused, which must be soon and for the reason.
func (f *fixture) refusedSoon(reason stoplog.Reason, tunes ...tune) {
	f.Helper()
	if f.attempts(100, good, tunes...) == 100 {
		f.Fatalf("never refused, want %s", reason)
	}
	f.refused(f.claim(tunes...), reason)
}
