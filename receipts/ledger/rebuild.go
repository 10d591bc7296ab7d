package ledger

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
)

// rebuild reads the log, loads what is open from the vault, and settles what the last life left under way.
func (l *Local) rebuild() error {
	ctx := context.Background()
	kept := map[stoplog.OperationID]bool{}
	q := receipts.Query{Match: func(leaf []byte) bool { return bytes.Contains(leaf, []byte(`"led":{`)) }}
	for e, err := range l.log.Reader().Select(ctx, q) {
		if err != nil {
			return err
		}
		l.replay(e, kept)
	}
	now := l.o.Now()
	for id, ok := l.closed.first(now); ok; id, ok = l.closed.first(now) {
		l.forget(id)
	}
	for id, op := range l.open {
		if !op.kept {
			continue
		}
		e, err := l.vault.Get(id)
		if err == nil {
			op.Effect = e.Effect
		}
		// Otherwise the hold stays visible and Bytes says what is wrong: it must not vanish silently.
	}
	_, err := l.vault.Collect(l.o.Orphan, func(id stoplog.OperationID) bool {
		return kept[id] || l.open[id] != nil || l.closed.get(id) != nil
	})
	if err != nil {
		return err
	}
	return l.crashed(ctx)
}

// replay moves the index by one receipt.
func (l *Local) replay(e *receipts.Entry, kept map[stoplog.OperationID]bool) {
	r, line := e.Receipt, e.Receipt.Ledger
	state, ok := ParseState(r.State)
	if !ok || line == nil {
		return
	}
	op := l.open[r.Operation]
	if op == nil {
		if l.closed.get(r.Operation) != nil {
			return // late evidence
		}
		op = &open{Operation: Operation{ID: r.Operation, Created: r.Time, Effect: effectOf(r)}}
		l.open[r.Operation] = op
	}
	op.Key, op.Digest, op.ttl = line.Key, l.seal(r.Operation, line.Digest), line.KeyTTL
	op.Effect.Digest = op.Digest
	op.State, op.Updated, op.Receipt = state, r.Time, e.Position()
	op.kept = op.kept || line.Kept
	op.Replay = line.Answer
	if op.kept {
		kept[r.Operation] = true
	}
	l.keys[op.Key] = op.ID
	switch r.Type {
	case receipts.TypeDispatching:
		op.Attempt, op.NotAfter, op.Hold = r.Attempt, r.NotAfter, nil
	case receipts.TypeHoldCreated:
		op.Hold = &Hold{
			Verdict: r.Verdict, Reason: r.Reason, Level: r.Level, NotBefore: line.NotBefore, Expires: line.Expires,
			Bytes: line.Bytes, Credential: line.Credential,
		}
	case receipts.TypeHoldWithdrawn, receipts.TypeHoldExpired:
		op.Hold, op.Outcome = nil, stoplog.OutcomeNotSent
	case receipts.TypeOpOutcome, receipts.TypeOpUnknown:
		op.Hold = nil
		if r.Outcome != nil {
			op.Outcome = r.Outcome.Outcome
		}
	}
	if final(state) {
		l.close(op)
	}
}

// effectOf is as much of an effect as its receipt tells.
func effectOf(r *receipts.Receipt) stoplog.Effect {
	return stoplog.Effect{
		Class: r.Class, Action: r.Action, Destination: r.Destination, Connector: r.Connector, Actor: r.Actor,
		Function: r.Function, Subject: r.Subject, Intent: r.Intent, Amount: r.Amount,
		Model: stoplog.ModelCall{Name: r.Model},
	}
}

// crashed turns what an earlier life left DISPATCHING into UNKNOWN: its bytes may have left.
func (l *Local) crashed(ctx context.Context) error {
	var list []*open
	for _, op := range l.open {
		if op.State == Dispatching {
			list = append(list, op)
		}
	}
	for i, op := range list {
		next := op.Operation
		next.State, next.Outcome, next.Updated = Unknown, stoplog.OutcomeUnknown, l.o.Now()
		r := &receipts.Receipt{
			Type: receipts.TypeOpUnknown, Reason: stoplog.ReasonOutcomeUnknown,
			Outcome: &receipts.OutcomeLine{Outcome: stoplog.OutcomeUnknown, By: "crash"},
		}
		l.fill(r, &next, op)
		var err error
		if i%1000 == 999 || i == len(list)-1 { // durable, and with it all before
			pos, e := l.log.Append(ctx, r)
			if err = e; err == nil {
				next.Receipt = pos[0]
			}
		} else {
			next.Receipt, err = l.log.Enqueue(r)
		}
		if err != nil {
			return fmt.Errorf("operations left under way: %w", err)
		}
		l.moved(op, next)
	}
	return nil
}

// Sweep does what time demands: holds past their expiry end as Void with a hold.expired receipt, ended operations are
// forgotten when their keys are, and kept bytes are deleted after their retention. Call it every few seconds.
func (l *Local) Sweep(ctx context.Context, now time.Time) error {
	var errs []error
	for _, op := range l.list(func(o *open) bool {
		return o.Hold != nil && !o.busy && !o.Hold.Expires.IsZero() && !o.Hold.Expires.After(now)
	}) {
		err := l.endHold(ctx, op.ID, now, receipts.TypeHoldExpired, &receipts.Receipt{Reason: op.Hold.Reason, Level: op.Hold.Level})
		errs = append(errs, err)
	}
	l.mu.Lock()
	for id, ok := l.closed.first(now); ok; id, ok = l.closed.first(now) {
		l.forget(id)
	}
	garbage := l.garbage
	l.garbage = nil
	due := now.Sub(l.collected) >= time.Hour
	if due {
		l.collected = now
	}
	l.mu.Unlock()
	for _, id := range garbage {
		errs = append(errs, l.vault.DeleteAnswer(id))
	}
	if due {
		_, err := l.vault.Collect(l.o.Retention, func(id stoplog.OperationID) bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			c := l.closed.get(id)
			return l.open[id] != nil || c != nil && now.Sub(time.UnixMicro(c.ended)) < l.o.Retention
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// seal hides a request's digest in its receipts, and finds it again: a pad that only this data directory's secret and the
// operation's id give. A bare digest of a short message could be guessed.
func (l *Local) seal(id stoplog.OperationID, digest [32]byte) [32]byte {
	pad := l.mac("digest", []byte(id))
	for i := range digest {
		digest[i] ^= pad[i]
	}
	return digest
}

func newSalt() (s [32]byte) {
	_, _ = rand.Read(s[:])
	return s
}
