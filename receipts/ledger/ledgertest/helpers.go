package ledgertest

import (
	"testing"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// effect is a write with everything that must survive.
func effect(n byte) *stoplog.Effect {
	return &stoplog.Effect{
		Class: stoplog.ClassWrite, Action: "charges.create", Destination: "stripe", Connector: "stripe",
		Actor:    stoplog.Actor{Tenant: "acme", Org: "sales", Agent: "biller", Run: "r1"},
		Function: "out", Subject: "entry-7", Recipients: []string{"a@example.com", "b@example.com"}, Digest: [32]byte{n, 1, 2, 3},
	}
}

func exact() *stoplog.Exact {
	return &stoplog.Exact{
		Method: "POST", Host: "api.stripe.com", Target: "/v1/charges?x=%2F",
		Header: []stoplog.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "X-Odd", Value: "caf\xe9"}, {Name: "x-odd", Value: ""}},
		Body:   []byte("amount=1\x00\xff\r\n"),
	}
}

func proposal(n byte) ledger.Proposal {
	return ledger.Proposal{ID: ledger.NewID(), Key: [32]byte{n}, KeyTTL: time.Hour, Effect: effect(n)}
}

func soon() time.Time { return time.Now().Add(time.Minute).Truncate(time.Microsecond) }

func begin(t *testing.T, l Instance, p ledger.Proposal) ledger.Operation {
	t.Helper()
	op, err := l.Begin(t.Context(), p, soon(), &receipts.Receipt{})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func finish(t *testing.T, l Instance, id stoplog.OperationID, o stoplog.Outcome, a *stoplog.Answer) {
	t.Helper()
	err := l.Finish(t.Context(), id, o, a, &receipts.Receipt{Outcome: &receipts.OutcomeLine{Status: 200, Sent: "full"}})
	if err != nil {
		t.Fatal(err)
	}
}

func keep(t *testing.T, l Instance, p ledger.Proposal, h ledger.Hold) ledger.Operation {
	t.Helper()
	p.Exact = exact()
	op, err := l.Keep(t.Context(), p, h, &receipts.Receipt{})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func aHold() ledger.Hold {
	return ledger.Hold{
		Verdict: stoplog.Hold, Reason: stoplog.ReasonOutreachFreeze, Level: stoplog.L1, Expires: soon().Add(time.Hour).UTC(), Credential: "injected",
	}
}

func state(t *testing.T, l Instance, id stoplog.OperationID, want ledger.State) ledger.Operation {
	t.Helper()
	op, err := l.Get(t.Context(), id)
	if err != nil || op.State != want {
		t.Fatalf("got %s, %v; want %s", op.State, err, want)
	}
	return op
}

func types(l Instance, id stoplog.OperationID) (list []string) {
	for _, r := range l.Receipts(id) {
		list = append(list, string(r.Type)+" "+r.State)
	}
	return list
}
