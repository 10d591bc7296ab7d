package intent_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/admissiontest"
	"github.com/stoplog/stoplog/budget/intent"
)

var config = intent.Config{
	Destinations: map[string]intent.Destination{
		"decision": {Attempts: 3, Deadline: 4 * time.Second},
		"wild":     {Attempts: 1000, Deadline: 1000 * time.Hour},
	},
}

func TestStage(t *testing.T) {
	admissiontest.Stage(t, func(*testing.T) admission.Stage { return intent.New(config) },
		admission.Case{Effect: &stoplog.Effect{Intent: "wish", Destination: "decision"}, Received: time.Now()},
		admission.Case{Effect: &stoplog.Effect{}, Operation: "op", Released: true},
		admission.Case{Effect: &stoplog.Effect{Intent: "late"}, Received: time.Now().Add(-time.Hour)})
}

func TestCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		received := time.Now()
		time.Sleep(time.Second) // a slow upload
		for _, c := range []struct {
			name string
			c    admission.Case
			want admission.IntentCharge
		}{
			{
				"its own budget",
				admission.Case{Effect: &stoplog.Effect{Intent: "wish", Destination: "decision"}, Received: received},
				admission.IntentCharge{ID: "wish", Tenant: "acme", Budget: 3, Lifetime: 3 * time.Second},
			},
			{
				"defaults",
				admission.Case{Effect: &stoplog.Effect{Intent: "wish", Destination: "other"}, Received: received},
				admission.IntentCharge{ID: "wish", Tenant: "acme", Budget: 2, Lifetime: 29 * time.Second},
			},
			{
				"bounds",
				admission.Case{Effect: &stoplog.Effect{Intent: "wish", Destination: "wild"}},
				admission.IntentCharge{ID: "wish", Tenant: "acme", Budget: 10, Lifetime: time.Hour},
			},
			{
				"no intent",
				admission.Case{Effect: &stoplog.Effect{}, Operation: "op"},
				admission.IntentCharge{ID: "operation/op", Tenant: "acme", Budget: 2, Lifetime: 30 * time.Second},
			},
		} {
			c.c.Effect.Actor.Tenant = "acme"
			o, err := intent.New(config).Judge(t.Context(), &c.c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, o.Charges.Intent); diff != "" {
				t.Errorf("%s:\n%s", c.name, diff)
			}
		}

		time.Sleep(time.Minute)
		c := admission.Case{Effect: &stoplog.Effect{Intent: "wish"}, Operation: "op", Received: received}
		o, err := intent.New(config).Judge(t.Context(), &c)
		if err != nil || o.Decision.Verdict != stoplog.Deny || o.Decision.Reason != stoplog.ReasonDeadlineExceeded {
			t.Errorf("late: %+v, %v", o.Decision, err)
		}
		c.Received, c.Released = time.Now(), true
		o, err = intent.New(config).Judge(t.Context(), &c)
		if id := o.Charges.Intent.ID; err != nil || !strings.HasPrefix(string(id), "release/op/") {
			t.Errorf("a release is a new wish: got %q, %v", id, err)
		}
	})
}

func TestValidate(t *testing.T) {
	if err := (intent.Config{}).Validate(); err != nil {
		t.Errorf("zero config: %v", err)
	}
	for want, c := range map[string]intent.Config{
		`default.attempts`:             {Default: intent.Destination{Attempts: 11}},
		`default.deadline`:             {Default: intent.Destination{Deadline: 2 * time.Hour}},
		`destinations["a"].attempts`:   {Destinations: map[string]intent.Destination{"a": {Attempts: -1}}},
		`destinations["a"].deadline: `: {Destinations: map[string]intent.Destination{"a": {Deadline: time.Millisecond}}},
	} {
		err := c.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want an error at %s", err, want)
		}
	}
}
