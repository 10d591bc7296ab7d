package operator

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts/ledger"
)

func (s *server) getHolds(w http.ResponseWriter, r *http.Request, _ identity) error {
	ops, err := s.Ledger.Holds(r.Context())
	if err != nil {
		return err
	}
	return answer(w, operations(ops))
}

// getOperations lists what is not ended: held, under way, unknown.
func (s *server) getOperations(w http.ResponseWriter, r *http.Request, _ identity) error {
	holds, err := s.Ledger.Holds(r.Context())
	if err != nil {
		return err
	}
	open, err := s.Ledger.Open(r.Context())
	if err != nil {
		return err
	}
	all := append(holds, open...)
	slices.SortStableFunc(all, func(a, b ledger.Operation) int { return a.Created.Compare(b.Created) })
	return answer(w, operations(all))
}

func (s *server) getOperation(w http.ResponseWriter, r *http.Request, _ identity) error {
	op, err := s.Ledger.Get(r.Context(), stoplog.OperationID(r.PathValue("id")))
	if err != nil {
		return err
	}
	return answer(w, operationOf(op))
}

func operations(ops []ledger.Operation) List[Operation] {
	out := List[Operation]{Items: make([]Operation, 0, len(ops))}
	for _, op := range ops {
		out.Items = append(out.Items, operationOf(op))
	}
	return out
}

func operationOf(op ledger.Operation) Operation {
	e := op.Effect
	o := Operation{
		ID: string(op.ID), State: op.State.String(), Attempt: op.Attempt, Class: e.Class.String(), Action: e.Action,
		Destination: e.Destination, Tenant: e.Actor.Tenant, Org: e.Actor.Org, Agent: e.Actor.Agent, Function: e.Function,
		Recipients: len(e.Recipients), Citations: len(e.Citations), Digest: digest(op.Digest),
		Created: instant(op.Created), Updated: instant(op.Updated),
	}
	if op.Attempt > 0 {
		o.Outcome = op.Outcome.String()
	}
	if op.Receipt.Log != "" {
		o.Receipt = &Ref{Log: op.Receipt.Log, Seq: op.Receipt.Seq}
	}
	if h := op.Hold; h != nil {
		o.Hold = &Hold{
			Verdict: h.Verdict.String(), Reason: string(h.Reason), Level: h.Level.String(),
			NotBefore: instant(h.NotBefore), Expires: instant(h.Expires), Bytes: h.Bytes, Credential: h.Credential,
		}
	}
	return o
}

func digest(d [32]byte) string { return "sha256:" + hex.EncodeToString(d[:]) }

func (s *server) postHold(w http.ResponseWriter, r *http.Request, who identity) error {
	id, verb := splitVerb(r.PathValue("target"))
	switch verb {
	case "release":
		return s.releaseOne(w, r, stoplog.OperationID(id), who)
	case "withdraw":
		var c WithdrawRequest
		err := read(r, &c)
		if err != nil {
			return err
		}
		why, err := reason(c.Reason, false)
		if err != nil {
			return err
		}
		err = s.Effects.Withdraw(r.Context(), stoplog.OperationID(id), who.name, why)
		if err != nil {
			return err
		}
		r.SetPathValue("id", id)
		return s.getOperation(w, r, who)
	}
	return refuse(http.StatusNotFound, stoplog.ReasonNotFound, "no such call")
}

func (s *server) releaseOne(w http.ResponseWriter, r *http.Request, id stoplog.OperationID, who identity) error {
	var c ReleaseRequest
	err := read(r, &c)
	if err != nil {
		return err
	}
	op, err := s.Ledger.Get(r.Context(), id)
	if err != nil {
		return err
	}
	if op.Hold == nil {
		return refuse(http.StatusConflict, stoplog.ReasonNotFound, fmt.Sprintf("operation %s is %s and not held", id, op.State))
	}
	return s.release(w, r, []ledger.Operation{op}, c, who)
}

func (s *server) postRelease(w http.ResponseWriter, r *http.Request, who identity) error {
	var c ReleaseRequest
	err := read(r, &c)
	if err != nil {
		return err
	}
	if !c.Selection.some() {
		return badRequest(fmt.Errorf("the selection is empty; say all to release everything"))
	}
	holds, err := s.Ledger.Holds(r.Context())
	if err != nil {
		return err
	}
	holds = slices.DeleteFunc(holds, func(op ledger.Operation) bool { return !c.Selection.matches(op) })
	return s.release(w, r, holds, c, who)
}

func (s *Selection) some() bool {
	return s.All || len(s.Operations) > 0 || s.Destination != "" || s.Tenant != "" || s.Agent != "" || s.Class != "" || s.Action != ""
}

func (s *Selection) matches(op ledger.Operation) bool {
	e := op.Effect
	for _, c := range [...]struct{ want, got string }{
		{s.Destination, e.Destination},
		{s.Tenant, e.Actor.Tenant},
		{s.Agent, e.Actor.Agent},
		{s.Class, e.Class.String()},
		{s.Action, e.Action},
	} {
		if c.want != "" && c.want != c.got {
			return false
		}
	}
	return len(s.Operations) == 0 || slices.Contains(s.Operations, string(op.ID))
}

func (s *server) release(w http.ResponseWriter, r *http.Request, holds []ledger.Operation, c ReleaseRequest, who identity) error {
	why, err := reason(c.Reason, false)
	if err != nil {
		return err
	}
	slices.SortStableFunc(holds, func(a, b ledger.Operation) int { return a.Created.Compare(b.Created) })
	if c.DryRun {
		return answer(w, ReleaseAnswer{DryRun: true, Preview: s.preview(holds)})
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.ReleaseTime)
	defer cancel()
	out := ReleaseAnswer{Results: []Released{}}
	// Oldest first, and within one tenant and destination never past one that could not leave: their order is kept.
	stuck := map[[2]string]string{}
	for _, op := range holds {
		group := [2]string{op.Effect.Actor.Tenant, op.Effect.Destination}
		res := Released{Operation: string(op.ID), Destination: group[1], Action: op.Effect.Action, Verdict: "waiting", Reason: stuck[group]}
		if res.Reason == "" {
			s.releaseInto(ctx, &res, &op, who, why)
			if !res.Sent && res.Verdict != stoplog.Deny.String() {
				stuck[group] = res.Reason
			}
		}
		if res.Sent {
			out.Sent++
		} else {
			out.Kept++
		}
		out.Results = append(out.Results, res)
	}
	return answer(w, out)
}

// releaseInto releases one hold. Where only a limit is in the way it waits for it, so that a release of many is no burst.
func (s *server) releaseInto(ctx context.Context, res *Released, op *ledger.Operation, who identity, why string) {
	res.Digest = digest(op.Digest)
	for {
		// Whoever asked may leave; a transmission that began is not cut by that.
		got, err := s.Effects.Release(context.WithoutCancel(ctx), op.ID, who.name, why)
		if err != nil {
			res.Verdict, res.Reason, res.Detail = "error", string(stoplog.ReasonOf(err)), problemOf(err).Detail
			return
		}
		d := got.Decision
		res.Verdict, res.Reason, res.Stage, res.Rule, res.Detail = d.Verdict.String(), string(d.Reason), d.Stage, d.Rule, d.Detail
		res.Sent, res.Status, res.RetryAfterMS = got.Sent, got.Status, d.RetryAfter.Milliseconds()
		if got.Sent {
			res.Outcome, res.Digest = got.Outcome.String(), digest(got.Digest)
			return
		}
		if d.RetryAfter <= 0 || !pause(ctx, d.RetryAfter) {
			return
		}
	}
}

// pause waits, unless ctx would end first: then there is no point in waiting.
func pause(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// preview counts. A recipient is shown as a mark, so that "forty messages to one person" can be seen without naming him.
func (s *server) preview(holds []ledger.Operation) *Preview {
	p := &Preview{Holds: len(holds), Destinations: map[string]int{}, Tenants: map[string]int{}, Recipients: []Recipient{}, Operations: []string{}}
	to := map[string]int{}
	for _, op := range holds {
		switch op.Effect.Class {
		case stoplog.ClassMessage:
			p.Messages++
		default:
			p.Writes++
		}
		p.Destinations[op.Effect.Destination]++
		if t := op.Effect.Actor.Tenant; t != "" {
			p.Tenants[t]++
		}
		p.Operations = append(p.Operations, string(op.ID))
		for _, r := range op.Effect.Recipients {
			to[s.mark(r)]++
		}
	}
	for m, n := range to {
		p.Recipients = append(p.Recipients, Recipient{Mark: m, Holds: n})
	}
	slices.SortFunc(p.Recipients, func(a, b Recipient) int {
		if a.Holds != b.Holds {
			return b.Holds - a.Holds
		}
		return strings.Compare(a.Mark, b.Mark)
	})
	return p
}

func (s *server) mark(recipient string) string {
	h := hmac.New(sha256.New, s.marks)
	h.Write([]byte(recipient))
	return "r:" + hex.EncodeToString(h.Sum(nil)[:5])
}
