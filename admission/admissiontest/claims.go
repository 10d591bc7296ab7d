package admissiontest

import (
	"context"
	"errors"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/killswitch"
)

var claimCases = map[string]func(*fixture){
	"what every claim needs is never assumed": func(f *fixture) {
		for name, spoil := range map[string]tune{
			"no id":              id(""),
			"no level":           below(stoplog.L0, stoplog.ScopeFleet),
			"no scopes":          below(stoplog.L2),
			"no such level":      below(stoplog.L3+1, stoplog.ScopeFleet),
			"no destination":     func(c *admission.Claim) { c.Charges.Destination.Name = "" },
			"costs nothing":      costs(0, 0),
			"gives requests":     costs(-1, 0),
			"empty":              func(c *admission.Claim) { *c = admission.Claim{ID: "empty"} },
			"account has no key": spends("", 10, 1),
		} {
			_, err := f.Store.Claim(f.Context(), f.claim(spoil))
			var e *stoplog.Error
			if !errors.As(err, &e) {
				f.Errorf("%s: got error %v, want a refusal", name, err)
			}
		}
	},

	// A request that one limit refuses must not drain the others: envoyproxy/ratelimit#1060, solo-io/gloo#10613.
	"a refused claim takes nothing": func(f *fixture) {
		small := limits(func(l *admission.Limit) {
			*l = admission.Limit{
				Rate: 1e-3, Burst: 100, TokenRate: 1e-3, TokenBurst: 100, Seats: 50, TenantSeats: 50, RetryRate: 1e-3, RetryBurst: 1,
			}
		})
		everything := func(more ...tune) admission.Claim {
			return f.claim(append([]tune{
				small, costs(1, 1), retry, intent("wish", 9, time.Hour), spends("first", 100, 60), spends("second", 100, 10),
			}, more...)...)
		}
		first := f.granted(f.claim(small, costs(1, 1), intent("wish", 9, time.Hour)))
		for _, c := range []struct {
			reason stoplog.Reason
			tune   tune
		}{
			{stoplog.ReasonRateLimited, costs(100, 1)},
			{stoplog.ReasonTokensLimited, costs(1, 100)},
			{stoplog.ReasonCostExceedsBurst, costs(1, 101)},
			{stoplog.ReasonSeatsTaken, limits(func(l *admission.Limit) { l.Seats = 1 })},
			{stoplog.ReasonTenantSeatsTaken, limits(func(l *admission.Limit) { l.TenantSeats = 1 })},
			{stoplog.ReasonAttemptsUsed, intent("none", 0, time.Hour)},
			{stoplog.ReasonDeadlineExceeded, intent("late", 1, 0)},
			{stoplog.ReasonBudgetExhausted, spends("third", 100, 101)},
			{stoplog.ReasonBudgetExhausted, spends("first", 100, 41)}, // two charges meet on one account
		} {
			before := f.taken()
			f.refused(everything(c.tune), c.reason)
			f.untouched(before)
		}
		before := f.taken()
		err := f.Operate.Force(f.Context(), "vendor", "", admission.BreakerOpen)
		if err != nil {
			f.Fatal(err)
		}
		f.refused(everything(), stoplog.ReasonBreakerOpen)
		_, err = f.Operate.Raise(f.Context(), stoplog.ScopeFleet, killswitch.Raise{Level: stoplog.L2, Actor: "user:alice"})
		if err != nil {
			f.Fatal(err)
		}
		f.refused(everything(), stoplog.ReasonWriteFreeze)
		f.untouched(before)

		err = f.Operate.Force(f.Context(), "vendor", "", admission.BreakerHalfOpen)
		if err != nil {
			f.Fatal(err)
		}
		second := f.granted(everything(below(stoplog.L3, stoplog.ScopeFleet)))
		equal(f, "attempt: refused claims took none", second.Attempt, first.Attempt+1)
		f.clock.Advance(quick.ProbeSpacing)
		before = f.taken()
		f.refused(everything(below(stoplog.L3, stoplog.ScopeFleet), spends("third", 100, 1)), stoplog.ReasonBudgetExhausted)
		f.refused(f.claim(small, retry, below(stoplog.L3, stoplog.ScopeFleet), spends("third", 100, 1)), stoplog.ReasonRetryBudgetUsed)
		f.untouched(before)
	},

	// One tenant's empty share leaves the destination's bucket to the others.
	"refused callers leave the bucket to others": func(f *fixture) {
		few := limits(func(l *admission.Limit) { l.Rate, l.Burst, l.TenantSeats = 1e-3, 100, 1 })
		f.granted(f.claim(few, tenant("greedy")))
		before := f.taken()
		for range 200 {
			f.refused(f.claim(few, tenant("greedy")), stoplog.ReasonTenantSeatsTaken)
		}
		f.untouched(before)
		f.granted(f.claim(few, tenant("modest")))
	},

	"an id is granted once": func(f *fixture) {
		c := f.claim(intent("wish", 3, time.Minute), spends("account", 100, 40))
		first := f.granted(c)
		before := f.taken()
		equal(f, "same claim again", f.granted(c), first)
		f.untouched(before)
		f.settle(first, ended(stoplog.HealthGood))
		settled := f.taken()
		equal(f, "same claim after its settlement", f.granted(c).ID, first.ID)
		f.untouched(settled)
		next := f.granted(f.claim(intent("wish", 3, time.Minute)))
		equal(f, "attempt of the next claim", next.Attempt, 2)
	},

	"an id is granted once to 64 at a time": func(f *fixture) {
		c := f.claim(spends("account", 1000, 10))
		together(64, func(int) { f.try(c) })
		equal(f, "held", f.balance("account").Held, int64(10))
		equal(f, "seats", f.seats(), int64(1))
	},

	"a settlement counts once": func(f *fixture) {
		a := f.granted(f.claim(spends("account", 100, 10)))
		b := f.granted(f.claim(spends("account", 100, 10)))
		s := admission.Settlement{Health: stoplog.HealthGood, Tokens: -1, Spend: []int64{7}}
		f.settle(a, s)
		f.settle(a, s)
		f.settle(a, admission.Settlement{Health: stoplog.HealthBad, Trip: true, Tokens: -1, Spend: []int64{99}})
		equal(f, "seats", f.seats(), int64(1))
		equal(f, "used", f.balance("account").Used, int64(7))
		equal(f, "held", f.balance("account").Held, int64(10))
		equal(f, "breaker", f.breaker("").State, admission.BreakerClosed)
		f.settle(admission.Grant{ID: "never granted"}, s)
		together(64, func(int) { f.settle(b, s) })
		equal(f, "seats at the end", f.seats(), int64(0))
		equal(f, "used at the end", f.balance("account").Used, int64(14))
	},

	"a caller who has gone takes nothing": func(f *fixture) {
		f.granted(f.claim())
		before := f.taken()
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		_, err := f.Store.Claim(ctx, f.claim(spends("account", 100, 10)))
		if err == nil {
			f.Error("claim with a cancelled context: granted")
		}
		f.untouched(before)
	},

	"a caller who has gone can still settle": func(f *fixture) {
		g := f.granted(f.claim(spends("account", 100, 10)))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(f.Context()), time.Minute)
		defer cancel()
		err := f.Store.Settle(ctx, admission.Settlement{Grant: g.ID, Tokens: -1, Spend: []int64{-1}})
		if err != nil {
			f.Error(err)
		}
		equal(f, "seats", f.seats(), int64(0))
		equal(f, "used", f.balance("account").Used, int64(10))
	},

	"time is the store's": func(f *fixture) {
		equal(f, "granted at", f.granted(f.claim()).At.UTC(), f.clock.Now())
	},
}
