package admissiontest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// fixture is one case's store with the words that cases are written in.
type fixture struct {
	*testing.T
	Harness
	clock *Clock
	ids   atomic.Int64
}

// tune changes a claim before it is made.
type tune func(*admission.Claim)

// roomy limits refuse nothing in a case that is about something else.
var roomy = admission.Limit{
	Rate: 1e6, Burst: 1e6, TokenRate: 1e9, TokenBurst: 1e9, Seats: 1e6, TenantSeats: 1e6, RetryRate: 1e6, RetryBurst: 1e6,
}

// quick is a breaker with round figures.
var quick = admission.Breaker{
	Window: 10 * time.Second, MinRequests: 20, FailureBPS: 5000, Consecutive: 12,
	Cooldown: 30 * time.Second, MaxCooldown: 100 * time.Second, ProbeSpacing: 52_632 * time.Microsecond, CloseAfter: 20,
}

// claim is a write of tenant acme to the destination "vendor", tuned.
func (f *fixture) claim(tunes ...tune) admission.Claim {
	actor := stoplog.Actor{Tenant: "acme", Org: "ops", Agent: "bot"}
	c := admission.Claim{
		ID:    fmt.Sprintf("claim-%d", f.ids.Add(1)),
		Class: stoplog.ClassWrite,
		Charges: admission.Charges{
			Level: admission.LevelCondition{Scopes: actor.Scopes("vendor"), Below: stoplog.L2},
			Destination: admission.DestinationCharge{
				Name: "vendor", Tenant: actor.Tenant, Requests: 1, Limit: roomy, Breaker: quick,
			},
		},
	}
	for _, t := range tunes {
		t(&c)
	}
	return c
}

func id(id string) tune { return func(c *admission.Claim) { c.ID = id } }

func tenant(name string) tune {
	return func(c *admission.Claim) { c.Charges.Destination.Tenant = name }
}

func weight(w float64) tune { return func(c *admission.Claim) { c.Charges.Destination.Weight = w } }

func operation(class string) tune {
	return func(c *admission.Claim) { c.Charges.Destination.Class = class }
}

func limits(change func(*admission.Limit)) tune {
	return func(c *admission.Claim) { change(&c.Charges.Destination.Limit) }
}

func breakers(change func(*admission.Breaker)) tune {
	return func(c *admission.Claim) { change(&c.Charges.Destination.Breaker) }
}

func costs(requests, tokens int64) tune {
	return func(c *admission.Claim) {
		c.Charges.Destination.Requests, c.Charges.Destination.Tokens = requests, tokens
	}
}

func retry(c *admission.Claim) { c.Charges.Destination.Retry = true }

func below(l stoplog.Level, scopes ...stoplog.Scope) tune {
	return func(c *admission.Claim) { c.Charges.Level = admission.LevelCondition{Scopes: scopes, Below: l} }
}

func intent(id stoplog.IntentID, budget int, lifetime time.Duration) tune {
	return func(c *admission.Claim) {
		c.Charges.Intent = admission.IntentCharge{ID: id, Tenant: "acme", Budget: budget, Lifetime: lifetime}
	}
}

func spends(key string, limit, estimate int64) tune {
	return func(c *admission.Claim) {
		c.Charges.Spend = append(c.Charges.Spend, admission.SpendCharge{
			Budget: "budget", Key: key, Unit: "usd_micro", Limit: limit, Estimate: estimate, Hold: time.Minute,
		})
	}
}

// granted makes a claim that must be granted.
func (f *fixture) granted(c admission.Claim) admission.Grant {
	f.Helper()
	g, err := f.Store.Claim(f.Context(), c)
	if err != nil {
		f.Fatalf("claim %s: refused: %v", c.ID, err)
	}
	return g
}

// refused makes a claim that must be refused for a reason.
func (f *fixture) refused(c admission.Claim, reason stoplog.Reason) *stoplog.Error {
	f.Helper()
	g, err := f.Store.Claim(f.Context(), c)
	if err == nil {
		f.Fatalf("claim %s: granted %+v, want %s", c.ID, g, reason)
	}
	var e *stoplog.Error
	if !errors.As(err, &e) {
		f.Fatalf("claim %s: the store is away: %v, want %s", c.ID, err, reason)
	}
	if e.Reason != reason {
		f.Fatalf("claim %s: refused for %v, want %s", c.ID, e, reason)
	}
	return e
}

// try is a claim that may be granted or refused; it is not settled.
func (f *fixture) try(c admission.Claim) (admission.Grant, bool) {
	f.Helper()
	g, err := f.Store.Claim(f.Context(), c)
	var e *stoplog.Error
	if err != nil && !errors.As(err, &e) {
		f.Errorf("claim %s: the store is away: %v", c.ID, err)
	}
	return g, err == nil
}

func (f *fixture) settle(g admission.Grant, s admission.Settlement) {
	f.Helper()
	s.Grant = g.ID
	err := f.Store.Settle(f.Context(), s)
	if err != nil {
		f.Errorf("settle %s: %v", g.ID, err)
	}
}

func ended(h stoplog.Health) admission.Settlement {
	return admission.Settlement{Health: h, Tokens: -1}
}

// attempts claims and settles n times with one health, stopping at the first refusal, and returns how many were granted.
func (f *fixture) attempts(n int, h stoplog.Health, tunes ...tune) int {
	f.Helper()
	for i := range n {
		g, ok := f.try(f.claim(tunes...))
		if !ok {
			return i
		}
		f.settle(g, ended(h))
	}
	return n
}

// breaker is the view of one breaker, which must exist.
func (f *fixture) breaker(class string) admission.BreakerView {
	f.Helper()
	all, err := f.Operate.Breakers(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range all {
		if v.Destination == "vendor" && v.Class == class {
			return v
		}
	}
	f.Fatalf("no breaker of class %q", class)
	return admission.BreakerView{}
}

// taken is everything scarce that an operator can see; equal before and after means that nothing was taken.
func (f *fixture) taken() string {
	f.Helper()
	d, err := f.Operate.Destinations(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	b, err := f.Operate.Balances(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	s := ""
	for _, v := range d {
		s += fmt.Sprintf("%s tokens %.3f seats %d\n", v.Destination, v.Tokens, v.Seats)
	}
	for _, v := range b {
		if v.Used != 0 || v.Held != 0 {
			s += fmt.Sprintf("%s used %d held %d\n", v.Key, v.Used, v.Held)
		}
	}
	return s
}

func (f *fixture) untouched(before string) {
	f.Helper()
	diff := cmp.Diff(before, f.taken())
	if diff != "" {
		f.Errorf("a refused claim took something (-before +after):\n%s", diff)
	}
}

func (f *fixture) balance(key string) admission.Balance {
	f.Helper()
	all, err := f.Operate.Balances(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range all {
		if b.Key == key {
			return b
		}
	}
	return admission.Balance{}
}

func (f *fixture) seats() int64 {
	f.Helper()
	all, err := f.Operate.Destinations(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	for _, d := range all {
		if d.Destination == "vendor" {
			return d.Seats
		}
	}
	return 0
}

func (f *fixture) crash() {
	f.Helper()
	f.Store, f.Operate = f.Crash(f.T)
}

// together runs n calls at the same time.
func together(n int, do func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Go(func() {
			start.Wait()
			do(i)
		})
	}
	start.Done()
	done.Wait()
}

func equal[T any](f *fixture, what string, got, want T) {
	f.Helper()
	diff := cmp.Diff(want, got)
	if diff != "" {
		f.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
