package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/proxy/connector"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// attempt is one transmission.
type attempt struct {
	n          int
	resp       *http.Response
	status     int
	sent       Sent
	err        error
	began      time.Time
	took       time.Duration
	firstByte  time.Duration
	bytes      int64 // of the answer's body
	by         string
	errClass   string
	result     connector.Result
	spent      []int64
	observer   *connector.Observer
	grantLeft  int         // attempts left of the intent
	unrecorded bool        // the outcome could not be made durable
	buffered   bool        // the whole answer was read before a byte of it was passed on
	body       []byte      // what was read so far
	head       atomic.Bool // the head of an answer was read
	left       atomic.Bool // the agent left; a model call is read on for its usage
	ctx        context.Context
	wait       func() // allows the answer another spell of silence
	stop       func()
}

var (
	errAttemptTimeout = errors.New("no answer within the attempt's time")
	errIdle           = errors.New("the answer stopped")
	errDeadline       = errors.New("the intent's deadline passed")
	errClientGone     = errors.New("the agent left")
)

// transmit is the one retry loop. Each attempt has its own claim; for writes and messages its intent is durable before the
// first byte leaves. Whatever happens, the grant of each attempt is settled once.
func (x *exchange) transmit(p *admission.Permit) {
	if d := p.Grant().Deadline; !d.IsZero() && d.Before(x.deadline) {
		x.deadline = d // of an intent that began before this request
	}
	for n := 1; ; n++ {
		a := &attempt{n: n, began: time.Now()}
		if g := p.Grant(); g.Attempt > 0 {
			a.n, a.grantLeft = g.Attempt, g.AttemptsLeft
		}
		timeout, ok := x.dst.Retry.Timeout(x.remaining())
		if n == 1 {
			timeout, ok = min(x.dst.PerAttempt, x.remaining()), x.remaining() > 0
		}
		if !ok {
			x.abandon(p, a, deny(stoplog.ReasonDeadlineExceeded, "the intent's deadline passed before the effect could be sent"))
			return
		}
		if d := x.commit(p, a, n, timeout); d != nil {
			x.abandon(p, a, *d)
			return
		}
		if d := p.LastLook(); d != nil { // the last look before the first byte
			x.stopCommitted(p, a, *d)
			return
		}
		x.send(p, a, timeout)
		wait, again := x.again(a, n)
		if !again {
			x.conclude(p, a)
			return
		}
		x.endAttempt(p, a)
		if !x.pause(wait) {
			x.giveUp(a)
			return
		}
		if d := p.Again(x.client, x.h.o.NewID("clm")); d.Verdict != stoplog.Allow {
			x.giveUp(a)
			return
		}
	}
}

// commit makes the intent durable. A decision means that nothing may be sent.
func (x *exchange) commit(p *admission.Permit, a *attempt, n int, timeout time.Duration) *stoplog.Decision {
	if n == 1 {
		x.h.o.Events.Decided(x.dst, x.effect, x.judgment.Decision, x.judgment.Observed)
	}
	if !x.effect.Class.Durable() {
		if err := x.h.o.Log.Err(); err != nil {
			return x.noRecord(err)
		}
		return nil // one receipt at the end says both decision and outcome
	}
	notAfter := time.Now().Add(timeout)
	r := x.decided(x.receipt(receipts.TypeDispatching), x.judgment.Decision)
	x.granted(r, p)
	r.Attempt, r.NotAfter, r.State = a.n, notAfter, ledger.Dispatching.String()
	// Not the agent's context: a record that may or may not have been written because somebody hung up helps nobody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.client), min(timeout, 10*time.Second))
	defer cancel()
	if n > 1 {
		if err := x.h.o.Ledger.Attempt(ctx, x.operation, a.n, notAfter, r); err != nil {
			return x.noRecord(err)
		}
		return nil
	}
	if x.released {
		r.Note = map[string]string{"released_by": x.releasedBy, "release_reason": x.releaseReason}
	}
	op, err := x.h.o.Ledger.Begin(ctx, x.proposal(), notAfter, r)
	var known *ledger.Known
	switch {
	case errors.As(err, &known):
		d := x.knownDecision(&known.Operation)
		return &d
	case err != nil:
		return x.noRecord(err)
	}
	x.operation, x.begun = op.ID, true
	return nil
}

func (x *exchange) noRecord(err error) *stoplog.Decision {
	x.h.o.Events.Failed("record an intent", err)
	d := deny(stoplog.ReasonEvidenceUnavailable, "the record that must exist before an effect could not be written")
	return &d
}

// abandon ends an admitted effect of which nothing was sent and no intent recorded.
func (x *exchange) abandon(p *admission.Permit, a *attempt, d stoplog.Decision) {
	x.settle(p, admission.Settlement{NotSent: true, Tokens: 0})
	if x.known != nil {
		x.replay(d)
		return
	}
	if a.n > 1 && x.effect.Class.Durable() {
		x.finish(stoplog.OutcomeNotSent, a, nil)
	}
	x.refuse(d)
}

// stopCommitted ends an effect whose intent is durable but which a level stopped before the first byte: the level wins.
func (x *exchange) stopCommitted(p *admission.Permit, a *attempt, d stoplog.Decision) {
	x.settle(p, admission.Settlement{NotSent: true, Tokens: 0})
	if x.effect.Class.Durable() {
		a.result.Outcome, a.by = stoplog.OutcomeNotSent, "level"
		x.finish(stoplog.OutcomeNotSent, a, nil)
		// A new operation is kept: the first one ended without being sent.
		x.operation = stoplog.OperationID(x.h.o.NewID("op"))
		x.cas.Operation = x.operation
	}
	x.judgment.Opinions = append(x.judgment.Opinions, admission.Verdict{Stage: d.Stage, Result: d.Verdict, Reason: d.Reason})
	x.judgment.Decision = d
	x.stop(d)
}

// send transmits the exact request and reads the head of the answer.
func (x *exchange) send(p *admission.Permit, a *attempt, timeout time.Duration) {
	// A write that was begun is carried to its end: the agent's leaving cannot undo what left. Reads and model calls end
	// with the agent, model calls after their usage is known.
	base := context.WithoutCancel(x.client)
	ctx, cancel := context.WithCancelCause(base)
	timer := time.AfterFunc(timeout, func() {
		switch {
		case x.remaining() == 0:
			cancel(errDeadline)
		case a.head.Load():
			cancel(errIdle)
		default:
			cancel(errAttemptTimeout)
		}
	})
	unwatch := func() bool { return true }
	switch x.effect.Class {
	case stoplog.ClassRead:
		unwatch = context.AfterFunc(x.client, func() { cancel(errClientGone) })
	case stoplog.ClassModel:
		unwatch = context.AfterFunc(x.client, func() {
			a.left.Store(true)
			time.AfterFunc(min(x.dst.Drain, x.remaining()), func() { cancel(errClientGone) })
		})
	default: // a write is carried to its end
	}
	x.h.flights.fly(x, p, cancel)
	a.stop = func() {
		x.h.flights.land(x)
		unwatch()
		timer.Stop()
		cancel(nil)
	}
	req := &wireRequest{exact: p.Exact(), chunked: x.chunked}
	var err error
	req.extra, err = x.credentials()
	if err != nil {
		a.sent, a.err, a.errClass = SentNone, err, "credential"
		x.noAnswer(a, ctx)
		return
	}
	a.resp, a.sent, a.err = x.dst.Upstream.send(ctx, req) //nolint:bodyclose // endAnswer or stream closes it
	a.firstByte = time.Since(a.began)
	if a.err != nil {
		a.firstByte = 0
		x.noAnswer(a, ctx)
		return
	}
	a.head.Store(true)
	x.mapLinks(a.resp.Header)
	a.status = a.resp.StatusCode
	a.observer = x.reading.Observe(a.status, a.resp.Header)
	a.wait = func() { timer.Reset(max(time.Millisecond, min(x.idle(), x.remaining()))) }
	a.ctx = ctx
	x.buffer(a)
}

func (x *exchange) credentials() ([]stoplog.Field, error) {
	if x.dst.Credential == nil {
		return x.creds, nil
	}
	c, err := x.dst.Credential()
	if err != nil {
		return nil, err
	}
	out := []stoplog.Field{c}
	for _, f := range x.creds {
		if !strings.EqualFold(f.Name, c.Name) { // one that the agent set is replaced
			out = append(out, f)
		}
	}
	return out, nil
}
