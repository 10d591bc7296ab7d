package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// stage is one judge made of a function.
type stage struct {
	name  string
	judge func(context.Context, *admission.Case) (admission.Opinion, error)
}

func (s stage) Name() string { return s.name }
func (s stage) Judge(ctx context.Context, c *admission.Case) (admission.Opinion, error) {
	return s.judge(ctx, c)
}

func allows(name string) stage {
	return stage{name, func(context.Context, *admission.Case) (admission.Opinion, error) {
		return admission.Opinion{Decision: stoplog.Allowed(name)}, nil
	}}
}

// store is a store of functions; what is not set refuses.
type store struct {
	claim   func(admission.Claim) (admission.Grant, error)
	settled []admission.Settlement
	level   stoplog.Level
	err     error
}

func (s *store) Claim(_ context.Context, c admission.Claim) (admission.Grant, error) {
	if s.claim == nil {
		return admission.Grant{ID: c.ID}, nil
	}
	return s.claim(c)
}

func (s *store) Settle(_ context.Context, t admission.Settlement) error {
	s.settled = append(s.settled, t)
	return nil
}
func (s *store) Level([]stoplog.Scope) (stoplog.Level, error) { return s.level, s.err }
func (s *store) LevelChanged() <-chan struct{}                { return nil }

func caseOf(c stoplog.Class) *admission.Case {
	return &admission.Case{Effect: &stoplog.Effect{Class: c, Destination: "d"}, Operation: "op_1"}
}

func TestWhatDoesNotAllowDenies(t *testing.T) {
	for name, c := range map[string]struct {
		judge  func(context.Context, *admission.Case) (admission.Opinion, error)
		reason stoplog.Reason
	}{
		"zero opinion": {func(context.Context, *admission.Case) (admission.Opinion, error) { return admission.Opinion{}, nil }, stoplog.ReasonInternal},
		"error": {func(context.Context, *admission.Case) (admission.Opinion, error) {
			return admission.Opinion{Decision: stoplog.Allowed("x")}, errors.New("away")
		}, stoplog.ReasonInternal},
		"panic": {func(context.Context, *admission.Case) (admission.Opinion, error) { panic("boom") }, stoplog.ReasonInternal},
		"allow without a reason": {func(context.Context, *admission.Case) (admission.Opinion, error) {
			return admission.Opinion{Decision: stoplog.Decision{Verdict: stoplog.Allow}}, nil
		}, stoplog.ReasonInternal},
		"refusal": {func(context.Context, *admission.Case) (admission.Opinion, error) {
			return admission.Opinion{}, stoplog.Refuse(stoplog.ReasonPriceUnknown, "x")
		}, stoplog.ReasonPriceUnknown},
	} {
		st := &store{claim: func(admission.Claim) (admission.Grant, error) {
			t.Errorf("%s: something was claimed", name)
			return admission.Grant{}, nil
		}}
		p := admission.New(st, admission.Options{}, allows("first"), stage{"bad", c.judge}, allows("after"))
		permit, j := p.Admit(t.Context(), caseOf(stoplog.ClassWrite), &stoplog.Exact{}, "c1")
		if permit != nil || j.Decision.Verdict != stoplog.Deny || j.Decision.Reason != c.reason || j.Decision.Stage != "bad" {
			t.Errorf("%s: %+v, want deny %s by bad", name, j.Decision, c.reason)
		}
		if len(j.Opinions) != 2 {
			t.Errorf("%s: %d opinions, want those up to the refusal", name, len(j.Opinions))
		}
	}
}

func TestStoreRefusals(t *testing.T) {
	for _, c := range []struct {
		class stoplog.Class
		err   error
		want  stoplog.Verdict
	}{
		{stoplog.ClassMessage, &stoplog.Error{Reason: stoplog.ReasonOutreachFreeze, Level: stoplog.L1}, stoplog.Hold},
		{stoplog.ClassWrite, &stoplog.Error{Reason: stoplog.ReasonWriteFreeze, Level: stoplog.L2}, stoplog.Park},
		{stoplog.ClassModel, &stoplog.Error{Reason: stoplog.ReasonFullStop, Level: stoplog.L3}, stoplog.Deny},
		{stoplog.ClassMessage, errors.New("connection refused"), stoplog.Hold}, // the store is away
		{stoplog.ClassWrite, errors.New("connection refused"), stoplog.Park},
		{stoplog.ClassRead, errors.New("connection refused"), stoplog.Deny},
		{stoplog.ClassWrite, &stoplog.Error{Reason: stoplog.ReasonBreakerOpen, RetryAfter: time.Hour}, stoplog.Deny},
	} {
		p := admission.New(&store{claim: func(admission.Claim) (admission.Grant, error) { return admission.Grant{}, c.err }}, admission.Options{}, allows("s"))
		permit, j := p.Admit(t.Context(), caseOf(c.class), &stoplog.Exact{}, "c1")
		if permit != nil || j.Decision.Verdict != c.want {
			t.Errorf("%v, %v: %+v, want %v", c.class, c.err, j.Decision, c.want)
		}
	}
}

// A claim waits only where waiting helps, and no longer than it may.
func TestClaimWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		st := &store{claim: func(c admission.Claim) (admission.Grant, error) {
			if n++; n < 3 {
				return admission.Grant{}, &stoplog.Error{Reason: stoplog.ReasonRateLimited, RetryAfter: 100 * time.Millisecond}
			}
			return admission.Grant{ID: c.ID}, nil
		}}
		p := admission.New(st, admission.Options{MaxWait: 250 * time.Millisecond}, allows("s"))
		begin := time.Now()
		permit, j := p.Admit(t.Context(), caseOf(stoplog.ClassRead), &stoplog.Exact{}, "c1")
		if permit == nil || n != 3 || time.Since(begin) != 200*time.Millisecond {
			t.Errorf("%+v after %d claims and %v", j.Decision, n, time.Since(begin))
		}
		n = -2
		if permit, j := p.Admit(t.Context(), caseOf(stoplog.ClassRead), &stoplog.Exact{}, "c2"); permit != nil || j.Decision.RetryAfter != 100*time.Millisecond {
			t.Errorf("%+v, want refused after 250 ms of waiting", j.Decision)
		}
	})
}

func TestPermit(t *testing.T) {
	st := &store{}
	charge := stage{"level", func(context.Context, *admission.Case) (admission.Opinion, error) {
		return admission.Opinion{Decision: stoplog.Allowed("level"), Charges: admission.Charges{Level: admission.LevelCondition{Scopes: []stoplog.Scope{"fleet"}, Below: stoplog.L2}}}, nil
	}}
	p := admission.New(st, admission.Options{}, charge)
	permit, j := p.Admit(t.Context(), caseOf(stoplog.ClassWrite), &stoplog.Exact{}, "c1")
	if permit == nil {
		t.Fatal(j.Decision)
	}
	if d := permit.LastLook(); d != nil {
		t.Errorf("last look at L0: %+v", d)
	}
	st.level = stoplog.L2
	if d := permit.LastLook(); d == nil || d.Verdict != stoplog.Park || d.Reason != stoplog.ReasonWriteFreeze {
		t.Errorf("last look at L2: %+v, want parked", d)
	}
	st.err = errors.New("not known")
	if d := permit.LastLook(); d == nil || d.Reason != stoplog.ReasonLevelUnknown {
		t.Errorf("level not known: %+v, want level_unknown", d)
	}
	mustPanic(t, "another attempt before the last is settled", func() { permit.Again(t.Context(), "c2") })
	if err := permit.Settle(t.Context(), admission.Settlement{}); err != nil {
		t.Fatal(err)
	}
	mustPanic(t, "settled twice", func() { _ = permit.Settle(t.Context(), admission.Settlement{}) })
	if len(st.settled) != 1 || st.settled[0].Grant != "c1" {
		t.Errorf("settled %+v, want once with the grant", st.settled)
	}
	retry := false
	st.claim = func(c admission.Claim) (admission.Grant, error) {
		retry = c.Charges.Destination.Retry
		return admission.Grant{ID: c.ID}, nil
	}
	if d := permit.Again(t.Context(), "c2"); d.Verdict != stoplog.Allow || !retry || permit.Grant().ID != "c2" {
		t.Errorf("again: %+v, retry %v, grant %q", d, retry, permit.Grant().ID)
	}
}

func TestObserved(t *testing.T) {
	st := &store{claim: func(admission.Claim) (admission.Grant, error) {
		return admission.Grant{}, &stoplog.Error{Reason: stoplog.ReasonFullStop, Level: stoplog.L3}
	}}
	p := admission.New(st, admission.Options{Observe: true}, allows("s"))
	permit, j := p.Admit(t.Context(), caseOf(stoplog.ClassWrite), &stoplog.Exact{}, "c1")
	if permit == nil || !j.Observed || j.Decision.Verdict != stoplog.Park {
		t.Fatalf("%+v, want a permit and the decision that was not enforced", j)
	}
	st.level = stoplog.L3
	if d := permit.LastLook(); d != nil {
		t.Errorf("last look: %+v", d)
	}
	if err := permit.Settle(t.Context(), admission.Settlement{}); err != nil || len(st.settled) != 0 {
		t.Errorf("nothing was taken, but %v was settled (%v)", st.settled, err)
	}
	mustPanic(t, "duplicate stage", func() { admission.New(st, admission.Options{}, allows("a"), allows("a")) })
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	f()
}
