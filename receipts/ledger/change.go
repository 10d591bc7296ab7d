package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/vault"
)

// Every change goes the same way: claim the operation in the index (busy), write its receipt without holding the lock,
// then move the index or give the claim back. So one operation changes once at a time, and different ones share a sync.

// Begin implements Ledger. Releasing a held operation writes hold.released and its intent in one group.
func (l *Local) Begin(ctx context.Context, p Proposal, notAfter time.Time, r *receipts.Receipt) (Operation, error) {
	if p.Effect == nil || p.ID == "" {
		return Operation{}, errors.New("ledger: begin without an effect or an id")
	}
	op, held, err := l.claim(p)
	if err != nil {
		return Operation{}, err
	}
	next := op.Operation
	next.State, next.Attempt, next.NotAfter, next.Hold = Dispatching, 1, notAfter, nil
	next.Updated = l.o.Now()
	if r.Attempt > 1 {
		next.Attempt = r.Attempt
	}
	r.Type = receipts.TypeDispatching
	list := []*receipts.Receipt{r}
	l.fill(r, &next, op)
	if held != nil {
		err = l.recommit(r, p.ID)
		if err != nil {
			l.unclaim(op, held)
			return Operation{}, err
		}
		released := *r
		released.Type, released.State, released.Attempt = receipts.TypeHoldReleased, Proposed.String(), 0
		released.Outcome, released.Budgets, released.Ledger, released.NotAfter = nil, nil, nil, time.Time{}
		list = []*receipts.Receipt{&released, r}
	}
	pos, err := l.log.Append(context.WithoutCancel(ctx), list...)
	if err != nil {
		l.unclaim(op, held)
		return Operation{}, fmt.Errorf("intent of %s: %w", p.ID, err)
	}
	next.Receipt = pos[len(pos)-1]
	return l.moved(op, next), nil
}

// claim takes the key for p. held is the hold that p releases, if any.
func (l *Local) claim(p Proposal) (op *open, held *Hold, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if op := l.open[p.ID]; op != nil && op.Hold != nil && !op.busy {
		if op.Key != p.Key || op.Digest != p.Effect.Digest {
			return nil, nil, fmt.Errorf("ledger: %s is held with other content than is to be sent", p.ID)
		}
		held = op.Hold
		op.busy, op.State, op.Hold = true, Dispatching, nil
		return op, held, nil
	}
	if known, ok := l.known(p); ok {
		return nil, nil, &Known{known}
	}
	now := l.o.Now()
	op = &open{
		Operation: Operation{
			ID: p.ID, Key: p.Key, Digest: p.Effect.Digest, Effect: *p.Effect, State: Dispatching, Attempt: 1, Created: now, Updated: now,
		},
		ttl: p.KeyTTL, busy: true,
	}
	l.open[p.ID] = op
	l.keys[p.Key] = p.ID
	return op, nil, nil
}

// known finds the operation that has p's key or id already. The caller holds mu.
func (l *Local) known(p Proposal) (Operation, bool) {
	if op, ok := l.byKey(p.Key); ok {
		return op, true
	}
	op, err := l.get(p.ID)
	return op, err == nil
}

// unclaim undoes claim.
func (l *Local) unclaim(op *open, held *Hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	op.busy = false
	if held != nil {
		op.State, op.Hold = Proposed, held
		return
	}
	delete(l.open, op.ID)
	delete(l.keys, op.Key)
}

// Keep implements Ledger. The bytes are durable in the vault before the receipt that names them; the receipt's
// commitments are made anew under a salt that only the vault has, so that erasing the bytes closes them for good.
// Keeping an operation that is held already renews its hold.
func (l *Local) Keep(ctx context.Context, p Proposal, h Hold, r *receipts.Receipt) (Operation, error) {
	if p.Effect == nil || p.Exact == nil || p.ID == "" {
		return Operation{}, errors.New("ledger: keep without an effect, its bytes or an id")
	}
	op, held, err := l.claim(p)
	if err != nil {
		return Operation{}, err
	}
	h.Bytes = int64(len(p.Exact.Body))
	fresh := held == nil
	if fresh {
		e := &vault.Entry{Salt: newSalt(), Effect: *p.Effect, Exact: *p.Exact}
		err = l.vault.Put(p.ID, e)
		recommit(r, e)
	} else {
		err = l.recommit(r, p.ID)
	}
	if err != nil {
		l.unclaim(op, held)
		return Operation{}, fmt.Errorf("keeping %s: %w", p.ID, err)
	}
	next := op.Operation
	next.State, next.Attempt, next.Hold, next.Updated = Proposed, 0, &h, l.o.Now()
	r.Type = receipts.TypeHoldCreated
	r.Decided, r.Verdict, r.Reason, r.Level = true, h.Verdict, h.Reason, h.Level
	l.fill(r, &next, op)
	r.Ledger.Kept, r.Ledger.Bytes, r.Ledger.Credential = true, h.Bytes, h.Credential
	r.Ledger.NotBefore, r.Ledger.Expires = h.NotBefore, h.Expires
	pos, err := l.log.Append(context.WithoutCancel(ctx), r)
	if err != nil {
		l.unclaim(op, held)
		if fresh {
			_ = l.vault.Delete(p.ID) // otherwise it is collected as an orphan
		}
		return Operation{}, fmt.Errorf("hold of %s: %w", p.ID, err)
	}
	op.kept = true
	next.Receipt = pos[0]
	return l.moved(op, next), nil
}

// recommit makes the receipt's commitments under the salt of the operation's vault entry.
func (l *Local) recommit(r *receipts.Receipt, id stoplog.OperationID) error {
	e, err := l.vault.Get(id)
	if err != nil {
		return err
	}
	recommit(r, e)
	return nil
}

func recommit(r *receipts.Receipt, e *vault.Entry) {
	receipts.NewCommitter(e.Salt).Describe(r, &e.Effect, e.Exact.Body, r.Request.Media)
}

// Attempt implements Ledger. attempt must be one more than the last.
func (l *Local) Attempt(ctx context.Context, id stoplog.OperationID, attempt int, notAfter time.Time, r *receipts.Receipt) error {
	op, err := l.hold(id, func(o *open) error {
		if o.State != Dispatching || attempt != o.Attempt+1 {
			return illegal(o, fmt.Sprintf("attempt %d after %d", attempt, o.Attempt))
		}
		return nil
	})
	if err != nil {
		return err
	}
	next := op.Operation
	next.Attempt, next.NotAfter, next.Updated = attempt, notAfter, l.o.Now()
	r.Type = receipts.TypeDispatching
	return l.write(ctx, op, next, r)
}

// Finish implements Ledger. An answer is kept for replay where the outcome is definite and the vault takes it; failing to
// keep it is not failing to finish.
func (l *Local) Finish(ctx context.Context, id stoplog.OperationID, o stoplog.Outcome, a *stoplog.Answer, r *receipts.Receipt) error {
	state, ok := stateAfter[o]
	if !ok {
		return fmt.Errorf("ledger: outcome %d of %s is not known", o, id)
	}
	r.Type = receipts.TypeOpOutcome
	op, err := l.hold(id, func(op *open) error {
		if op.Hold != nil || !receipts.LegalTransition(r.Type, op.State.String(), state.String()) {
			return illegal(op, "outcome "+o.String())
		}
		return nil
	})
	if stoplog.ReasonOf(err) == stoplog.ReasonNotFound {
		return l.late(ctx, id, o, state, r)
	}
	if err != nil {
		return err
	}
	next := op.Operation
	next.State, next.Outcome, next.Updated = state, o, l.o.Now()
	if a != nil && state == Confirmed && op.Effect.Class.Durable() {
		kept, err := l.vault.PutAnswer(id, op.Effect.Actor.Tenant, a)
		next.Replay = kept && err == nil
	}
	if r.Outcome == nil {
		r.Outcome = &receipts.OutcomeLine{}
	}
	r.Outcome.Outcome = o
	return l.write(ctx, op, next, r)
}

var stateAfter = map[stoplog.Outcome]State{
	stoplog.OutcomeNotSent:   Void,
	stoplog.OutcomeConfirmed: Confirmed,
	stoplog.OutcomeRejected:  Confirmed,
	stoplog.OutcomeUnknown:   Unknown,
}

// late records evidence about an operation that has ended: op.outcome if it agrees, op.conflict if not. Nothing moves.
func (l *Local) late(ctx context.Context, id stoplog.OperationID, o stoplog.Outcome, state State, r *receipts.Receipt) error {
	l.mu.Lock()
	known, err := l.get(id)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if known.State != state || known.Outcome != o {
		r.Type = receipts.TypeOpConflict
	}
	r.Operation, r.State = id, known.State.String()
	if r.Outcome == nil {
		r.Outcome = &receipts.OutcomeLine{}
	}
	r.Outcome.Outcome = o
	_, err = l.log.Append(context.WithoutCancel(ctx), r)
	return err
}

// Withdraw implements Ledger.
func (l *Local) Withdraw(ctx context.Context, id stoplog.OperationID, r *receipts.Receipt) error {
	return l.endHold(ctx, id, l.o.Now(), receipts.TypeHoldWithdrawn, r)
}

func (l *Local) endHold(ctx context.Context, id stoplog.OperationID, now time.Time, t receipts.Type, r *receipts.Receipt) error {
	op, err := l.hold(id, func(o *open) error {
		if o.Hold == nil {
			return illegal(o, string(t))
		}
		return nil
	})
	if err != nil {
		return err
	}
	next := op.Operation
	next.State, next.Hold, next.Outcome, next.Updated = Void, nil, stoplog.OutcomeNotSent, now
	r.Type = t
	return l.write(ctx, op, next, r)
}

// hold claims an open operation for one change, if check allows it.
func (l *Local) hold(id stoplog.OperationID, check func(*open) error) (*open, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	op := l.open[id]
	if op == nil {
		return nil, notFound(id)
	}
	if op.busy {
		return nil, stoplog.Refuse(stoplog.ReasonInProgress, "operation "+string(id)+" is being changed")
	}
	err := check(op)
	if err != nil {
		return nil, err
	}
	op.busy = true
	return op, nil
}

func illegal(o *open, what string) error {
	return fmt.Errorf("ledger: operation %s is %s: %s is not a legal edge", o.ID, o.State, what)
}

// write makes the receipt of a claimed change durable and moves the operation.
func (l *Local) write(ctx context.Context, op *open, next Operation, r *receipts.Receipt) error {
	l.fill(r, &next, op)
	pos, err := l.log.Append(context.WithoutCancel(ctx), r)
	if err != nil {
		l.mu.Lock()
		op.busy = false
		l.mu.Unlock()
		return fmt.Errorf("%s of %s: %w", r.Type, op.ID, err)
	}
	next.Receipt = pos[0]
	l.moved(op, next)
	return nil
}

// fill completes a receipt with what the index is rebuilt from.
func (l *Local) fill(r *receipts.Receipt, next *Operation, op *open) {
	r.Operation, r.State, r.Attempt = next.ID, next.State.String(), next.Attempt
	if r.Type == receipts.TypeDispatching {
		r.NotAfter = next.NotAfter
	}
	e := &next.Effect
	if r.Actor == (stoplog.Actor{}) {
		r.Actor = e.Actor
	}
	fillText(&r.Destination, e.Destination)
	fillText(&r.Connector, e.Connector)
	fillText(&r.Action, e.Action)
	fillText(&r.Function, e.Function)
	fillText(&r.Subject, e.Subject)
	if r.Class == stoplog.ClassUnspecified {
		r.Class = e.Class
	}
	if r.Intent == "" {
		r.Intent = e.Intent
	}
	r.Ledger = &receipts.LedgerLine{
		Key: next.Key, Digest: l.seal(next.ID, next.Digest), KeyTTL: op.ttl.Truncate(time.Second), Answer: next.Replay, Kept: op.kept,
	}
}

func fillText(dst *string, s string) {
	if *dst == "" {
		*dst = s
	}
}

// moved puts the new state into the index.
func (l *Local) moved(op *open, next Operation) Operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	op.Operation, op.busy = next, false
	if final(next.State) {
		l.close(op)
	}
	return op.snapshot()
}

// close moves an ended operation to the small form. The caller holds mu.
func (l *Local) close(op *open) {
	delete(l.open, op.ID)
	if op.State == Void && op.Attempt > 0 || op.Outcome == stoplog.OutcomeRejected {
		// Proven not sent, or definitely not applied (throttled, a bad credential, a mistake): the same key may be tried anew,
		// and that is no second effect.
		op.ttl = 0
	}
	if op.ttl == 0 && l.keys[op.Key] == op.ID {
		delete(l.keys, op.Key)
	}
	for _, id := range l.closed.add(newClosed(op)) {
		l.forget(id)
	}
}

// forget drops an ended operation. The caller holds mu.
func (l *Local) forget(id stoplog.OperationID) {
	c := l.closed.remove(id)
	if c == nil {
		return
	}
	if l.keys[c.key] == id {
		delete(l.keys, c.key)
	}
	if c.replay {
		l.garbage = append(l.garbage, id)
	}
}

func final(s State) bool { return s == Confirmed || s == Superseded || s == Void }

func sortOldest(list []Operation) {
	slices.SortFunc(list, func(a, b Operation) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}
