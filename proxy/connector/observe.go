package connector

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
)

// End says how an answer ended.
type End struct {
	Trailer   http.Header
	Complete  bool // the framing ended as announced
	Abandoned bool // the client left, and the rest was not read
}

// Result is what is known about an attempt.
type Result struct {
	Outcome    stoplog.Outcome
	Health     stoplog.Health
	ProviderID string // the vendor's own id of what was done
	// Cool is the longest wait that the answer asks for; 0 = none asked. At most 24 h, to be cut by the deadline.
	Cool time.Duration
	// RetryAfter is the part of Cool that stood in Retry-After.
	RetryAfter time.Duration
	Usage      stoplog.Usage
	// Model is the model's name in the answer of a model call.
	Model string
	// Class is where the result belongs besides the destination's breaker: Reading.BreakerClass, or "" when a failure
	// speaks of the whole destination (nothing connected, a gateway's 502 to 504, a cut answer).
	Class string
	// Final says that trying again cannot help, although the outcome would allow it.
	Final bool
	Flags []string // sorted, unique
}

// Has reports whether the result has a flag.
func (r *Result) Has(flag string) bool { return slices.Contains(r.Flags, flag) }

// Observer reads an answer while it passes. It is not safe for concurrent use. End must be called exactly once.
type Observer struct {
	rd     *Reading
	status int
	header http.Header
	media  string
	coding string

	inflater *inflater
	into     func([]byte) // where decoded bytes go; nil = nothing reads them
	finish   func()
	received int64 // bytes as transferred

	doc    []byte
	partly bool // doc is only the beginning
	keeps  bool
	meter  *meter
	answer []byte // JSON-RPC answer found in an event stream
	lost   bool   // something that was needed could not be read
}

// Observe begins to read the final answer of an attempt. Interim answers (1xx) are no results and must not come here.
func (rd *Reading) Observe(status int, h http.Header) *Observer {
	o := &Observer{rd: rd, status: status, header: h, media: answerMedia(h), coding: answerCoding(h)}
	if rd.op.model != nil && status/100 == 2 {
		o.meter = &meter{format: rd.op.model.usage}
	}
	o.route()
	if o.into != nil && o.coding != "" {
		if o.coding != "gzip" && o.coding != "deflate" {
			o.into, o.lost = nil, true
		} else {
			o.inflater = &inflater{coding: o.coding, to: o.into}
		}
	}
	return o
}

// route says where the answer's bytes go.
func (o *Observer) route() {
	switch {
	case o.media == "text/event-stream" && (o.meter != nil || o.expectsRPC()):
		r := &eventReader{emit: o.event, skip: o.skipped}
		o.into, o.finish = r.write, r.end
		if o.meter != nil {
			o.meter.stream = true
		}
	case o.media == "text/event-stream":
		o.lost = o.rd.needsDocument(o.status)
	case o.meter != nil && o.meter.format == UsageGemini && o.rd.Effect.Model.Stream:
		r := &elementReader{emit: o.event, skip: o.skipped}
		o.into, o.finish = r.write, r.end
		o.meter.stream = true
	case o.meter != nil || o.expectsRPC() || o.rd.needsDocument(o.status):
		o.into, o.finish, o.keeps = o.keep, func() {}, true
	}
}

// expectsRPC reports whether the answer must hold a JSON-RPC answer.
func (o *Observer) expectsRPC() bool {
	return o.rd.profile.answerForm == AnswerRPC && o.rd.RPC != nil && !o.rd.RPC.Notification() && o.status/100 == 2
}

// needsDocument reports whether any rule or id that may apply to the status stands in the body.
func (rd *Reading) needsDocument(status int) bool {
	body := func(s source) bool { return s.readsBody() }
	// What a read returned needs no id: nothing was done.
	if rd.Effect.Class != stoplog.ClassRead && (slices.ContainsFunc(rd.op.providerIDs, body) || slices.ContainsFunc(rd.profile.providerIDs, body)) {
		return true
	}
	if status >= 400 && slices.ContainsFunc(rd.profile.cool, body) {
		return true
	}
	needs := func(r answerRule) bool { return r.readsBody && r.takesStatus(status) }
	return slices.ContainsFunc(rd.op.answers, needs) || slices.ContainsFunc(rd.profile.answers, needs)
}

// Write takes the next bytes of the body as they were transferred. It keeps at most 1 MiB and never fails.
func (o *Observer) Write(b []byte) {
	o.received += int64(len(b))
	switch {
	case o.inflater != nil:
		o.inflater.write(b)
	case o.into != nil:
		o.into(b)
	}
}

func (o *Observer) keep(b []byte) {
	if room := maxFrame - len(o.doc); len(b) > room {
		o.partly = true
		if o.meter != nil {
			o.meter.delivered.ascii += int64(len(b) - room)
		}
		b = b[:room]
	}
	o.doc = append(o.doc, b...)
}

func (o *Observer) event(data []byte) {
	if o.meter != nil {
		o.meter.event(data)
		return
	}
	if o.answer != nil {
		return
	}
	r := parsePrefix(data)
	defer r.release()
	if r.doc.find("method") == nil && o.answers(&r.doc) {
		o.answer = slices.Clone(data)
	}
}

// answers reports whether d is the JSON-RPC answer to the request.
func (o *Observer) answers(d *document) bool {
	id := d.find("id")
	return id != nil && string(d.raw[id.start:id.end]) == o.rd.RPC.ID && (d.find("result") != nil || d.find("error") != nil)
}

func (o *Observer) skipped(n int) {
	o.lost = true
	if o.meter != nil {
		o.meter.skipped(n)
	}
}

// End closes the reading and says what is known.
func (o *Observer) End(e End) Result {
	if o.inflater != nil {
		o.inflater.end()
		if !o.inflater.whole && o.received > 0 {
			o.partly = true
			o.lost = o.lost || e.Complete
		}
	}
	if o.finish != nil && o.into != nil {
		o.finish()
	}
	if !e.Complete {
		o.partly = true
	}
	in := input{header: o.header, partly: o.partly || o.lost}
	body := o.doc
	if o.answer != nil {
		body = o.answer
	}
	r := parsePrefix(body)
	defer r.release()
	in.doc = &r.doc
	if o.meter != nil && o.keeps {
		o.meter.document(&r.doc)
	}
	v, flags := o.judge(&in, e)
	res := Result{Outcome: v.outcome, Health: v.health, Final: v.final, Class: o.rd.BreakerClass()}
	res.ProviderID = o.providerID(&in)
	o.waits(&in, &res)
	res.Usage = o.usage(v, e)
	if o.meter != nil {
		res.Model = o.meter.model
	}
	if v.health == stoplog.HealthBad && (o.status == http.StatusBadGateway || o.status == http.StatusServiceUnavailable ||
		o.status == http.StatusGatewayTimeout || slices.Contains(flags, FlagTruncated)) {
		res.Class = ""
	}
	slices.Sort(flags)
	res.Flags = slices.Compact(flags)
	return res
}

// judge decides in the order of what is certain: a gRPC status, how the transfer ended, the rules, the status.
func (o *Observer) judge(in *input, e End) (verdict, []string) {
	code := grpcStatus(o.header, e.Trailer)
	if code != "" {
		v := byGRPC(code)
		return v, flagsOf(v)
	}
	if !e.Complete && !e.Abandoned && !o.rd.Listen && o.answer == nil { // a JSON-RPC answer that came whole stands
		return verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthBad}, []string{FlagTruncated}
	}
	var v verdict
	if strings.HasPrefix(o.media, "application/grpc") && !e.Abandoned {
		v = verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthBad, flag: "grpc_status_absent"}
	} else {
		v = o.byRules(in)
	}
	flags := flagsOf(v)
	if o.meter != nil && v.outcome == stoplog.OutcomeConfirmed {
		v, flags = o.streamed(v, flags, e)
	}
	if e.Abandoned {
		v.health = stoplog.HealthNeutral
		flags = append(flags, FlagAbandoned)
	}
	return v, flags
}

func flagsOf(v verdict) []string {
	if v.flag == "" {
		return nil
	}
	return []string{v.flag}
}

// byRules applies the operation's rules, the profile's, and the built-in ones. Where a rule could not be tested because the
// body was not read, a definite outcome that it would have changed is not believed.
func (o *Observer) byRules(in *input) verdict {
	rpc := o.expectsRPC()
	var doubt []verdict
	for _, rules := range [...][]answerRule{o.rd.op.answers, o.rd.profile.answers} {
		for i := range rules {
			r := &rules[i]
			if !r.takesStatus(o.status) {
				continue
			}
			if r.holds(in) {
				return sure(r.verdict, doubt)
			}
			if r.readsBody && in.partly {
				doubt = append(doubt, r.verdict)
			}
		}
	}
	if !rpc {
		return sure(byStatus(o.status, o.rd.Effect.Class), doubt)
	}
	if o.answers(in.doc) || rpcError(in.doc) {
		return byRPC(in.doc)
	}
	return verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthBad, flag: FlagNoAnswer}
}

// rpcError reports an error without an id: the server could not even read the request's.
func rpcError(d *document) bool {
	id := d.find("id")
	return (id == nil || id.kind == 'n') && d.find("error") != nil
}

func sure(v verdict, doubt []verdict) verdict {
	for _, d := range doubt {
		if d.outcome != v.outcome {
			return verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthNeutral, flag: FlagUnread}
		}
	}
	return v
}

// streamed looks into a model's stream: a 200 says only that it began.
func (o *Observer) streamed(v verdict, flags []string, e End) (verdict, []string) {
	bad := verdict{outcome: stoplog.OutcomeUnknown, health: stoplog.HealthBad}
	switch m := o.meter; {
	case m.failed:
		return bad, append(flags, FlagStreamError)
	case m.stream && !m.ended && e.Complete && !o.lost && m.format != UsageNone:
		return bad, append(flags, FlagUnterminated)
	case o.lost:
		return v, append(flags, FlagUnread)
	}
	return v, flags
}

func grpcStatus(headers ...http.Header) string {
	code := ""
	for _, h := range headers {
		if v := h.Get("Grpc-Status"); v != "" {
			code = v
		}
	}
	return code
}

func (o *Observer) providerID(in *input) string {
	for _, list := range [...][]source{o.rd.op.providerIDs, o.rd.profile.providerIDs} {
		for i := range list {
			v, err := list[i].first(in)
			if err == nil && v != "" {
				return clip(v, 128)
			}
		}
	}
	return ""
}

// usage is what the call consumed. A refused call consumed nothing; a failed one is charged for what it was asked to read.
func (o *Observer) usage(v verdict, e End) stoplog.Usage {
	if o.rd.op.model == nil {
		return stoplog.Usage{}
	}
	asked := o.rd.Effect.Model.InputTokens
	if o.meter == nil {
		if v.outcome == stoplog.OutcomeRejected && v.health != stoplog.HealthBad {
			return stoplog.Usage{Known: true}
		}
		return stoplog.Usage{Known: true, Input: asked, Estimated: true}
	}
	if o.meter.frames == 0 {
		u := stoplog.Usage{Known: true, Input: asked, Estimated: true}
		if o.lost {
			u.Output = o.received // compressed text has about one token a byte
		} else if o.received > 0 && o.meter.format != UsageEmbeddings {
			u.Output = 1 + o.received/mediaBytesPerToken // sound, or whatever else is no JSON
		}
		return u
	}
	return o.meter.usage(asked, e.Complete && !o.partly)
}
