package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/proxy/connector"
	"github.com/stoplog/stoplog/receipts"
)

// maxBuffered bounds answers that are read whole before they are passed on: error answers, which may be retried, and the
// answers of writes and messages, whose outcome is durable before the agent hears of it. Larger ones are streamed.
const maxBuffered = 1 << 20

var copyPool = sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}

func (x *exchange) idle() time.Duration {
	switch {
	case x.reading.Listen:
		return listenFor
	case x.dst.Idle > 0:
		return x.dst.Idle
	}
	return x.dst.Total
}

// buffer reads the answer whole where it must be known before a byte of it is passed on.
func (x *exchange) buffer(a *attempt) {
	if a.status < 300 && (!x.effect.Class.Durable() || isStream(a.resp.Header)) {
		return
	}
	var buf bytes.Buffer
	if n := a.resp.ContentLength; n > 0 && n <= maxBuffered {
		buf.Grow(int(n) + bytes.MinRead)
	}
	tmp := copyPool.Get().(*[]byte)
	defer copyPool.Put(tmp)
	for {
		a.wait()
		n, err := a.resp.Body.Read(*tmp)
		if n > 0 {
			buf.Write((*tmp)[:n])
			a.observer.Write((*tmp)[:n])
			a.bytes += int64(n)
		}
		if err != nil {
			a.buffered = true
			a.body = buf.Bytes()
			x.endAnswer(a, err)
			return
		}
		if buf.Len() > maxBuffered {
			a.body = buf.Bytes()
			return
		}
	}
}

// endAnswer classifies an answer that was read to its end, or to where it broke.
func (x *exchange) endAnswer(a *attempt, err error) {
	complete := errors.Is(err, io.EOF)
	a.took = time.Since(a.began)
	a.result = a.observer.End(connector.End{Trailer: a.resp.Trailer, Complete: complete, Abandoned: errors.Is(context.Cause(a.ctx), errClientGone)})
	a.by = "response"
	if isStream(a.resp.Header) {
		a.by = "stream_end"
	}
	if a.left.Load() {
		x.flag("client_gone")
	}
	if !complete {
		a.err = err
		a.errClass = errorClass(err, a.ctx)
		a.by = a.errClass
		x.flag("truncated")
		if a.errClass == "client_gone" || a.errClass == "level" {
			a.result.Health = stoplog.HealthNeutral
		}
	}
	if !complete {
		_ = a.resp.Body.Close()
	}
	a.stop()
}

// noAnswer classifies an attempt that ended before the head of an answer.
func (x *exchange) noAnswer(a *attempt, ctx context.Context) {
	a.took = time.Since(a.began)
	if a.errClass == "" {
		a.errClass = errorClass(a.err, ctx)
	}
	a.by = a.errClass
	canceled := a.errClass == "client_gone" || a.errClass == "level"
	a.result = x.reading.NoAnswer(a.sent.String(), a.errClass == "timeout" || a.errClass == "deadline", canceled)
	if stoplog.ReasonOf(a.err) == stoplog.ReasonAddressDenied || a.errClass == "credential" {
		a.result.Health = stoplog.HealthNeutral
	}
	a.buffered = true
	a.stop()
}

// errorClass names why an attempt ended, without the error's text.
func errorClass(err error, ctx context.Context) string {
	cause := context.Cause(ctx)
	var cut *cutError
	var dns *net.DNSError
	switch {
	case errors.As(cause, &cut):
		return "level"
	case errors.Is(cause, errClientGone):
		return "client_gone"
	case errors.Is(cause, errDeadline):
		return "deadline"
	case errors.Is(cause, errAttemptTimeout), errors.Is(cause, errIdle), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case stoplog.ReasonOf(err) == stoplog.ReasonAddressDenied:
		return "address_denied"
	case errors.As(err, &dns):
		return "dns"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "reset"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errBrokenAnswer):
		return "closed"
	}
	return "broken"
}

// again decides whether another attempt is made: only for transient failures of what may be repeated, only while attempts
// and useful time remain, and never after a byte was passed on.
func (x *exchange) again(a *attempt, n int) (time.Duration, bool) {
	if !a.buffered || n >= x.dst.Attempts || x.client.Err() != nil && !x.effect.Class.Durable() {
		return 0, false
	}
	if a.resp != nil && a.status < 300 && a.err == nil || !x.reading.Retryable(a.result, a.status) {
		return 0, false
	}
	if g := a.grantLeft; g == 0 {
		return 0, false
	}
	hint := RetryHint{Cool: a.result.Cool}
	if a.resp != nil {
		hint.Answered = true
		hint.RetryAfter, hint.RetryAfterMS, hint.Date = a.resp.Header["Retry-After"], a.resp.Header["Retry-After-Ms"], a.resp.Header.Get("Date")
	}
	return x.dst.Retry.Next(n, x.remaining(), hint)
}

// pause waits before the next attempt. The agent's leaving ends it for what ends with the agent.
func (x *exchange) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.client.Done():
		return false
	}
}

// giveUp answers with the last attempt's answer: no further attempt could be made.
func (x *exchange) giveUp(a *attempt) {
	field := ""
	if x.effect.Class.Durable() {
		r := x.receipt(receipts.TypeOpOutcome)
		r.Attempt = a.n
		x.ended(r, a)
		field = x.finishReceipt(a, r)
	}
	x.finishAnswered(a, field)
}

// settle gives the grant back.
func (x *exchange) settle(p *admission.Permit, s admission.Settlement) {
	// The store bounds its own time; the agent may be gone.
	if err := p.Settle(context.WithoutCancel(x.client), s); err != nil {
		x.h.o.Events.Failed("settle a grant", err)
	}
}

func (x *exchange) settleAttempt(p *admission.Permit, a *attempt) {
	a.spent = spent(p.Charges().Spend, a.result)
	s := admission.Settlement{Health: a.result.Health, Whole: a.result.Class == "", Cool: a.result.Cool, Spend: a.spent, Tokens: -1, NotSent: a.result.Outcome == stoplog.OutcomeNotSent}
	if a.result.Usage.Known {
		s.Tokens = a.result.Usage.Total()
	}
	x.settle(p, s)
	x.h.o.Events.Attempt(x.dst, x.effect, a.result, a.status, a.took, a.firstByte)
}

// endAttempt ends one attempt that another will follow.
func (x *exchange) endAttempt(p *admission.Permit, a *attempt) {
	x.settleAttempt(p, a)
	r := x.receipt(receipts.TypeOutcome)
	x.granted(r, p)
	r.Attempt = a.n
	x.ended(r, a)
	x.note(r)
}

// conclude ends the last attempt: it passes the answer on, settles, and records.
func (x *exchange) conclude(p *admission.Permit, a *attempt) {
	if a.buffered {
		x.settleAttempt(p, a)
		x.finishAnswered(a, x.recordEnd(p, a))
		return
	}
	x.stream(p, a)
}

// recordEnd records the end of the effect and returns the receipt's header form.
func (x *exchange) recordEnd(p *admission.Permit, a *attempt) string {
	if x.effect.Class.Durable() {
		return x.finishWith(p, a)
	}
	r := x.decided(x.receipt(receipts.TypeOutcome), x.judgment.Decision)
	x.granted(r, p)
	r.Attempt = a.n
	x.ended(r, a)
	return x.note(r)
}

func (x *exchange) finishWith(p *admission.Permit, a *attempt) string {
	r := x.receipt(receipts.TypeOpOutcome)
	x.granted(r, p)
	r.Attempt = a.n
	x.ended(r, a)
	return x.finishReceipt(a, r)
}

// finish records the end of an operation of which nothing more is known than o.
func (x *exchange) finish(o stoplog.Outcome, a *attempt, _ *stoplog.Answer) {
	a.result.Outcome = o
	r := x.receipt(receipts.TypeOpOutcome)
	r.Attempt = a.n
	x.ended(r, a)
	x.finishReceipt(a, r)
}

func (x *exchange) finishReceipt(a *attempt, r *receipts.Receipt) string {
	ctx, cancel := x.settleContext()
	defer cancel()
	var keep *stoplog.Answer
	if x.keyed && a.buffered && a.resp != nil && a.result.Outcome == stoplog.OutcomeConfirmed {
		keep = &stoplog.Answer{Status: a.status, Body: a.body, Header: replayHeaders(a.resp.Header)}
	}
	err := x.h.o.Ledger.Finish(ctx, x.operation, a.result.Outcome, keep, r)
	if err != nil {
		// The intent is durable: without its outcome the operation is found Unknown, never lost.
		x.h.o.Events.Failed("record the outcome of an operation", err)
		a.unrecorded = true
		return ""
	}
	return receiptField(receipts.Position{Log: r.Log, Seq: r.Seq})
}

// replayHeaders are kept with an answer; nothing that sets state or identifies a session.
func replayHeaders(h http.Header) []stoplog.Field {
	var out []stoplog.Field
	for _, n := range [...]string{"Content-Type", "Content-Encoding", "Content-Language", "Location", "Link", "Etag", "Request-Id", "X-Request-Id", "X-Github-Request-Id", "Mcp-Session-Id"} {
		for _, v := range h[n] {
			out = append(out, stoplog.Field{Name: n, Value: v})
		}
	}
	return out
}

// finishAnswered answers the agent after the effect's end is recorded.
func (x *exchange) finishAnswered(a *attempt, receipt string) {
	if a.resp != nil && a.err == nil {
		x.passHead(a, receipt)
		switch {
		case x.method == http.MethodHead || a.status == http.StatusNoContent || a.status == http.StatusNotModified:
			x.w.Header()["Content-Length"] = a.resp.Header["Content-Length"]
		case len(a.resp.Trailer) == 0: // trailers need chunks
			x.w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		}
		x.w.WriteHeader(a.status)
		if x.method != http.MethodHead {
			_, _ = x.w.Write(a.body)
		}
		x.passTrailer(a)
		return
	}
	d := deny(stoplog.ReasonUpstreamUnreachable, "the destination could not be reached ("+a.errClass+")")
	d.Stage = "forward"
	switch {
	case a.errClass == "address_denied":
		d = decisionOf(rootRefusal(a.err))
	case a.errClass == "credential":
		d.Reason, d.Detail = stoplog.ReasonInternal, "the destination's credential could not be read; see the sidecar's log"
		x.h.o.Events.Failed("read a credential", a.err)
	case a.errClass == "client_gone":
		d.Reason, d.Detail = stoplog.ReasonClientGone, "the agent left before an answer came"
	case a.errClass == "level":
		var cut *cutError
		if errors.As(context.Cause(a.ctx), &cut) {
			d = cut.d
		}
	case a.result.Outcome == stoplog.OutcomeUnknown && x.effect.Class.Durable():
		d.Reason, d.Detail = stoplog.ReasonOutcomeUnknown, "the answer was lost ("+a.errClass+")"
	case a.errClass == "timeout" || a.errClass == "deadline":
		d.Reason, d.Detail = stoplog.ReasonUpstreamTimeout, "the destination did not answer in time"
	case a.sent != SentNone:
		d.Reason, d.Detail = stoplog.ReasonUpstreamBroken, "the destination's answer broke off ("+a.errClass+")"
	}
	if receipt == "" {
		receipt = "-"
	}
	x.refuseSent(d, a.sent, receipt)
}

func rootRefusal(err error) error {
	var e *stoplog.Error
	if errors.As(err, &e) {
		return e
	}
	return err
}

// passHead copies the answer's head and adds Stoplog's own fields after hop-by-hop fields were dropped.
func (x *exchange) passHead(a *attempt, receipt string) {
	x.answered = true
	x.decision = x.judgment.Decision
	h := x.w.Header()
	for n, vs := range a.resp.Header {
		if hopByHop[n] || strings.HasPrefix(n, "Stoplog-") || headerHas(a.resp.Header, "Connection", n) {
			continue
		}
		h[n] = vs
	}
	h.Set("Stoplog-Decision", "allow")
	if x.judgment.Observed {
		h.Set("Stoplog-Decision", "observed;would="+x.judgment.Decision.Verdict.String()+";reason="+string(x.judgment.Decision.Reason))
	}
	h.Set("Stoplog-Operation", strconv.Quote(string(x.operation)))
	if receipt != "" && receipt != "-" {
		h.Set("Stoplog-Receipt", receipt)
	}
}

// passTrailer passes trailers on, announced or not.
func (x *exchange) passTrailer(a *attempt) {
	for n, vs := range a.resp.Trailer {
		for _, v := range vs {
			x.w.Header().Add(http.TrailerPrefix+n, v)
		}
	}
}

func isStream(h http.Header) bool {
	ct := h.Get("Content-Type")
	return strings.HasPrefix(ct, "text/event-stream") || strings.HasPrefix(ct, "application/x-ndjson") || strings.HasPrefix(ct, "application/stream+json")
}
