package admissiontest

import (
	"sync/atomic"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

var intentCases = map[string]func(*fixture){
	// Layers multiplied retries, 3 x 6 and 32 x 3: NousResearch/hermes-agent#53918, dreamware-nz/loveliness#85.
	"all layers share its attempts": func(f *fixture) {
		wish := intent("wish", 2, time.Minute)
		sent := 0
		for range 6 { // the agent's loop
			for range 3 { // its SDK
				sent += f.attempts(1, bad, wish)
			}
		}
		equal(f, "sent", sent, 2)
		e := f.refused(f.claim(wish), stoplog.ReasonAttemptsUsed)
		equal(f, "retry after", e.RetryAfter, time.Duration(0))
	},

	"64 at a time share them too": func(f *fixture) {
		var sent atomic.Int64
		together(64, func(int) {
			_, ok := f.try(f.claim(intent("wish", 5, time.Minute)))
			if ok {
				sent.Add(1)
			}
		})
		equal(f, "sent", sent.Load(), 5)
	},

	"who meets it first sets it": func(f *fixture) {
		g := f.granted(f.claim(intent("wish", 3, 10*time.Second)))
		equal(f, "attempt", g.Attempt, 1)
		equal(f, "left", g.AttemptsLeft, 2)
		equal(f, "deadline", g.Deadline.UTC(), f.clock.Now().Add(10*time.Second))
		f.clock.Advance(4 * time.Second)
		h := f.granted(f.claim(intent("wish", 9, time.Hour)))
		equal(f, "attempt", h.Attempt, 2)
		equal(f, "left", h.AttemptsLeft, 1)
		equal(f, "deadline stays", h.Deadline.UTC(), g.Deadline.UTC())
	},

	"its deadline is final": func(f *fixture) {
		f.granted(f.claim(intent("wish", 9, 10*time.Second)))
		f.clock.Advance(10*time.Second - time.Microsecond)
		f.granted(f.claim(intent("wish", 9, 10*time.Second)))
		f.clock.Advance(time.Microsecond)
		e := f.refused(f.claim(intent("wish", 9, 10*time.Second)), stoplog.ReasonDeadlineExceeded)
		equal(f, "retry after", e.RetryAfter, time.Duration(0))
		f.clock.Advance(30 * time.Second) // no second budget for who asks again
		f.refused(f.claim(intent("wish", 9, 10*time.Second)), stoplog.ReasonDeadlineExceeded)
	},

	"an attempt that was not sent stays counted": func(f *fixture) {
		f.settle(f.granted(f.claim(intent("wish", 1, time.Minute))), admission.Settlement{NotSent: true, Tokens: -1})
		f.refused(f.claim(intent("wish", 1, time.Minute)), stoplog.ReasonAttemptsUsed)
	},

	"tenants do not share one": func(f *fixture) {
		f.granted(f.claim(intent("wish", 1, time.Minute)))
		f.granted(f.claim(intent("wish", 1, time.Minute), func(c *admission.Claim) { c.Charges.Intent.Tenant = "other" }))
		f.refused(f.claim(intent("wish", 1, time.Minute)), stoplog.ReasonAttemptsUsed)
	},

	"no attempts and no time are refused": func(f *fixture) {
		f.refused(f.claim(intent("none", 0, time.Minute)), stoplog.ReasonAttemptsUsed)
		f.refused(f.claim(intent("none", -1, time.Minute)), stoplog.ReasonAttemptsUsed)
		f.refused(f.claim(intent("late", 2, 0)), stoplog.ReasonDeadlineExceeded)
		f.refused(f.claim(intent("late", 2, -time.Second)), stoplog.ReasonDeadlineExceeded)
	},
}
