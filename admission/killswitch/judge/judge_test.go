package judge_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/admissiontest"
	"github.com/stoplog/stoplog/admission/killswitch/judge"
)

func stage() *judge.Stage {
	return judge.New(judge.Config{Exempt: []judge.Exemption{{
		Name: "safety", Matches: func(e *stoplog.Effect) bool { return e.Function == "alarm" || e.Function == "" },
	}}})
}

func TestStage(t *testing.T) {
	admissiontest.Stage(t, func(*testing.T) admission.Stage { return stage() },
		admission.Case{Effect: &stoplog.Effect{Class: stoplog.ClassMessage, Function: "alarm", Destination: "slack"}},
		admission.Case{Effect: &stoplog.Effect{Class: stoplog.ClassWrite, Actor: stoplog.Actor{Tenant: "acme"}}})
}

func TestLevels(t *testing.T) {
	for _, c := range []struct {
		class    stoplog.Class
		function string
		below    stoplog.Level
		rule     string
	}{
		{stoplog.ClassRead, "", stoplog.L3, ""},
		{stoplog.ClassModel, "alarm", stoplog.L3, ""},
		{stoplog.ClassWrite, "alarm", stoplog.L2, ""},
		{stoplog.ClassMessage, "out", stoplog.L1, ""},
		{stoplog.ClassMessage, "alarm", stoplog.L2, "policies/safety"},
		{stoplog.ClassMessage, "", stoplog.L1, ""}, // without a function, whatever the rule says
		{stoplog.ClassUnspecified, "alarm", stoplog.L1, ""},
	} {
		e := stoplog.Effect{
			Class: c.class, Function: c.function, Destination: "slack", Actor: stoplog.Actor{Tenant: "acme", Agent: "bot"},
		}
		o, err := stage().Judge(t.Context(), &admission.Case{Effect: &e})
		if err != nil {
			t.Fatal(err)
		}
		want := admission.LevelCondition{
			Scopes: []stoplog.Scope{"fleet", "tenant/acme", "agent/bot", "destination/slack"}, Below: c.below,
		}
		if diff := cmp.Diff(want, o.Charges.Level); diff != "" {
			t.Errorf("%s of %q:\n%s", c.class, c.function, diff)
		}
		if o.Decision.Verdict != stoplog.Allow || o.Decision.Rule != c.rule {
			t.Errorf("%s of %q: %+v", c.class, c.function, o.Decision)
		}
	}
}
