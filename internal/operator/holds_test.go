package operator_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/internal/operator/operatortest"
)

func TestHoldsShowNoContent(t *testing.T) {
	f := operatortest.New()
	s := admin(t, f)
	_, body := send(t, "GET", s.URL+"/v1/holds", "", "Authorization", "Bearer "+operatortest.Token)
	if strings.Contains(body, "ada@") || !strings.Contains(body, `"recipients":1`) || !strings.Contains(body, `"verdict":"park"`) {
		t.Error(body)
	}
	_, body = send(t, "POST", s.URL+"/v1/holds:release", `{"selection":{"all":true},"dry_run":true}`, "Authorization", "Bearer "+operatortest.Token)
	if strings.Contains(body, "ada@") || !strings.Contains(body, `"holds":2`) || !strings.Contains(body, `"mark":"r:`) {
		t.Error(body)
	}
	if len(f.Calls) > 0 {
		t.Errorf("a dry run did %q", f.Calls)
	}
}

func TestRelease(t *testing.T) {
	f := operatortest.New()
	c := serve(t, f)
	got, err := c.ReleaseMany(t.Context(), operator.ReleaseRequest{Selection: operator.Selection{Class: "message"}, Reason: "ok"})
	if err != nil || got.Sent != 1 || got.Kept != 0 || got.Results[0].Operation != "op_1" || got.Results[0].Outcome != "confirmed" {
		t.Fatalf("%+v %v", got, err)
	}
	if !strings.HasPrefix(f.Calls[0], "release op_1 by u") || !strings.HasSuffix(f.Calls[0], ": ok") {
		t.Errorf("%q", f.Calls)
	}
	_, err = c.Release(t.Context(), "op_1")
	if p := problem(t, err); p.Status != http.StatusConflict {
		t.Errorf("released twice: %+v", p)
	}
	_, err = c.Release(t.Context(), "op_9")
	if p := problem(t, err); p.Status != http.StatusNotFound {
		t.Errorf("unknown: %+v", p)
	}
	op, err := c.Withdraw(t.Context(), "op_2", "stale")
	if err != nil || op.State != "void" {
		t.Errorf("%+v %v", op, err)
	}
}

func TestEmptySelection(t *testing.T) {
	c := serve(t, operatortest.New())
	_, err := c.ReleaseMany(t.Context(), operator.ReleaseRequest{})
	if p := problem(t, err); p.Status != http.StatusBadRequest {
		t.Errorf("%+v", p)
	}
}

// Within one tenant and destination nothing overtakes an effect that has to wait; other destinations go on.
func TestReleaseKeepsOrder(t *testing.T) {
	f := operatortest.New()
	third := f.Held[0]
	third.ID, third.Created = "op_3", third.Created.Add(time.Minute)
	f.Held = append(f.Held, third)
	f.Result = func(id stoplog.OperationID) (operator.ReleaseResult, error) {
		if id == "op_1" {
			return operator.ReleaseResult{Decision: stoplog.Decision{Verdict: stoplog.Hold, Reason: stoplog.ReasonOutreachFreeze}}, nil
		}
		return operator.ReleaseResult{Decision: stoplog.Allowed("store"), Sent: true, Outcome: stoplog.OutcomeConfirmed}, nil
	}
	got, err := serve(t, f).ReleaseMany(t.Context(), operator.ReleaseRequest{Selection: operator.Selection{All: true}})
	if err != nil || got.Sent != 1 || got.Kept != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	if r := got.Results[2]; r.Operation != "op_3" || r.Verdict != "waiting" || r.Reason != "outreach_freeze" {
		t.Errorf("%+v", r)
	}
	if len(f.Calls) != 2 {
		t.Errorf("%q", f.Calls)
	}
}

// Where a limit is in the way, the release waits for it instead of giving up or pushing.
func TestReleaseIsPaced(t *testing.T) {
	f := operatortest.New()
	tries := 0
	f.Result = func(stoplog.OperationID) (operator.ReleaseResult, error) {
		tries++
		if tries < 3 {
			return operator.ReleaseResult{Decision: stoplog.Decision{Reason: stoplog.ReasonRateLimited, RetryAfter: 10 * time.Millisecond}}, nil
		}
		return operator.ReleaseResult{Decision: stoplog.Allowed("store"), Sent: true, Outcome: stoplog.OutcomeConfirmed}, nil
	}
	got, err := serve(t, f).Release(t.Context(), "op_1")
	if err != nil || got.Sent != 1 || tries != 3 {
		t.Errorf("%+v %v after %d tries", got, err, tries)
	}
}

func TestBreakersBudgetsConfig(t *testing.T) {
	f := operatortest.New()
	c := serve(t, f)
	list, err := c.ForceBreaker(t.Context(), "slack", operator.BreakerForce{To: "half_open", Reason: "vendor says so"})
	if err != nil || len(list) != 1 || list[0].State != "half_open" {
		t.Errorf("%+v %v", list, err)
	}
	if n := f.Written[0].Note; n["to"] != "half_open" || n["destination"] != "slack" || n["reason"] == "" {
		t.Errorf("%v", n)
	}
	for _, x := range []struct {
		destination string
		f           operator.BreakerForce
		status      int
	}{
		{"slack", operator.BreakerForce{To: "closed", Reason: "x"}, http.StatusBadRequest},
		{"slack", operator.BreakerForce{To: "open"}, http.StatusBadRequest},
		{"slakc", operator.BreakerForce{To: "open", Reason: "x"}, http.StatusNotFound},
	} {
		_, err = c.ForceBreaker(t.Context(), x.destination, x.f)
		if p := problem(t, err); p.Status != x.status {
			t.Errorf("%v: %+v", x, p)
		}
	}
	b, err := c.Budgets(t.Context())
	if err != nil || len(b) != 1 || b[0].Left != 3_500_000 {
		t.Errorf("%+v %v", b, err)
	}
	d, err := c.Destinations(t.Context())
	if err != nil || len(d) != 1 || d[0].Local == "" || d[0].SeatLimit != 32 {
		t.Errorf("%+v %v", d, err)
	}
	v, err := c.Reload(t.Context())
	if err != nil || !v.Changed {
		t.Errorf("%+v %v", v, err)
	}
	dump, err := c.Config(t.Context())
	if err != nil || dump.YAML == "" {
		t.Errorf("%+v %v", dump, err)
	}
}
