package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/proxy/connector"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// Released is what became of a released effect.
type Released struct {
	Operation stoplog.OperationID
	Decision  stoplog.Decision // Allow: it was sent
	Status    int              // of the destination's answer; 0 = none
}

// Release has a held or parked effect judged again, as if it had just come, and sends it if nothing stops it now. It is the
// same way as that of a request: no stage can be skipped. What is stopped again stays held.
func (h *Handler) Release(ctx context.Context, id stoplog.OperationID, by, reason string) (Released, error) {
	op, err := h.o.Ledger.Get(ctx, id)
	if err != nil {
		return Released{}, err
	}
	if op.Hold == nil || op.State != ledger.Proposed {
		return Released{}, stoplog.Refuse(stoplog.ReasonNotFound, "the operation is not held (it is "+op.State.String()+")")
	}
	now := time.Now()
	if !op.Hold.Expires.IsZero() && now.After(op.Hold.Expires) {
		return Released{}, stoplog.Refuse(stoplog.ReasonWithdrawn, "the hold has expired; the effect is withdrawn, not sent")
	}
	if now.Before(op.Hold.NotBefore) {
		return Released{}, stoplog.Refuse(stoplog.ReasonHeldAgain, "the effect may not leave before "+op.Hold.NotBefore.Format(time.RFC3339))
	}
	exact, err := h.o.Ledger.Bytes(ctx, id)
	if err != nil {
		return Released{}, fmt.Errorf("read the bytes of %s: %w", id, err)
	}
	rt := h.runtime.Load()
	if rt == nil {
		return Released{}, stoplog.Refuse(stoplog.ReasonConfigNotReady, "no configuration is loaded yet")
	}
	dst := rt.Destinations[op.Effect.Destination]
	if dst == nil || dst.Host != exact.Host {
		return Released{}, stoplog.Refuse(stoplog.ReasonUnknownDestination, "the destination "+op.Effect.Destination+" is gone or points elsewhere now; withdraw the effect")
	}
	out := &answerRecorder{header: http.Header{}}
	x := &exchange{
		h: h, rt: rt, w: out, client: context.WithoutCancel(ctx), received: now, released: true, releasedBy: by, releaseReason: reason, expires: op.Hold.Expires,
		l: Listener{Actor: op.Effect.Actor, Function: op.Effect.Function, Address: "released"}, method: exact.Method, dst: dst,
		deadline: now.Add(dst.Total),
	}
	if !h.flights.enter(x) {
		return Released{}, stoplog.Refuse(stoplog.ReasonDraining, "this sidecar is shutting down")
	}
	defer h.flights.leave(x)
	if err := x.reread(exact); err != nil {
		return Released{}, err
	}
	if x.effect.Digest != op.Digest {
		return Released{}, stoplog.Refuse(stoplog.ReasonInternal, "the stored bytes do not match the operation's digest")
	}
	x.effect.Operation, x.effect.Intent = op.Effect.Operation, stoplog.IntentID(h.o.NewID("int"))
	x.operation, x.cas.Operation, x.cas.Key, x.keyed = id, id, op.Key, op.Effect.Operation != ""
	x.process() //nolint:contextcheck // a release goes on when its caller leaves
	return Released{Operation: x.operation, Decision: x.decision, Status: out.status}, nil
}

// reread reads a kept request as if it had just been accepted.
func (x *exchange) reread(kept *stoplog.Exact) error {
	rest, ok := under(kept.Target, x.dst.BasePath)
	if !ok {
		return stoplog.Refuse(stoplog.ReasonUnknownDestination, "the destination's base path changed since the effect was held; withdraw it")
	}
	path, query, _ := strings.Cut(rest, "?")
	x.path = path
	hdr := http.Header{}
	x.exact = &stoplog.Exact{Method: kept.Method, Host: kept.Host, Target: kept.Target, Body: kept.Body}
	for _, f := range kept.Header {
		if credentialHeaders[http.CanonicalHeaderKey(f.Name)] {
			x.creds = append(x.creds, f)
			continue
		}
		x.exact.Header = append(x.exact.Header, f)
		hdr.Add(f.Name, f.Value)
	}
	if err := x.classifyRequest(&connector.Request{Method: kept.Method, Path: path, RawQuery: query, Header: hdr, Body: kept.Body}, hdr); err != nil {
		return err
	}
	return x.classify()
}

// Withdraw ends a held effect without sending it.
func (h *Handler) Withdraw(ctx context.Context, id stoplog.OperationID, by, reason string) error {
	op, err := h.o.Ledger.Get(ctx, id)
	if err != nil {
		return err
	}
	if op.Hold == nil || op.State != ledger.Proposed {
		return stoplog.Refuse(stoplog.ReasonNotFound, "the operation is not held (it is "+op.State.String()+")")
	}
	e := op.Effect
	r := &receipts.Receipt{
		Type: receipts.TypeHoldWithdrawn, Operation: id, State: ledger.Void.String(), Actor: e.Actor, Function: e.Function, Destination: e.Destination,
		Connector: e.Connector, Class: e.Class, Action: e.Action, Note: map[string]string{"by": by, "reason": reason},
	}
	return h.o.Ledger.Withdraw(ctx, id, r)
}

// answerRecorder takes the answer to a released effect; no agent waits for it. The ledger keeps the bytes.
type answerRecorder struct {
	header http.Header
	status int
}

func (a *answerRecorder) Header() http.Header { return a.header }
func (a *answerRecorder) WriteHeader(s int) {
	if a.status == 0 {
		a.status = s
	}
}

func (a *answerRecorder) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return len(b), nil
}

func (a *answerRecorder) Flush() {}
