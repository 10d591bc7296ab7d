package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// stream passes an answer on as it comes. Every read is written and, where the length is not known, flushed at once: a byte
// counter must not become a buffer (golang/go#27816). After the first byte no further attempt is made; an answer that
// breaks is aborted, never ended cleanly.
func (x *exchange) stream(p *admission.Permit, a *attempt) {
	defer a.resp.Body.Close()
	x.passHead(a, "")
	flush := a.resp.ContentLength < 0
	if a.resp.ContentLength >= 0 {
		x.w.Header()["Content-Length"] = a.resp.Header["Content-Length"]
	}
	x.w.WriteHeader(a.status)
	rc := http.NewResponseController(x.w)
	gone := x.pass(a.body, flush, rc)
	tmp := copyPool.Get().(*[]byte)
	defer copyPool.Put(tmp)
	var tail [4]byte
	var err error
	for err == nil {
		a.wait()
		var n int
		n, err = a.resp.Body.Read(*tmp)
		if n == 0 {
			continue
		}
		b := (*tmp)[:n]
		keepTail(&tail, b)
		a.observer.Write(b)
		a.bytes += int64(n)
		if !gone {
			gone = x.pass(b, flush, rc)
		}
	}
	x.endAnswer(a, err)
	x.settleAttempt(p, a)
	field := x.recordEnd(p, a)
	if err != io.EOF {
		if !gone && isStream(a.resp.Header) && (bytes.HasSuffix(tail[:], []byte("\n\n")) || bytes.HasSuffix(tail[:], []byte("\r\n\r\n")) || a.bytes == 0) {
			_, _ = x.w.Write(x.errorFrame(a, field))
			_ = rc.Flush()
		}
		if x.released {
			return
		}
		panic(http.ErrAbortHandler) // the only way to tell the agent that the answer is not whole
	}
	if gone {
		return
	}
	x.passTrailer(a)
}

// pass writes b to the agent and reports whether the agent has left.
func (x *exchange) pass(b []byte, flush bool, rc *http.ResponseController) (gone bool) {
	if len(b) == 0 {
		if flush {
			return rc.Flush() != nil
		}
		return false
	}
	_, err := x.w.Write(b)
	if err == nil && flush {
		err = rc.Flush()
	}
	if err != nil {
		x.flag("client_gone")
		return true
	}
	return false
}

func keepTail(t *[4]byte, b []byte) {
	if len(b) >= len(t) {
		copy(t[:], b[len(b)-len(t):])
		return
	}
	copy(t[:], t[len(b):])
	copy(t[len(t)-len(b):], b)
}

// errorFrame is the one event that tells the agent that a stream broke; no end mark follows it.
func (x *exchange) errorFrame(a *attempt, receipt string) []byte {
	d := deny(stoplog.ReasonUpstreamBroken, "the answer broke off after a part of it was passed on ("+a.errClass+")")
	var cut *cutError
	if errors.As(context.Cause(a.ctx), &cut) {
		d = cut.d
	} else if a.errClass == "timeout" || a.errClass == "deadline" {
		d.Reason = stoplog.ReasonUpstreamTimeout
	}
	return errorEvent(x.problem(d, SentFull, strings.TrimPrefix(receipt, "-")))
}
