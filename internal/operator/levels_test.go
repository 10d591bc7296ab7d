package operator_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission/killswitch"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/internal/operator/operatortest"
)

func raise(t *testing.T, c *operator.Client, scope, level string) operator.LevelChanged {
	t.Helper()
	done, err := c.ChangeLevel(t.Context(), operator.LevelChange{Action: "raise", Scope: scope, Level: level, Reason: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestRaiseAndLower(t *testing.T) {
	f := operatortest.New()
	c := serve(t, f)
	done := raise(t, c, "tenant/acme", "L2")
	if done.From != "L0" || done.Level != "L2" || !done.Recorded || done.Receipt == nil {
		t.Errorf("raised: %+v", done)
	}
	levels, err := c.Levels(t.Context())
	if err != nil || len(levels) != 2 || levels[0].Scope != "fleet" || levels[1].Level != "L2" || levels[1].Epoch != done.Epoch {
		t.Fatalf("levels: %+v %v", levels, err)
	}
	if r := levels[1].Raises; len(r) != 1 || !r[0].Stands || !strings.HasPrefix(r[0].Actor, "user:") && !strings.HasPrefix(r[0].Actor, "uid:") {
		t.Errorf("raises: %+v", r)
	}
	low, err := c.ChangeLevel(t.Context(), operator.LevelChange{Action: "lower", Scope: "tenant/acme", Level: "L0", Reason: "over", Seen: done.Epoch})
	if err != nil || low.From != "L2" || low.Level != "L0" || low.Note != "" {
		t.Fatalf("lowered: %+v %v", low, err)
	}
	// Each receipt is there before its change.
	want := []string{"receipt ctl.level raise", "raise tenant/acme L2", "receipt ctl.level lower", "decide tenant/acme L0"}
	if !slices.Equal(f.Calls, want) {
		t.Errorf("order: %q", f.Calls)
	}
	n := f.Written[1].Note
	if n["from"] != "L2" || n["to"] != "L0" || n["reason"] != "over" || n["scope"] != "tenant/acme" || n["seen"] == "" || n["actor"] == "" {
		t.Errorf("receipt: %v", n)
	}
}

// A raise that arrives between the human's look and his decision survives.
func TestConcurrentRaiseSurvives(t *testing.T) {
	f := operatortest.New()
	c := serve(t, f)
	seen := raise(t, c, "fleet", "L1").Epoch
	f.Before = func() {
		_, _ = f.Raise(t.Context(), stoplog.ScopeFleet, killswitch.Raise{Level: stoplog.L2, Actor: "automation:leak"})
	}
	low, err := c.ChangeLevel(t.Context(), operator.LevelChange{Action: "lower", Scope: "fleet", Level: "L0", Reason: "over", Seen: seen})
	if err != nil || low.Level != "L2" || low.Note == "" {
		t.Errorf("%+v %v", low, err)
	}
}

func TestLowerRefusals(t *testing.T) {
	for _, x := range []struct {
		name   string
		at     string
		change operator.LevelChange
		broken error
		status int
		detail string
	}{
		{"no reason", "L2", operator.LevelChange{Level: "L0", Seen: 1}, nil, http.StatusBadRequest, "reason"},
		{"blank reason", "L2", operator.LevelChange{Level: "L0", Seen: 1, Reason: " \t"}, nil, http.StatusBadRequest, "reason"},
		{"control characters", "L2", operator.LevelChange{Level: "L0", Seen: 1, Reason: "a\x1b[2Jb"}, nil, http.StatusBadRequest, "control"},
		{"nothing seen", "L2", operator.LevelChange{Level: "L0", Reason: "x"}, nil, http.StatusBadRequest, "seen"},
		{"the future seen", "L2", operator.LevelChange{Level: "L0", Reason: "x", Seen: 1 << 60}, nil, http.StatusBadRequest, "seen"},
		{"not lower", "L1", operator.LevelChange{Level: "L1", Reason: "x", Seen: 1}, nil, http.StatusConflict, "not lower"},
		{"full stop, log broken", "L3", operator.LevelChange{Level: "L2", Reason: "x", Seen: 1}, errors.New("edited"), http.StatusConflict, "it does not: edited"},
		{"wrong level", "L1", operator.LevelChange{Level: "L7", Reason: "x", Seen: 1}, nil, http.StatusBadRequest, "L7"},
	} {
		f := operatortest.New()
		c := serve(t, f)
		raise(t, c, "fleet", x.at)
		f.Unproven = x.broken
		before := len(f.Calls)
		x.change.Action, x.change.Scope = "lower", "fleet"
		_, err := c.ChangeLevel(t.Context(), x.change)
		p := problem(t, err)
		if p.Status != x.status || !strings.Contains(p.Detail, x.detail) {
			t.Errorf("%s: %+v", x.name, p)
		}
		if len(f.Calls) != before {
			t.Errorf("%s: %q", x.name, f.Calls)
		}
	}
}

func TestFullStopIsLoweredOnceTheLogVerifies(t *testing.T) {
	c := serve(t, operatortest.New())
	seen := raise(t, c, "fleet", "L3").Epoch
	low, err := c.ChangeLevel(t.Context(), operator.LevelChange{Action: "lower", Scope: "fleet", Level: "L0", Reason: "x", Seen: seen})
	if err != nil || low.Level != "L0" {
		t.Errorf("%+v %v", low, err)
	}
}

// A log that takes nothing keeps a level from being lowered, but not from being raised.
func TestNoRecordNoLowering(t *testing.T) {
	f := operatortest.New()
	c := serve(t, f)
	seen := raise(t, c, "fleet", "L1").Epoch
	f.LogErr = errors.New("disk full")
	_, err := c.ChangeLevel(t.Context(), operator.LevelChange{Action: "lower", Scope: "fleet", Level: "L0", Reason: "x", Seen: seen})
	if p := problem(t, err); p.Reason != "evidence_unavailable" || p.Status != http.StatusServiceUnavailable {
		t.Errorf("%+v", p)
	}
	done := raise(t, c, "fleet", "L2")
	if done.Level != "L2" || done.Recorded || done.Note == "" {
		t.Errorf("%+v", done)
	}
}

// A change that fails after its receipt is taken back by another receipt.
func TestFailedChangeIsRecorded(t *testing.T) {
	f := operatortest.New()
	c := serve(t, f)
	f.StoreErr = stoplog.Refuse(stoplog.ReasonStoreUnavailable, "away")
	_, err := c.ChangeLevel(t.Context(), operator.LevelChange{Action: "raise", Scope: "fleet", Level: "L1"})
	if p := problem(t, err); p.Status != http.StatusServiceUnavailable {
		t.Errorf("%+v", p)
	}
	if len(f.Written) != 2 || f.Written[1].Note["failed"] != "store_unavailable" {
		t.Errorf("%+v", f.Written)
	}
}

func TestStrictBodies(t *testing.T) {
	f := operatortest.New()
	s := admin(t, f)
	for _, body := range []string{
		`{"action":"raise","scope":"fleet","level":"L1","levle":"L3"}`,
		`{"action":"raise","scope":"fleet","level":"L1","level":"L3"}`,
		`{"action":"raise","scope":"fleet","level":"L1"} {}`,
		`{"action":"raise","scope":"fleet","Level":"L1"}`,
		`{"action":"raise","scope":"the fleet","level":"L1"}`,
		`{"action":"raise","scope":"fleet","level":"L0"}`,
		`{"action":"open","scope":"fleet","level":"L1"}`,
		strings.Repeat("x", 2<<20),
	} {
		status, answer := send(t, "POST", s.URL+"/v1/levels", body, "Authorization", "Bearer "+operatortest.Token)
		if status != http.StatusBadRequest {
			t.Errorf("%.60s: %d %s", body, status, answer)
		}
	}
	if len(f.Calls) > 0 {
		t.Errorf("%q", f.Calls)
	}
}
