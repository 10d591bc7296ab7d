package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/proxy/connector"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// ServeHTTP is the way of one request.
func (e *entry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{h: e.h, l: e.l, rt: e.h.runtime.Load(), w: w, client: r.Context(), received: time.Now()}
	if !e.h.flights.enter(x) {
		x.refuse(deny(stoplog.ReasonDraining, "this sidecar is shutting down and takes no new effects"))
		return
	}
	defer e.h.flights.leave(x)
	e.h.o.Events.Flight(1)
	defer e.h.o.Events.Flight(-1)

	if err := x.accept(r); err != nil { // framing, target, host, body
		x.refuse(decisionOf(err))
		return
	}
	if err := x.classify(); err != nil { // what the effect is
		x.refuse(decisionOf(err))
		return
	}
	x.process() //nolint:contextcheck // it works with the contexts in x: the agent's, and those that outlive it
}

// process judges, claims, commits, forwards, settles and answers: the part of the way that a released effect goes again.
func (x *exchange) process() {
	permit, j := x.h.admit(x)
	x.judgment = j
	if permit == nil {
		x.stop(j.Decision)
		return
	}
	x.transmit(permit)
}

// admit asks the ledger first: a known operation is answered from what is known of it and takes nothing.
func (h *Handler) admit(x *exchange) (*admission.Permit, admission.Judgment) {
	ctx, cancel := context.WithTimeout(x.client, x.remaining())
	defer cancel()
	d, known := x.lookup(ctx)
	opinion := admission.Verdict{Stage: d.Stage, Result: d.Verdict, Reason: d.Reason}
	if known && !x.rt.Observe {
		return nil, admission.Judgment{Decision: d, Opinions: []admission.Verdict{opinion}}
	}
	if known { // observed only: it goes on as an operation of its own
		x.cas.Key = h.o.Key(x.effect.Actor.Tenant, x.dst.Name, x.effect.Actor.Agent, "observed:"+string(x.operation))
		x.known = nil
	}
	p, j := x.rt.Pipeline.Admit(ctx, &x.cas, x.exact, h.o.NewID("clm"))
	if known && p != nil {
		j.Decision, j.Observed = d, true
		j.Opinions = append([]admission.Verdict{opinion}, j.Opinions...)
	}
	return p, j
}

// stop ends an exchange that was not admitted: kept, answered from the ledger, or refused.
func (x *exchange) stop(d stoplog.Decision) {
	switch {
	case x.known == nil && (d.Verdict == stoplog.Hold || d.Verdict == stoplog.Park):
		x.keep(d)
	case x.known != nil:
		x.replay(d)
	default:
		x.refuse(d)
	}
}

// exchange is one request on its way.
type exchange struct {
	h        *Handler
	l        Listener
	rt       *Runtime
	w        http.ResponseWriter
	client   context.Context // the agent's; ends when it leaves
	received time.Time

	released                  bool // re-observed after a hold: no agent waits
	releasedBy, releaseReason string
	begun                     bool      // its intent was recorded
	expires                   time.Time // of the hold it was released from

	method     string
	dst        *Destination
	path       string // without the destination's prefix
	reading    *connector.Reading
	effect     *stoplog.Effect
	exact      *stoplog.Exact
	creds      []stoplog.Field // the agent's own credential headers, for this transmission only
	chunked    bool
	deadline   time.Time
	prefer     preference
	retryCount string // X-Stainless-Retry-Count

	operation stoplog.OperationID
	keyed     bool // the operation's key was given by the agent, not derived from the content
	cas       admission.Case
	judgment  admission.Judgment
	known     *ledger.Operation

	decision stoplog.Decision // as answered
	answered bool
	flags    []string
	unknown  map[string]string // what `stoplog learn` needs of a request that nothing names
}

// remaining is the useful time left; never less than zero.
func (x *exchange) remaining() time.Duration {
	if x.deadline.IsZero() {
		return 30 * time.Second
	}
	return max(0, time.Until(x.deadline))
}

// settleContext outlives the agent but not by much: what was taken must be given back even when nobody waits.
func (x *exchange) settleContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(x.client), 10*time.Second)
}

func (x *exchange) flag(s string) {
	for _, f := range x.flags {
		if f == s {
			return
		}
	}
	x.flags = append(x.flags, s)
}

func deny(r stoplog.Reason, detail string) stoplog.Decision {
	return stoplog.Decision{Verdict: stoplog.Deny, Reason: r, Stage: "proxy", Detail: detail}
}

func decisionOf(err error) stoplog.Decision {
	d := deny(stoplog.ReasonOf(err), "")
	if e, ok := err.(*stoplog.Error); ok { //nolint:errorlint // only an unwrapped refusal may speak to the agent
		d.Detail, d.RetryAfter = e.Detail, e.RetryAfter
	}
	return d
}
