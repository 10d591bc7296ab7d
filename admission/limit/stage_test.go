package limit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/admissiontest"
	"github.com/stoplog/stoplog/admission/limit"
)

var config = limit.Config{
	"openai": {
		Limit:   admission.Limit{Rate: 5, Burst: 5, TokenRate: 1000, TokenBurst: 9000, Seats: 3},
		Breaker: admission.Breaker{Consecutive: 5},
		Weights: map[string]float64{"acme": 2},
	},
	"slack": {Limit: admission.Limit{Rate: 1, Burst: 3, Seats: 2}},
}

func TestStage(t *testing.T) {
	admissiontest.Stage(t, func(*testing.T) admission.Stage { return limit.New(config) },
		admission.Case{Effect: &stoplog.Effect{Class: stoplog.ClassMessage, Destination: "slack"}},
		admission.Case{Effect: &stoplog.Effect{Class: stoplog.ClassModel, Destination: "openai"}})
}

func TestCharge(t *testing.T) {
	c := admission.Case{BreakerClass: "gpt", Effect: &stoplog.Effect{
		Class: stoplog.ClassModel, Destination: "openai", Actor: stoplog.Actor{Tenant: "acme"},
		Model: stoplog.ModelCall{InputTokens: 100, MaxOutputTokens: 50},
	}}
	o, err := limit.New(config).Judge(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	want := admission.DestinationCharge{
		Name: "openai", Class: "gpt", Tenant: "acme", Weight: 2, Requests: 1, Tokens: 150,
		Limit: config["openai"].Limit, Breaker: config["openai"].Breaker,
	}
	if diff := cmp.Diff(want, o.Charges.Destination); diff != "" {
		t.Error(diff)
	}

	c.Effect.Destination = "nowhere"
	o, err = limit.New(config).Judge(t.Context(), &c)
	if err == nil || o.Decision.Verdict != stoplog.Deny {
		t.Errorf("destination without limits: %+v, %v", o.Decision, err)
	}
}
