package proxy

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// keyTTL is how long a key given by an agent joins later requests to its operation.
const keyTTL = 24 * time.Hour

// unknownJoin is how long content without a key is taken for a re-send of an operation whose outcome is unknown.
const unknownJoin = 10 * time.Minute

func (x *exchange) proposal() ledger.Proposal {
	p := ledger.Proposal{ID: x.operation, Key: x.cas.Key, Effect: x.effect, Exact: x.exact}
	if x.keyed {
		p.KeyTTL = keyTTL
	}
	return p
}

// keep stores a held or parked effect byte for byte and tells the agent.
func (x *exchange) keep(d stoplog.Decision) {
	if x.released && !x.begun {
		// It is kept already; it stays as it was.
		x.decision, x.answered = d, true
		return
	}
	age := x.dst.Hold.MaxAge
	if d.Verdict == stoplog.Park {
		age = x.dst.Hold.ParkMaxAge
	}
	kept := *x.exact
	credential := "none"
	switch {
	case x.dst.Credential != nil:
		credential = "injected"
	case len(x.creds) == 0:
	case x.dst.Hold.KeepAgentCredential:
		credential = "kept"
		kept.Header = append(append([]stoplog.Field{}, x.exact.Header...), x.creds...)
	default:
		d.Verdict, d.Reason = stoplog.Deny, stoplog.ReasonHoldNeedsCredential
		d.Detail = "the effect would be held, but it carries the agent's own credential, which is not kept; set `credential` or `hold: {keep_agent_credential: true}` for this destination"
		x.refuse(d)
		return
	}
	if int64(len(x.exact.Body)) > x.dst.Hold.MaxBytes {
		d.Verdict, d.Reason, d.Detail = stoplog.Deny, stoplog.ReasonHoldTooLarge, "the effect would be held, but its body is larger than hold.max_bytes"
		x.refuse(d)
		return
	}
	p := x.proposal()
	p.Exact = &kept
	expires := x.received.Add(age)
	if !x.expires.IsZero() {
		expires = x.expires
	}
	h := ledger.Hold{Verdict: d.Verdict, Reason: d.Reason, Level: d.Level, Expires: expires, Bytes: int64(len(x.exact.Body)), Credential: credential}
	ctx, cancel := x.settleContext()
	defer cancel()
	r := x.decided(x.receipt(receipts.TypeHoldCreated), d)
	op, err := x.h.o.Ledger.Keep(ctx, p, h, r)
	var known *ledger.Known
	switch {
	case errors.As(err, &known):
		x.replay(x.knownDecision(&known.Operation))
		return
	case err != nil:
		x.evidenceAway("keep a held effect", err)
		return
	}
	x.operation = op.ID
	x.h.o.Events.Decided(x.dst, x.effect, d, false)
	x.decision, x.answered = d, true
	x.writeRefusal(d, SentNone, receiptField(op.Receipt))
}

func (x *exchange) evidenceAway(what string, err error) {
	x.h.o.Events.Failed(what, err)
	x.refuse(deny(stoplog.ReasonEvidenceUnavailable, "the record that must exist before an effect could not be written"))
}

// knownDecision says what is to be done with a request whose operation is known.
func (x *exchange) knownDecision(op *ledger.Operation) stoplog.Decision {
	x.known = op
	d := stoplog.Decision{Verdict: stoplog.Deny, Stage: "operation", Operation: op.ID}
	switch {
	case x.keyed && op.Digest != x.effect.Digest:
		d.Reason = stoplog.ReasonIdempotencyMismatch
		d.Detail = "the operation is known with another content; a key names one effect only"
	case op.Hold != nil && op.State == ledger.Proposed:
		d.Verdict, d.Reason, d.Level = op.Hold.Verdict, stoplog.ReasonHeldAgain, op.Hold.Level
	case op.State == ledger.Confirmed:
		d.Verdict, d.Reason = stoplog.Replay, stoplog.ReasonKnownOperation
	case op.State == ledger.Void:
		d.Reason = stoplog.ReasonWithdrawn
		d.Detail = "the operation was withdrawn or expired before it was sent"
	case op.State == ledger.Dispatching, op.State == ledger.Proposed:
		d.Reason = stoplog.ReasonInProgress
	default:
		d.Reason = stoplog.ReasonOutcomeUnknown
	}
	return d
}

// replay answers a request whose operation is known: with the recorded answer, or with what is known of it.
func (x *exchange) replay(d stoplog.Decision) {
	if x.known == nil {
		op, err := x.h.o.Ledger.Get(x.client, d.Operation)
		if err != nil {
			x.evidenceAway("look up a known operation", err)
			return
		}
		d = x.knownDecision(&op)
	}
	x.operation = x.known.ID
	sent := SentNone
	switch d.Reason {
	case stoplog.ReasonOutcomeUnknown, stoplog.ReasonInProgress:
		sent = SentFull
	}
	typ := receipts.TypeOpReplayed
	if d.Reason == stoplog.ReasonIdempotencyMismatch {
		typ = receipts.TypeOpConflict
	}
	r := x.decided(x.receipt(typ), d)
	if typ == receipts.TypeOpConflict {
		c := x.h.o.Committer(x.known.ID)
		r.Note = map[string]string{"digest_known": c.Commit("digest", x.known.Digest[:]), "digest_now": c.Commit("digest", x.effect.Digest[:])}
	}
	x.h.o.Events.Decided(x.dst, x.effect, d, false)
	field := x.note(r)
	if d.Verdict == stoplog.Replay {
		a, err := x.h.o.Ledger.Answer(x.client, x.known.ID)
		if err == nil && a != nil {
			x.writeAnswer(a, field)
			return
		}
		d.Verdict, d.Detail = stoplog.Deny, "the operation is complete, but its answer is no longer stored"
	}
	x.decision, x.answered = d, true
	x.writeRefusal(d, sent, field)
}

// writeAnswer gives the recorded answer again.
func (x *exchange) writeAnswer(a *stoplog.Answer, receipt string) {
	x.decision, x.answered = stoplog.Decision{Verdict: stoplog.Replay, Reason: stoplog.ReasonKnownOperation}, true
	h := x.w.Header()
	for _, f := range a.Header {
		h.Add(f.Name, f.Value)
	}
	h.Set("Idempotent-Replayed", "true")
	h.Set("Stoplog-Decision", "replay")
	h.Set("Stoplog-Operation", strconv.Quote(string(x.operation)))
	if receipt != "" {
		h.Set("Stoplog-Receipt", receipt)
	}
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	x.w.WriteHeader(a.Status)
	if x.method != http.MethodHead {
		_, _ = x.w.Write(a.Body)
	}
}

// lookup finds the operation that a request belongs to, before it is judged: knowledge is free and repeatable.
func (x *exchange) lookup(ctx context.Context) (stoplog.Decision, bool) {
	if !x.effect.Class.Durable() || x.released {
		return stoplog.Decision{}, false
	}
	op, ok, err := x.h.o.Ledger.Lookup(ctx, x.cas.Key)
	if err != nil {
		x.h.o.Events.Failed("look up an operation", err)
		return deny(stoplog.ReasonEvidenceUnavailable, "the ledger cannot be read"), true
	}
	if !ok {
		return stoplog.Decision{}, false
	}
	if !x.keyed {
		switch {
		case op.State == ledger.Confirmed, op.State == ledger.Void:
			return stoplog.Decision{}, false // the same content once more is a new wish
		case op.State == ledger.Unknown && x.received.Sub(op.Updated) > unknownJoin:
			x.cas.Key = x.h.o.Key(x.effect.Actor.Tenant, x.dst.Name, x.effect.Actor.Agent, "after:"+string(op.ID)+":"+string(x.effect.Digest[:]))
			return stoplog.Decision{}, false
		}
	}
	return x.knownDecision(&op), true
}
