// Package ledgertest is what every ledger must pass, whatever it stores its operations in.
package ledgertest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// Instance is a ledger under test.
type Instance struct {
	ledger.Ledger
	// Sweep does what time demands.
	Sweep func(now time.Time) error
	// Crash ends this process's life as kill -9 does and returns the ledger that the next one opens.
	Crash func() Instance
	// Receipts are the durable receipts of an operation, oldest first.
	Receipts func(id stoplog.OperationID) []*receipts.Receipt
}

// Ledger runs the suite. open returns a new, empty ledger that is closed when the test ends.
func Ledger(t *testing.T, open func(t *testing.T) Instance) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Instance)
	}{
		{"a write from intent to outcome", write},
		{"same key", sameKey},
		{"one winner", oneWinner},
		{"not sent frees the key", notSent},
		{"a key without a lifetime joins until the end only", noLifetime},
		{"attempts", attempts},
		{"illegal edges", illegal},
		{"unknown and late evidence", late},
		{"hold and release", hold},
		{"hold withdrawn", withdraw},
		{"hold expired", expire},
		{"hold too large", tooLarge},
		{"held again", heldAgain},
		{"crash", crash},
		{"crash after the end", crashAfter},
		{"every step has a receipt", steps},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func write(t *testing.T, l Instance) {
	p := proposal(1)
	op := begin(t, l, p)
	if op.State != ledger.Dispatching || op.Attempt != 1 || op.ID != p.ID {
		t.Errorf("begun: %+v", op)
	}
	if got := types(l, p.ID); !slices.Equal(got, []string{"op.dispatching dispatching"}) {
		t.Errorf("the intent is not durable: %v", got)
	}
	answer := &stoplog.Answer{Status: 200, Header: []stoplog.Field{{Name: "Request-Id", Value: "r"}}, Body: []byte("\x00ok")}
	finish(t, l, p.ID, stoplog.OutcomeConfirmed, answer)
	op = state(t, l, p.ID, ledger.Confirmed)
	if op.Outcome != stoplog.OutcomeConfirmed || !op.Replay {
		t.Errorf("finished: %+v", op)
	}
	got, err := l.Answer(t.Context(), p.ID)
	if err != nil || cmp.Diff(answer, got) != "" {
		t.Errorf("answer: %+v, %v", got, err)
	}
}

// An idempotency key used again joins the known operation; with other content the digests differ and the caller refuses
// (stripe/stripe-ruby#503, stripe/stripe-java#389).
func sameKey(t *testing.T, l Instance) {
	p := proposal(1)
	begin(t, l, p)
	other := proposal(1)
	other.Effect = effect(9)
	_, err := l.Begin(t.Context(), other, soon(), &receipts.Receipt{})
	var k *ledger.Known
	if !errors.As(err, &k) || k.Operation.ID != p.ID || k.Operation.Digest == other.Effect.Digest || k.Operation.State != ledger.Dispatching {
		t.Fatalf("other content: %v", err)
	}
	finish(t, l, p.ID, stoplog.OutcomeConfirmed, &stoplog.Answer{Status: 201, Body: []byte("once")})
	same := proposal(1)
	_, err = l.Begin(t.Context(), same, soon(), &receipts.Receipt{})
	if !errors.As(err, &k) || k.Operation.ID != p.ID || k.Operation.Digest != same.Effect.Digest || !k.Operation.Replay {
		t.Fatalf("same content: %v", err)
	}
	same.Exact = exact()
	if _, err := l.Keep(t.Context(), same, aHold(), &receipts.Receipt{}); !errors.As(err, &k) {
		t.Errorf("keep under a taken key: %v", err)
	}
	op, ok, err := l.Lookup(t.Context(), same.Key)
	if !ok || err != nil || op.ID != p.ID {
		t.Errorf("lookup: %+v, %v, %v", op, ok, err)
	}
	if _, ok, _ := l.Lookup(t.Context(), [32]byte{77}); ok {
		t.Error("an unknown key was found")
	}
}

// Two requests in flight with one key: one dispatch (jcagarcia/grape-idempotency#10).
func oneWinner(t *testing.T, l Instance) {
	for round := range byte(3) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var winners []stoplog.OperationID
		known := map[stoplog.OperationID]int{}
		for range 64 {
			wg.Go(func() {
				p := proposal(round)
				_, err := l.Begin(t.Context(), p, soon(), &receipts.Receipt{})
				mu.Lock()
				defer mu.Unlock()
				var k *ledger.Known
				switch {
				case err == nil:
					winners = append(winners, p.ID)
				case errors.As(err, &k):
					known[k.Operation.ID]++
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(winners) != 1 || known[winners[0]] != 63 {
			t.Fatalf("winners %v, known %v", winners, known)
		}
		if n := len(l.Receipts(winners[0])); n != 1 {
			t.Errorf("%d intents", n)
		}
	}
}

func notSent(t *testing.T, l Instance) {
	p := proposal(1)
	begin(t, l, p)
	finish(t, l, p.ID, stoplog.OutcomeNotSent, nil)
	state(t, l, p.ID, ledger.Void)
	again := proposal(1)
	begin(t, l, again)
	l = l.Crash()
	op, ok, err := l.Lookup(t.Context(), p.Key)
	if !ok || err != nil || op.ID != again.ID {
		t.Errorf("after a crash the key leads to %s, %v", op.ID, err)
	}
}

// noLifetime: an effect without a key of its own is joined by its repetitions while it is under way; afterwards the same
// content is a new wish.
func noLifetime(t *testing.T, l Instance) {
	p := proposal(1)
	p.KeyTTL = 0
	begin(t, l, p)
	again := proposal(1)
	again.KeyTTL = 0
	var k *ledger.Known
	if _, err := l.Begin(t.Context(), again, soon(), &receipts.Receipt{}); !errors.As(err, &k) {
		t.Errorf("under way: %v", err)
	}
	finish(t, l, p.ID, stoplog.OutcomeConfirmed, nil)
	if _, ok, err := l.Lookup(t.Context(), p.Key); ok || err != nil {
		t.Errorf("after the end: found, %v", err)
	}
	begin(t, l, again)
	l = l.Crash()
	state(t, l, p.ID, ledger.Confirmed)
	state(t, l, again.ID, ledger.Unknown)
}

func attempts(t *testing.T, l Instance) {
	p := proposal(1)
	begin(t, l, p)
	for _, bad := range []int{0, 1, 3} {
		if err := l.Attempt(t.Context(), p.ID, bad, soon(), &receipts.Receipt{}); err == nil {
			t.Errorf("attempt %d after 1", bad)
		}
	}
	until := soon()
	if err := l.Attempt(t.Context(), p.ID, 2, until, &receipts.Receipt{}); err != nil {
		t.Fatal(err)
	}
	op := state(t, l, p.ID, ledger.Dispatching)
	if op.Attempt != 2 || !op.NotAfter.Equal(until) {
		t.Errorf("got %+v", op)
	}
	finish(t, l, p.ID, stoplog.OutcomeRejected, nil)
	if op := state(t, l, p.ID, ledger.Confirmed); op.Outcome != stoplog.OutcomeRejected {
		t.Errorf("got %+v", op)
	}
	if err := l.Attempt(t.Context(), p.ID, 3, soon(), &receipts.Receipt{}); err == nil {
		t.Error("an attempt after the end")
	}
}

// illegal tries every change in every state and expects what the table says.
func illegal(t *testing.T, l Instance) {
	make := map[string]func(p ledger.Proposal){
		"dispatching": func(p ledger.Proposal) { begin(t, l, p) },
		"held":        func(p ledger.Proposal) { keep(t, l, p, aHold()) },
		"unknown":     func(p ledger.Proposal) { begin(t, l, p); finish(t, l, p.ID, stoplog.OutcomeUnknown, nil) },
		"confirmed":   func(p ledger.Proposal) { begin(t, l, p); finish(t, l, p.ID, stoplog.OutcomeConfirmed, nil) },
		"absent":      func(ledger.Proposal) {},
	}
	try := map[string]func(p ledger.Proposal) error{
		"attempt": func(p ledger.Proposal) error { return l.Attempt(t.Context(), p.ID, 2, soon(), &receipts.Receipt{}) },
		"not_sent": func(p ledger.Proposal) error {
			return l.Finish(t.Context(), p.ID, stoplog.OutcomeNotSent, nil, &receipts.Receipt{})
		},
		"unknown": func(p ledger.Proposal) error {
			return l.Finish(t.Context(), p.ID, stoplog.OutcomeUnknown, nil, &receipts.Receipt{})
		},
		"withdraw": func(p ledger.Proposal) error { return l.Withdraw(t.Context(), p.ID, &receipts.Receipt{}) },
		"begin": func(p ledger.Proposal) error {
			_, err := l.Begin(t.Context(), p, soon(), &receipts.Receipt{})
			return err
		},
	}
	legal := map[string]bool{
		"dispatching attempt": true, "dispatching not_sent": true, "dispatching unknown": true, "unknown unknown": true,
		"held withdraw": true, "held begin": true, "absent begin": true,
		"confirmed not_sent": true, "confirmed unknown": true, // recorded as late evidence, moves nothing
	}
	n := byte(0)
	for from, build := range make {
		for change, f := range try {
			n++
			p := proposal(n)
			build(p)
			before, _ := l.Get(t.Context(), p.ID)
			err := f(p)
			after, _ := l.Get(t.Context(), p.ID)
			if (err == nil) != legal[from+" "+change] {
				t.Errorf("%s in %s: %v", change, from, err)
			}
			if (err != nil || from == "confirmed") && before.State != after.State {
				t.Errorf("%s in %s moved it to %s", change, from, after.State)
			}
		}
	}
}

func late(t *testing.T, l Instance) {
	p := proposal(1)
	begin(t, l, p)
	finish(t, l, p.ID, stoplog.OutcomeUnknown, nil)
	state(t, l, p.ID, ledger.Unknown)
	list, err := l.Open(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != p.ID {
		t.Errorf("open: %v, %v", list, err)
	}
	finish(t, l, p.ID, stoplog.OutcomeConfirmed, &stoplog.Answer{Status: 200})
	state(t, l, p.ID, ledger.Confirmed)
	finish(t, l, p.ID, stoplog.OutcomeRejected, nil)
	if op := state(t, l, p.ID, ledger.Confirmed); op.Outcome != stoplog.OutcomeConfirmed {
		t.Error("late evidence moved an ended operation")
	}
	want := []string{"op.dispatching dispatching", "op.outcome unknown", "op.outcome confirmed", "op.conflict confirmed"}
	if got := types(l, p.ID); !slices.Equal(got, want) {
		t.Errorf("receipts %v", got)
	}
}

func crash(t *testing.T, l Instance) {
	var want []stoplog.OperationID
	for i := range byte(40) {
		p := proposal(i)
		begin(t, l, p)
		want = append(want, p.ID)
	}
	l = l.Crash()
	list, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []stoplog.OperationID
	for _, op := range list {
		got = append(got, op.ID)
		if op.State != ledger.Unknown {
			t.Errorf("%s is %s", op.ID, op.State)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("open after a crash: %d, want %d", len(got), len(want))
	}
	for _, id := range want {
		if got := types(l, id); !slices.Equal(got, []string{"op.dispatching dispatching", "op.unknown unknown"}) {
			t.Errorf("receipts %v", got)
		}
	}
	l = l.Crash()
	if got := types(l, want[0]); len(got) != 2 {
		t.Errorf("a second crash wrote again: %v", got)
	}
	var k *ledger.Known
	if _, err := l.Begin(t.Context(), proposal(3), soon(), &receipts.Receipt{}); !errors.As(err, &k) || k.Operation.State != ledger.Unknown {
		t.Errorf("an unknown effect was sent again: %v", err)
	}
}

func crashAfter(t *testing.T, l Instance) {
	p := proposal(1)
	begin(t, l, p)
	finish(t, l, p.ID, stoplog.OutcomeConfirmed, &stoplog.Answer{Status: 200, Body: []byte("kept")})
	before, _, _ := l.Lookup(t.Context(), p.Key)
	l = l.Crash()
	op, ok, err := l.Lookup(t.Context(), p.Key)
	if !ok || err != nil || op.ID != p.ID || op.Digest != p.Effect.Digest || op.Outcome != stoplog.OutcomeConfirmed || !op.Replay {
		t.Fatalf("after a crash: %+v, %v, %v", op, ok, err)
	}
	if op.Receipt != before.Receipt || op.Effect.Actor != p.Effect.Actor {
		t.Errorf("after a crash: %+v, before: %+v", op, before)
	}
	a, err := l.Answer(t.Context(), p.ID)
	if err != nil || string(a.Body) != "kept" {
		t.Errorf("answer: %+v, %v", a, err)
	}
}

// steps looks at the log as a verifier does: every receipt takes a legal step, and the index never runs ahead of it.
func steps(t *testing.T, l Instance) {
	var wg sync.WaitGroup
	for i := range byte(30) {
		wg.Go(func() {
			p := proposal(i)
			p.Exact = exact()
			if i%3 == 0 {
				if _, err := l.Keep(t.Context(), p, aHold(), &receipts.Receipt{}); err != nil {
					t.Error(err)
				}
			}
			if _, err := l.Begin(t.Context(), p, soon(), &receipts.Receipt{}); err != nil {
				t.Error(err)
			}
			if err := l.Finish(t.Context(), p.ID, stoplog.Outcome(i%4), nil, &receipts.Receipt{}); err != nil {
				t.Error(err)
			}
			from := ""
			for _, r := range l.Receipts(p.ID) {
				if !receipts.LegalTransition(r.Type, from, r.State) {
					t.Errorf("%s from %q to %q", r.Type, from, r.State)
				}
				from = r.State
			}
			op, err := l.Get(t.Context(), p.ID)
			if err != nil || op.State.String() != from {
				t.Errorf("ledger says %s, log says %s, %v", op.State, from, err)
			}
		})
	}
	wg.Wait()
}
