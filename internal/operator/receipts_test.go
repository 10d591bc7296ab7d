package operator_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/internal/operator"
	"github.com/stoplog/stoplog/internal/operator/operatortest"
	"github.com/stoplog/stoplog/receipts"
)

func written(t *testing.T, f *operatortest.Fake) {
	t.Helper()
	for _, r := range []*receipts.Receipt{
		{Type: receipts.TypeLogOpen, Note: map[string]string{"key": "k"}},
		{
			Type: receipts.TypeHoldCreated, Operation: "op_1", Destination: "slack", Class: stoplog.ClassMessage, Action: "chat.postMessage",
			Actor: stoplog.Actor{Tenant: "acme", Agent: "bot"}, Decided: true, Verdict: stoplog.Hold, Reason: stoplog.ReasonOutreachFreeze, Stage: "store", Level: stoplog.L1,
		},
		{Type: receipts.TypeDispatching, Operation: "op_1", Destination: "slack", Class: stoplog.ClassMessage, Action: "chat.postMessage", Decided: true, Verdict: stoplog.Allow, Reason: stoplog.ReasonAllowed, Stage: "store"},
		{Type: receipts.TypeOpOutcome, Operation: "op_1", Destination: "slack", Class: stoplog.ClassMessage, Outcome: &receipts.OutcomeLine{Outcome: stoplog.OutcomeConfirmed, Status: 200, Sent: "full"}},
	} {
		_, err := f.Append(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
	}
	f.Calls = nil
}

func TestReceipts(t *testing.T) {
	f := operatortest.New()
	written(t, f)
	c := serve(t, f)
	for _, x := range []struct {
		name string
		q    operator.Query
		want string
	}{
		{"all", operator.Query{}, "0 1 2 3"},
		{"tail", operator.Query{Tail: 2}, "2 3"},
		{"long tail", operator.Query{Tail: 9}, "0 1 2 3"},
		{"operation", operator.Query{Operation: "op_1"}, "1 2 3"},
		{"verdict", operator.Query{Verdict: "hold"}, "1"},
		{"deny is not undecided", operator.Query{Verdict: "deny"}, ""},
		{"type", operator.Query{Type: "op.*", Tail: 1}, "3"},
		{"since", operator.Query{Since: operatortest.Start.Add(2 * time.Second)}, "2 3"},
		{"several", operator.Query{Tenant: "acme", Class: "message", Reason: "outreach_freeze", Destination: "slack", Agent: "bot"}, "1"},
	} {
		var got []string
		err := c.Receipts(t.Context(), x.q, false, func(r *receipts.Receipt) error {
			got = append(got, string('0'+rune(r.Seq)))
			return nil
		})
		if err != nil || strings.Join(got, " ") != x.want {
			t.Errorf("%s: %v, want %s: %v", x.name, got, x.want, err)
		}
	}
}

func TestFollow(t *testing.T) {
	f := operatortest.New()
	written(t, f)
	c := serve(t, f)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	n := 0
	err := c.Receipts(ctx, operator.Query{Tail: 1}, true, func(r *receipts.Receipt) error {
		n++
		if n == 1 {
			_, err := f.Append(ctx, &receipts.Receipt{Type: receipts.TypeLevel, Note: map[string]string{"to": "L1"}})
			return err
		}
		if r.Type != receipts.TypeLevel {
			t.Errorf("then came %s", r.Type)
		}
		stop()
		return nil
	})
	if n != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d receipts, %v", n, err)
	}
}

func TestFind(t *testing.T) {
	f := operatortest.New()
	written(t, f)
	c := serve(t, f)
	for ref, want := range map[string]int{
		"1": 1, "test.local/000001@2": 1, `"test.local/000001";seq=3`: 1, "op_1": 3, `"op_1"`: 3,
	} {
		got, err := c.Find(t.Context(), ref)
		if err != nil || len(got) != want {
			t.Errorf("%s: %d receipts, %v", ref, len(got), err)
		}
	}
	for _, ref := range []string{"99", "other.local/1@2", "op_9", "", "a b"} {
		_, err := c.Find(t.Context(), ref)
		if err == nil || !strings.Contains(err.Error(), "eceipt") {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

func TestReceiptsQueryIsStrict(t *testing.T) {
	s := admin(t, operatortest.New())
	for _, q := range []string{"verdcit=deny", "tail=x", "tail=-1", "since=yesterday", "tail=1&tail=2", "follow=maybe"} {
		status, body := send(t, "GET", s.URL+"/v1/receipts?"+q, "", "Authorization", "Bearer "+operatortest.Token)
		if status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", q, status, body)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, x := range []struct {
		name string
		r    receipts.Receipt
		want []string
	}{
		{"held", receipts.Receipt{
			Type: receipts.TypeHoldCreated, Class: stoplog.ClassMessage, Action: "chat.postMessage", Destination: "slack", Operation: "op_7",
			Actor: stoplog.Actor{Tenant: "acme", Agent: "bot"}, Recipients: receipts.Count{N: 3},
			Decided: true, Verdict: stoplog.Hold, Reason: stoplog.ReasonOutreachFreeze, Stage: "store", Level: stoplog.L1,
		}, []string{"to 3 recipient(s), by acme/bot", "above L0: fleet, tenant/acme, agent/bot, destination/slack", "holds release op_7", "effective level L1", "nothing was sent"}},
		{"over budget", receipts.Receipt{
			Type: receipts.TypeDecision, Class: stoplog.ClassModel, Action: "chat.completions", Destination: "openai", Decided: true,
			Reason: stoplog.ReasonBudgetExhausted, Stage: "store", Rule: "budgets/hourly",
			Budgets: []receipts.BudgetLine{{Budget: "hourly", Unit: "usd_micro", Limit: 100, Before: 90, Reserved: 30, Actual: -1}},
		}, []string{"rule budgets/hourly", "10 usd_micro left and the worst case needs 30", "at least 120"}},
		{
			"observed",
			receipts.Receipt{Type: receipts.TypeDecision, Action: "x", Destination: "y", Decided: true, Reason: stoplog.ReasonPolicyDenied, Rule: "policies/no", Observe: true},
			[]string{"--observe", "policies/no"},
		},
		{
			"broken",
			receipts.Receipt{Type: receipts.TypeDecision, Action: "x", Destination: "crm", Decided: true, Reason: stoplog.ReasonBreakerOpen, Breaker: "open"},
			[]string{"breaker force crm half-open", "breaker open"},
		},
		{"released", receipts.Receipt{Type: receipts.TypeDispatching, Action: "x", Destination: "y", Note: map[string]string{"released_by": "user:ada"}}, []string{"noted: released_by=user:ada"}},
		{"raised", receipts.Receipt{Type: receipts.TypeLevel, Note: map[string]string{"to": "L2", "actor": "user:ada"}}, []string{"actor=user:ada to=L2"}},
		{
			"ended",
			receipts.Receipt{Type: receipts.TypeOpOutcome, Action: "x", Destination: "y", Outcome: &receipts.OutcomeLine{Outcome: stoplog.OutcomeUnknown, Sent: "full", Error: "reset", By: "timeout"}},
			[]string{"unknown: full sent", "connection error: reset"},
		},
	} {
		e := operator.Explain(&x.r)
		text := strings.Join(append(append(append([]string{e.Effect, e.Decider, e.Happened, e.Why}, e.Facts...), e.Judges...), e.Change...), "\n")
		for _, w := range x.want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not in\n%s", x.name, w, text)
			}
		}
	}
}
