package proxy

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/proxy/connector"
)

// This file is the only one that knows HTTP status codes of refusals and the shapes in which vendors' clients expect them.

// problem is the body of a refusal (RFC 9457), with the members that the official clients of the vendors look for.
type problem struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Status      int    `json:"status"`
	Detail      string `json:"detail"`
	Reason      string `json:"reason"`
	Disposition string `json:"disposition"` // denied, held, parked, unknown, in_progress
	Operation   string `json:"operation,omitempty"`
	Receipt     string `json:"receipt,omitempty"`
	Retry       string `json:"retry"` // never, poll, after
	RetryMS     int64  `json:"retry_after_ms,omitempty"`
	Sent        string `json:"sent"` // none, partial, full
	Message     string `json:"message"`
	OK          bool   `json:"ok"`
	Error       any    `json:"error"`
}

type errorObject struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Status  string `json:"status,omitempty"` // Gemini reads this one
}

// refuse answers the agent, once, and records the decision.
func (x *exchange) refuse(d stoplog.Decision) { x.refuseSent(d, SentNone, "") }

func (x *exchange) refuseSent(d stoplog.Decision, sent Sent, receipt string) {
	x.decision = d
	if receipt == "" {
		receipt = x.recordRefusal(d)
	}
	if x.answered {
		return
	}
	x.answered = true
	x.writeRefusal(d, sent, receipt)
}

// statusOf is the HTTP status of a refusal. 403 is what no official client retries or takes for success; 429 and 503 with
// Retry-After are for a true try-later only; 502 and 504 for an answer that was lost.
func statusOf(d stoplog.Decision) int {
	switch d.Reason {
	case stoplog.ReasonAmbiguousFraming, stoplog.ReasonAmbiguousPath, stoplog.ReasonAmbiguousQuery, stoplog.ReasonAmbiguousHost,
		stoplog.ReasonMethodOverride, stoplog.ReasonMalformedBody, stoplog.ReasonDuplicateKey, stoplog.ReasonMalformedHeader,
		stoplog.ReasonBatchRefused, stoplog.ReasonUnsupportedUpgrade:
		return http.StatusBadRequest
	case stoplog.ReasonUnsupportedCoding:
		return http.StatusUnsupportedMediaType
	case stoplog.ReasonBodyTooLarge, stoplog.ReasonHoldTooLarge:
		return http.StatusRequestEntityTooLarge
	case stoplog.ReasonNotFound:
		return http.StatusNotFound
	case stoplog.ReasonIdempotencyMismatch:
		return http.StatusUnprocessableEntity
	case stoplog.ReasonInProgress:
		return http.StatusConflict
	case stoplog.ReasonRateLimited, stoplog.ReasonTokensLimited, stoplog.ReasonShareUsed, stoplog.ReasonTenantSeatsTaken:
		if d.RetryAfter > 0 {
			return http.StatusTooManyRequests
		}
	case stoplog.ReasonBreakerOpen, stoplog.ReasonProbeSlotUsed, stoplog.ReasonSeatsTaken, stoplog.ReasonRetryBudgetUsed:
		if d.RetryAfter > 0 {
			return http.StatusServiceUnavailable
		}
	case stoplog.ReasonStoreUnavailable, stoplog.ReasonEvidenceUnavailable, stoplog.ReasonConfigNotReady, stoplog.ReasonDraining,
		stoplog.ReasonOverloaded, stoplog.ReasonStoreStateMissing:
		return http.StatusServiceUnavailable
	case stoplog.ReasonUpstreamUnreachable, stoplog.ReasonUpstreamBroken, stoplog.ReasonOutcomeUnknown:
		return http.StatusBadGateway
	case stoplog.ReasonUpstreamTimeout, stoplog.ReasonDeadlineExceeded:
		return http.StatusGatewayTimeout
	case stoplog.ReasonInternal:
		return http.StatusInternalServerError
	}
	return http.StatusForbidden
}

func (x *exchange) writeRefusal(d stoplog.Decision, sent Sent, receipt string) {
	p := x.problem(d, sent, receipt)
	h := x.w.Header()
	h.Set("Stoplog-Decision", decisionField(d))
	if x.operation != "" {
		h.Set("Stoplog-Operation", strconv.Quote(string(x.operation)))
	}
	if receipt != "" {
		h.Set("Stoplog-Receipt", receipt)
	}
	// The retry budget is Stoplog's: clients that read one of these do not spend it a second time.
	if p.Retry != "after" {
		h.Set("X-Should-Retry", "false")
		h.Set("Stripe-Should-Retry", "false")
	} else {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(d.RetryAfter.Seconds())), 10))
	}
	h.Set("Cache-Control", "no-store")
	shape := connector.ShapeProblem
	if x.dst != nil {
		shape = x.dst.Profile.Shape()
	}
	status, body := p.Status, any(p)
	h.Set("Content-Type", "application/problem+json")
	switch {
	case x.prefer.respondAsync && (d.Verdict == stoplog.Hold || d.Verdict == stoplog.Park):
		// Only who asked for it gets a success status for something that was not sent.
		status = http.StatusAccepted
		h.Set("Preference-Applied", "respond-async")
	case shape == connector.ShapeSlack:
		// Slack's client retries whatever is not 200 and throws on ok:false.
		status, body = http.StatusOK, slackRefusal(p)
		h.Set("Content-Type", "application/json; charset=utf-8")
	case shape == connector.ShapeMCP && x.reading != nil && x.reading.RPC != nil:
		status, body = http.StatusOK, mcpRefusal(x.reading.RPC, p)
		h.Set("Content-Type", "application/json")
	case shape == connector.ShapeMCP && d.Reason == stoplog.ReasonBatchRefused || shape == connector.ShapeMCP && status == http.StatusBadRequest:
		body = map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32600, "message": p.Detail, "data": p}}
		h.Set("Content-Type", "application/json")
	}
	if status == http.StatusBadRequest && d.Reason == stoplog.ReasonAmbiguousFraming {
		h.Set("Connection", "close")
	}
	b, err := json.Marshal(body)
	if err != nil { // all members are plain
		x.h.o.Events.Failed("encode refusal", err)
		b = []byte(`{"status":500,"reason":"internal"}`)
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	x.w.WriteHeader(status)
	if x.method != http.MethodHead {
		_, _ = x.w.Write(b)
	}
}

func (x *exchange) problem(d stoplog.Decision, sent Sent, receipt string) *problem {
	title, detail := words(d, sent)
	p := &problem{
		Type: x.h.o.ProblemBase + string(d.Reason), Title: title, Status: statusOf(d), Detail: detail, Reason: string(d.Reason),
		Disposition: disposition(d), Operation: string(x.operation), Receipt: receipt, Retry: "never", Sent: sent.String(),
	}
	if d.RetryAfter > 0 && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable) {
		p.Retry, p.RetryMS = "after", d.RetryAfter.Milliseconds()
	} else if d.Verdict == stoplog.Hold || d.Verdict == stoplog.Park || d.Reason == stoplog.ReasonInProgress {
		p.Retry = "poll"
	}
	p.Message = p.Title + ". " + p.Detail
	e := errorObject{Type: "stoplog_" + p.Disposition, Code: p.Reason, Message: p.Message}
	if x.dst != nil {
		switch x.dst.Profile.Shape() {
		case connector.ShapeAnthropic:
			p.Type = "error" // the client reads error.error.type; the problem type stays in the error's code
		case connector.ShapeGemini:
			e.Status = "PERMISSION_DENIED"
		default:
		}
	}
	p.Error = e
	return p
}

func disposition(d stoplog.Decision) string {
	switch {
	case d.Verdict == stoplog.Hold:
		return "held"
	case d.Verdict == stoplog.Park:
		return "parked"
	case d.Reason == stoplog.ReasonOutcomeUnknown:
		return "unknown"
	case d.Reason == stoplog.ReasonInProgress:
		return "in_progress"
	}
	return "denied"
}

func decisionField(d stoplog.Decision) string {
	s := disposition(d) + ";reason=" + string(d.Reason)
	if d.RetryAfter > 0 {
		s += ";retry=" + strconv.FormatInt(d.RetryAfter.Milliseconds(), 10)
	}
	return s
}

// words are written for a language model: what happened, whether anything was sent, what not to do.
func words(d stoplog.Decision, sent Sent) (title, detail string) {
	nothing := "Nothing was sent. "
	switch {
	case d.Verdict == stoplog.Hold:
		title = "Held: this message was kept, not sent"
		detail = nothing + "It is stored byte for byte and will be judged again when a person releases it. Do not send it again and do not reword it to get around the hold."
	case d.Verdict == stoplog.Park:
		title = "Parked: this write was kept, not applied"
		detail = nothing + "It is stored byte for byte and will be judged again when a person releases it. Do not send it again."
	case d.Reason == stoplog.ReasonOutcomeUnknown:
		title = "Outcome unknown: the request left, but its answer was lost"
		detail = "It may have taken effect. Do not send it again under a new key; ask a person to find out, or look it up at the destination."
	case d.Reason == stoplog.ReasonInProgress:
		title = "In progress: the same operation is being carried out"
		detail = "Another request with the same operation is under way. Wait for it instead of sending another."
	case d.RetryAfter > 0:
		title = "Refused for now: " + strings.ReplaceAll(string(d.Reason), "_", " ")
		detail = nothing + fmt.Sprintf("Trying again after %s can help; trying sooner cannot.", d.RetryAfter.Round(time.Millisecond))
	default:
		title = "Refused: " + strings.ReplaceAll(string(d.Reason), "_", " ")
		detail = "Sending it again unchanged will be refused again."
		if sent == SentNone {
			detail = nothing + detail
		}
	}
	if d.Detail != "" {
		detail += " Why: " + d.Detail + "."
	}
	return title, strings.ReplaceAll(detail, "..", ".")
}

func slackRefusal(p *problem) map[string]any {
	return map[string]any{
		"ok": false, "error": "stoplog_" + p.Reason, "stoplog": p,
		"response_metadata": map[string]any{"messages": []string{"[ERROR] " + p.Message}},
	}
}

// mcpRefusal is a tool result that the model can read; a JSON-RPC error would be taken for a broken server.
func mcpRefusal(rpc *connector.RPC, p *problem) map[string]any {
	m := map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(rpc.ID)}
	if rpc.Method != "tools/call" {
		m["error"] = map[string]any{"code": -32000, "message": p.Message, "data": p}
		return m
	}
	m["result"] = map[string]any{
		"isError": true, "structuredContent": p,
		"content": []any{map[string]any{"type": "text", "text": p.Message + " (" + p.Reason + ")"}},
	}
	return m
}

// framingRefusal is written by the connection itself: no request exists yet.
var framingRefusal = func() []byte {
	b := []byte(`{"type":"about:blank","title":"Refused: ambiguous framing","status":400,"detail":"Nothing was sent. The request's framing can be read in two ways (Content-Length with Transfer-Encoding, a bare line feed, a repeated length, a folded header). Send one framing, with lines that end in CR LF.","reason":"ambiguous_framing","disposition":"denied","retry":"never","sent":"none"}`)
	return append([]byte("HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nConnection: close\r\nX-Should-Retry: false\r\nContent-Length: "+strconv.Itoa(len(b))+"\r\n\r\n"), b...)
}()

// errorEvent is a server-sent event that the official clients of OpenAI and Anthropic throw on.
func errorEvent(p *problem) []byte {
	b, err := json.Marshal(map[string]any{"type": "error", "error": p.Error, "stoplog": p})
	if err != nil {
		b = []byte(`{"type":"error","error":{"type":"stoplog_denied"}}`)
	}
	return append(append([]byte("event: error\ndata: "), b...), "\n\n"...)
}
