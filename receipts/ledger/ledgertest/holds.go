package ledgertest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
)

func hold(t *testing.T, l Instance) {
	p := proposal(1)
	op := keep(t, l, p, aHold())
	if op.State != ledger.Proposed || op.Hold == nil || op.Hold.Bytes != int64(len(exact().Body)) {
		t.Fatalf("kept: %+v", op)
	}
	l = l.Crash()
	list, err := l.Holds(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("holds: %v, %v", list, err)
	}
	op = list[0]
	want := aHold()
	want.Bytes = int64(len(exact().Body))
	want.Expires = op.Hold.Expires
	if d := cmp.Diff(&want, op.Hold); d != "" {
		t.Errorf("hold after a crash (-want +got):\n%s", d)
	}
	if d := cmp.Diff(*p.Effect, op.Effect); d != "" {
		t.Errorf("effect after a crash (-want +got):\n%s", d)
	}
	bytes, err := l.Bytes(t.Context(), p.ID)
	if err != nil || cmp.Diff(exact(), bytes) != "" {
		t.Fatalf("bytes after a crash: %v, %v", cmp.Diff(exact(), bytes), err)
	}
	changed := p
	changed.Effect = effect(9)
	if _, err := l.Begin(t.Context(), changed, soon(), &receipts.Receipt{}); err == nil {
		t.Error("released with other content")
	}
	op = begin(t, l, p)
	if op.ID != p.ID || op.State != ledger.Dispatching || op.Hold != nil {
		t.Errorf("released: %+v", op)
	}
	var k *ledger.Known
	if _, err := l.Begin(t.Context(), p, soon(), &receipts.Receipt{}); !errors.As(err, &k) {
		t.Errorf("released twice: %v", err)
	}
	finish(t, l, p.ID, stoplog.OutcomeConfirmed, nil)
	steps := []string{"hold.created proposed", "hold.released proposed", "op.dispatching dispatching", "op.outcome confirmed"}
	if got := types(l, p.ID); !slices.Equal(got, steps) {
		t.Errorf("receipts %v", got)
	}
	rs := l.Receipts(p.ID)
	if rs[0].Request.Hash == "" || rs[0].Request.Hash != rs[2].Request.Hash || rs[0].Recipients != rs[2].Recipients {
		t.Errorf("the receipts do not prove that what was held is what was sent: %v, %v", rs[0].Request, rs[2].Request)
	}
}

func withdraw(t *testing.T, l Instance) {
	p := proposal(1)
	keep(t, l, p, aHold())
	if err := l.Withdraw(t.Context(), p.ID, &receipts.Receipt{}); err != nil {
		t.Fatal(err)
	}
	state(t, l, p.ID, ledger.Void)
	l = l.Crash()
	state(t, l, p.ID, ledger.Void)
	if list, _ := l.Holds(t.Context()); len(list) != 0 {
		t.Errorf("still held: %v", list)
	}
	var k *ledger.Known
	if _, err := l.Begin(t.Context(), proposal(1), soon(), &receipts.Receipt{}); !errors.As(err, &k) || k.Operation.State != ledger.Void {
		t.Errorf("a repetition of a withdrawn effect: %v", err)
	}
}

func expire(t *testing.T, l Instance) {
	h := aHold()
	p, q := proposal(1), proposal(2)
	keep(t, l, p, h)
	h.Expires = h.Expires.Add(time.Hour)
	keep(t, l, q, h)
	if err := l.Sweep(h.Expires.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	state(t, l, p.ID, ledger.Void)
	state(t, l, q.ID, ledger.Proposed)
	if got := types(l, p.ID); got[len(got)-1] != "hold.expired void" {
		t.Errorf("receipts %v", got)
	}
}

func tooLarge(t *testing.T, l Instance) {
	p := proposal(1)
	p.Exact = exact()
	p.Exact.Body = make([]byte, 10<<20+1)
	_, err := l.Keep(t.Context(), p, aHold(), &receipts.Receipt{})
	if stoplog.ReasonOf(err) != stoplog.ReasonHoldTooLarge {
		t.Errorf("got %v", err)
	}
	if got := types(l, p.ID); len(got) != 0 {
		t.Errorf("receipts %v", got)
	}
	begin(t, l, proposal(1)) // the key is free
}

func heldAgain(t *testing.T, l Instance) {
	p := proposal(1)
	first := keep(t, l, p, aHold())
	h := aHold()
	h.Verdict, h.Reason, h.Level = stoplog.Park, stoplog.ReasonWriteFreeze, stoplog.L2
	op := keep(t, l, p, h)
	if op.ID != first.ID || !op.Created.Equal(first.Created) || op.Hold.Level != stoplog.L2 {
		t.Errorf("got %+v", op)
	}
	if list, _ := l.Holds(t.Context()); len(list) != 1 {
		t.Errorf("holds %v", list)
	}
}
