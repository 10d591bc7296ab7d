// Package admissiontest is the contract of admission as tests: what every Store must do, whatever it is built on, and what
// every Stage must keep to.
//
// A store's own test opens it on the suite's clock and runs the suite unchanged:
//
//	func TestStore(t *testing.T) {
//		admissiontest.Store(t, func(t *testing.T, clock *admissiontest.Clock) admissiontest.Harness { … })
//	}
//
// Nothing here sleeps: time passes when the suite says so. Comments name the public reports of the faults that a case guards
// against.
package admissiontest

import (
	"sync"
	"testing"
	"time"

	"github.com/stoplog/stoplog/admission"
)

// Clock is the store's clock. It stands still between Advances.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts at an unremarkable instant.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance lets time pass; a negative d is a clock that was set back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Harness is one open store as the suite drives it.
type Harness struct {
	Store   admission.Store
	Operate admission.Operate
	// Crash kills the process that Store belongs to, without settling anything, lets its leases run out, and gives another
	// process on the same state, restored as after a real start (levels from where they are kept, spend from receipts). It
	// may advance the clock by the time that a lease takes, at most ten seconds.
	Crash func(t *testing.T) (admission.Store, admission.Operate)
}

// Store runs the conformance suite. open gives a fresh store on the clock for each case.
func Store(t *testing.T, open func(t *testing.T, clock *Clock) Harness) {
	groups := []struct {
		name  string
		cases map[string]func(*fixture)
	}{
		{"claim", claimCases},
		{"level", levelCases},
		{"breaker", breakerCases},
		{"limit", limitCases},
		{"seat", seatCases},
		{"share", shareCases},
		{"intent", intentCases},
		{"spend", spendCases},
	}
	for _, g := range groups {
		for name, run := range g.cases {
			t.Run(g.name+"/"+name, func(t *testing.T) {
				clock := NewClock()
				run(&fixture{T: t, Harness: open(t, clock), clock: clock})
			})
		}
	}
}
