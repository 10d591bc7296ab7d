package admissiontest

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

func costed(used ...int64) admission.Settlement {
	return admission.Settlement{Health: good, Tokens: -1, Spend: used}
}

var spendCases = map[string]func(*fixture){
	// Concurrent calls all passed the check before any spend was written: BerriAI/litellm#34732, #40095.
	"concurrent calls cannot overspend": func(f *fixture) {
		var sent atomic.Int64
		together(8, func(int) {
			_, ok := f.try(f.claim(spends("account", 100, 30)))
			if ok {
				sent.Add(1)
			}
		})
		equal(f, "sent", sent.Load(), 3)
		e := f.refused(f.claim(spends("account", 100, 30)), stoplog.ReasonBudgetExhausted)
		equal(f, "retry after, in a period without end", e.RetryAfter, time.Duration(0))
	},

	"with worst-case estimates 64 at a time overspend nothing": func(f *fixture) {
		const limit, worst = 20_000, 1_500
		together(64, func(i int) {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			for range 20 {
				g, ok := f.try(f.claim(spends("account", limit, worst)))
				if ok {
					f.settle(g, costed(100+random.Int64N(worst-100)))
				}
			}
		})
		b := f.balance("account")
		equal(f, "held", b.Held, 0)
		if b.Used > limit || b.Used < limit-worst {
			f.Errorf("used %d of %d", b.Used, limit)
		}
	},

	// Reservations that were never settled pinned the budget at its limit: BerriAI/litellm#38647, #36592.
	"every end gives its reservation back": func(f *fixture) {
		for _, s := range []admission.Settlement{
			{Health: neutral, NotSent: true, Tokens: -1, Spend: []int64{-1}}, // 401 before anything was asked
			{Health: bad, NotSent: true, Tokens: -1},                         // no connection
			{Health: neutral, Tokens: -1, Spend: []int64{4}},                 // the caller left
			{Health: neutral, Tokens: -1, Spend: []int64{0}},                 // an explicit zero is zero
			costed(1),
		} {
			f.settle(f.granted(f.claim(spends("account", 30, 25))), s)
			equal(f, "held", f.balance("account").Held, 0)
		}
		equal(f, "used", f.balance("account").Used, 5)
		f.granted(f.claim(spends("account", 30, 25)))
	},

	// BerriAI/litellm#33736, #37558: a stream that was cut counted as nothing.
	"what is not known costs the estimate": func(f *fixture) {
		f.settle(f.granted(f.claim(spends("account", 100, 30))), costed(-1))
		f.settle(f.granted(f.claim(spends("account", 100, 30))), costed())
		equal(f, "used", f.balance("account").Used, 60)
		f.refused(f.claim(spends("account", 100, 41)), stoplog.ReasonBudgetExhausted)
	},

	"more than the estimate is counted": func(f *fixture) {
		f.settle(f.granted(f.claim(spends("account", 100, 10))), costed(150))
		equal(f, "used", f.balance("account").Used, 150)
		f.refused(f.claim(spends("account", 100, 0), spends("other", 100, 1)), stoplog.ReasonBudgetExhausted)
		equal(f, "held elsewhere", f.balance("other").Held, 0)
	},

	"an unsettled reservation becomes spend, a late settlement corrects it": func(f *fixture) {
		g := f.granted(f.claim(spends("account", 100, 60)))
		f.clock.Advance(time.Minute)
		b := f.balance("account")
		equal(f, "used when expired", b.Used, 60)
		equal(f, "held when expired", b.Held, 0)
		f.refused(f.claim(spends("account", 100, 60)), stoplog.ReasonBudgetExhausted)
		f.settle(g, costed(40))
		f.settle(g, costed(40))
		equal(f, "used when settled late", f.balance("account").Used, 40)
		f.granted(f.claim(spends("account", 100, 60)))
	},

	"reservations expire one by one": func(f *fixture) {
		hold := func(d time.Duration) tune {
			return func(c *admission.Claim) { c.Charges.Spend[0].Hold = d }
		}
		f.granted(f.claim(spends("account", 100, 1), hold(time.Hour)))
		f.granted(f.claim(spends("account", 100, 2), hold(time.Minute)))
		f.granted(f.claim(spends("account", 100, 4), hold(time.Minute/2)))
		for _, want := range []int64{0, 4, 6, 6} {
			equal(f, "used", f.balance("account").Used, want)
			f.clock.Advance(time.Minute / 2)
		}
		f.clock.Advance(time.Hour)
		equal(f, "used at the end", f.balance("account").Used, 7)
	},

	"a crash gives no money away": func(f *fixture) {
		f.settle(f.granted(f.claim(spends("account", 100, 30))), costed(20))
		f.granted(f.claim(spends("account", 100, 50)))
		f.crash()
		f.refused(f.claim(spends("account", 100, 31)), stoplog.ReasonBudgetExhausted)
		f.granted(f.claim(spends("account", 100, 30)))
	},

	"reservations are counted too": func(f *fixture) {
		few := func(c *admission.Claim) { c.Charges.Spend[0].MaxHolds = 2 }
		g := f.granted(f.claim(spends("account", 100, 1), few))
		f.granted(f.claim(spends("account", 100, 1), few))
		e := f.refused(f.claim(spends("account", 100, 1), few), stoplog.ReasonBudgetExhausted)
		if e.RetryAfter <= 0 {
			f.Error("a reservation will be settled, but the refusal does not say that waiting helps")
		}
		f.settle(g, costed(1))
		f.granted(f.claim(spends("account", 100, 1), few))
	},

	"all budgets or none": func(f *fixture) {
		f.granted(f.claim(spends("small", 10, 10)))
		f.refused(f.claim(spends("large", 100, 10), spends("small", 10, 1)), stoplog.ReasonBudgetExhausted)
		equal(f, "held in the large one", f.balance("large").Held, 0)
		g := f.granted(f.claim(spends("large", 100, 10), spends("third", 100, 20), spends("fourth", 100, 30)))
		var held []int64
		for _, b := range g.Spend {
			held = append(held, b.Held)
		}
		equal(f, "balances in the order of the charges", held, []int64{10, 20, 30})
		f.settle(g, costed(1, 2, 3))
		equal(f, "used of the third", f.balance("fourth").Used, 3)
	},

	"a period that ends says so": func(f *fixture) {
		until := func(c *admission.Claim) { c.Charges.Spend[0].Ends = f.clock.Now().Add(time.Hour) }
		f.settle(f.granted(f.claim(spends("now", 100, 100), until)), costed(100))
		e := f.refused(f.claim(spends("now", 100, 1), until), stoplog.ReasonBudgetExhausted)
		equal(f, "retry after", e.RetryAfter, time.Hour)
		e = f.refused(f.claim(spends("now", 100, 101), until), stoplog.ReasonBudgetExhausted)
		equal(f, "retry after what can never fit", e.RetryAfter, time.Duration(0))
		f.granted(f.claim(spends("next", 100, 100), until))
	},

	"a limit follows its configuration": func(f *fixture) {
		f.settle(f.granted(f.claim(spends("account", 100, 60))), costed(60))
		f.refused(f.claim(spends("account", 70, 20)), stoplog.ReasonBudgetExhausted)
		f.granted(f.claim(spends("account", 200, 100)))
	},

	"a limit of nothing allows nothing": func(f *fixture) {
		f.refused(f.claim(spends("account", 0, 1)), stoplog.ReasonBudgetExhausted)
		_, ok := f.try(f.claim(spends("account", 100, -1)))
		if ok {
			f.Error("a negative estimate was granted")
		}
	},
}
