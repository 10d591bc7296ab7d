package limit_test

import (
	"math"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/limit"
)

// The walk in the README of admission.
func TestReadme(t *testing.T) {
	l := admission.Limit{Rate: 2, Burst: 4, Seats: 3}
	start := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	var s limit.State
	var slips []limit.Slip
	now := start
	claim := func(cost int64, want stoplog.Reason, retryIn time.Duration) {
		t.Helper()
		p, r := s.Check(now, limit.Ask{Tenant: "acme", Requests: cost}, l)
		if r.Reason != want || want != stoplog.ReasonSeatsTaken && r.RetryIn.Round(time.Millisecond) != retryIn {
			t.Fatalf("at %s: %+v, want %q after %s", now.Sub(start), r, want, retryIn)
		}
		if want == "" {
			s.Take(p)
			slips = append(slips, p)
		}
	}
	settle := func(notSent bool) {
		s.Settle(now, slips[0], l, limit.Use{NotSent: notSent, Tokens: -1})
		slips = slips[1:]
	}
	holds := func(requests float64, seats int64) {
		t.Helper()
		if got := s.Requests(now, l); math.Abs(got-requests) > 1e-9 || s.Seats() != seats {
			t.Fatalf("at %s: %v requests and %d seats, want %v and %d", now.Sub(start), got, s.Seats(), requests, seats)
		}
	}
	at := func(d time.Duration) { now = start.Add(d) }

	holds(4, 0)
	for range 3 {
		claim(1, "", 0)
	}
	holds(1, 3)
	claim(1, stoplog.ReasonSeatsTaken, 0)
	at(100 * time.Millisecond)
	settle(false)
	claim(1, "", 0)
	holds(0.2, 3)
	at(200 * time.Millisecond)
	settle(false)
	claim(1, stoplog.ReasonRateLimited, 300*time.Millisecond)
	holds(0.4, 2)
	at(500 * time.Millisecond)
	claim(1, "", 0)
	holds(0, 3)
	at(1500 * time.Millisecond)
	slips = slips[len(slips)-1:] // the last one
	settle(true)
	holds(3, 2)
	at(9 * time.Second)
	claim(5, stoplog.ReasonCostExceedsBurst, 0)
	holds(4, 2)
}
