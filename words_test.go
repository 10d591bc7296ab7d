package stoplog_test

import (
	"testing"

	"github.com/stoplog/stoplog"
)

// What is missing never permits (a limiter whose zero value allows is the field's classic mistake).
func TestZeroValuesRefuse(t *testing.T) {
	if v := (stoplog.Decision{}).Verdict; v != stoplog.Deny {
		t.Errorf("zero Decision is %v, want deny", v)
	}
	if c := (stoplog.Effect{}).Class; c.Stops() != stoplog.L1 || c.StoppedVerdict() != stoplog.Deny {
		t.Errorf("zero class stops at %v with %v, want L1 and deny", c.Stops(), c.StoppedVerdict())
	}
	if o := stoplog.Outcome(0); o != stoplog.OutcomeUnknown {
		t.Errorf("zero Outcome is %v, want unknown", o)
	}
	if h := stoplog.Health(0); h != stoplog.HealthNeutral {
		t.Errorf("zero Health is %v, want neutral", h)
	}
	if l, err := stoplog.ParseLevel("none"); err == nil || l != stoplog.L3 {
		t.Errorf("an unreadable level is %v, %v; want L3 and an error", l, err)
	}
}

func TestLevelsStopClasses(t *testing.T) {
	for _, c := range []struct {
		class   stoplog.Class
		stops   stoplog.Level
		verdict stoplog.Verdict
	}{
		{stoplog.ClassMessage, stoplog.L1, stoplog.Hold},
		{stoplog.ClassWrite, stoplog.L2, stoplog.Park},
		{stoplog.ClassModel, stoplog.L3, stoplog.Deny},
		{stoplog.ClassRead, stoplog.L3, stoplog.Deny},
	} {
		if got := c.class.Stops(); got != c.stops {
			t.Errorf("%v stops at %v, want %v", c.class, got, c.stops)
		}
		if got := c.class.StoppedVerdict(); got != c.verdict {
			t.Errorf("stopped %v is %v, want %v", c.class, got, c.verdict)
		}
		back, err := stoplog.ParseClass(c.class.String())
		if err != nil || back != c.class {
			t.Errorf("ParseClass(%q) = %v, %v", c.class, back, err)
		}
	}
}

func TestScopes(t *testing.T) {
	a := stoplog.Actor{Tenant: "acme", Agent: "bot"}
	got := a.Scopes("slack")
	want := []stoplog.Scope{"fleet", "tenant/acme", "agent/bot", "destination/slack"}
	if len(got) != len(want) {
		t.Fatalf("scopes %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("scope %d is %q, want %q", i, got[i], want[i])
		}
		if _, err := stoplog.ParseScope(string(got[i])); err != nil {
			t.Errorf("ParseScope(%q): %v", got[i], err)
		}
	}
	for _, bad := range []string{"", "tenant/", "tenant/a/b", "planet/earth", "tenant/a b"} {
		if _, err := stoplog.ParseScope(bad); err == nil {
			t.Errorf("ParseScope(%q) passes", bad)
		}
	}
}
