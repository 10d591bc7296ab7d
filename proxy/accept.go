package proxy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/proxy/connector"
)

// accept finds the destination and reads the whole request. What has more than one reading is refused, never repaired.
func (x *exchange) accept(r *http.Request) error {
	x.method = r.Method
	x.prefer = parsePrefer(r.Header)
	x.retryCount = r.Header.Get("X-Stainless-Retry-Count")
	if x.rt == nil {
		return stoplog.Refuse(stoplog.ReasonConfigNotReady, "no configuration is loaded yet")
	}
	t, err := parseTarget(r.RequestURI)
	if err != nil {
		return err
	}
	if !localHost(r.Host, x.l.Address) {
		return stoplog.Refuse(stoplog.ReasonAmbiguousHost, "the Host header names neither this machine nor this listener")
	}
	name := x.l.Destination
	x.path = t.path
	if name == "" {
		name, x.path, _ = strings.Cut(t.path[1:], "/")
		x.path = "/" + x.path
	}
	x.dst = x.rt.Destinations[name]
	if x.dst == nil {
		x.unknown = map[string]string{"destination": plainName(name), "method": r.Method, "path": learnPath(x.path)}
		return stoplog.Refuse(stoplog.ReasonUnknownDestination, "no destination of this name is configured; add under `destinations:` a `- name: "+
			x.unknown["destination"]+"` with its url (`stoplog learn` prints all lines)")
	}
	x.deadline = x.received.Add(x.dst.Total)
	if r.Header.Get("Upgrade") != "" || headerHas(r.Header, "Connection", "upgrade") {
		return stoplog.Refuse(stoplog.ReasonUnsupportedUpgrade, "protocol upgrades (WebSocket, h2c) are not open for this destination")
	}
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		return stoplog.Refuse(stoplog.ReasonUnknownDestination, "the method "+r.Method+" is not forwarded")
	}
	body, err := x.readBody(r)
	if err != nil {
		return err
	}
	x.chunked = r.ContentLength < 0 && len(r.TransferEncoding) > 0
	target := x.dst.BasePath + x.path
	if t.mark {
		target += "?" + t.query
	}
	x.exact = &stoplog.Exact{Method: r.Method, Host: x.dst.Host, Target: target, Body: body}
	if err := x.takeHeaders(r.Header); err != nil {
		return err
	}
	return x.classifyRequest(&connector.Request{Method: r.Method, Path: x.path, RawQuery: t.query, Header: r.Header, Body: body}, r.Header)
}

// classifyRequest reads the effect; the headers of Stoplog's own may only tighten it.
func (x *exchange) classifyRequest(cr *connector.Request, h http.Header) error {
	rd, err := x.dst.Profile.Classify(cr)
	if err != nil {
		return err
	}
	x.reading = rd
	x.effect = &rd.Effect
	if rd.Effect.Unnamed && encodedSeparator(x.path) {
		return stoplog.Refuse(stoplog.ReasonAmbiguousPath, "the path hides a slash as %2F and no operation of the profile expects one there")
	}
	return x.tighten(h)
}

// hopByHop headers are this connection's business (RFC 9110 7.6.1); they are not forwarded. A client cannot add to the list:
// headers that Connection names are dropped only if they are not ours (golang/go#50580).
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Content-Length": true, "Host": true, "Expect": true,
	"Proxy-Authorization": true, "Proxy-Authenticate": true, "Forwarded": true, "X-Forwarded-For": true,
	"X-Forwarded-Host": true, "X-Forwarded-Proto": true, "Baggage": true, "Tracestate": true, "Traceparent": true,
}

// credential headers travel apart from the exact request: they are not part of what is digested, held or recorded.
var credentialHeaders = map[string]bool{
	"Authorization": true, "Cookie": true, "X-Api-Key": true, "Api-Key": true, "X-Goog-Api-Key": true,
	"X-Auth-Token": true, "X-Amz-Security-Token": true, "Private-Token": true, "X-Vault-Token": true,
	"X-Slack-Signature": true, "Stripe-Signature": true,
}

func (x *exchange) takeHeaders(h http.Header) error {
	names := make([]string, 0, len(h))
	for n := range h {
		names = append(names, n)
	}
	sort.Strings(names)
	fields := make([]stoplog.Field, 0, len(names))
	for _, n := range names {
		if hopByHop[n] || strings.HasPrefix(n, "Stoplog-") || x.droppedByConnection(h, n) {
			continue
		}
		for _, v := range h[n] {
			f := stoplog.Field{Name: n, Value: v}
			switch {
			case n == "Prefer":
				if f.Value = othersPreferences(v); f.Value != "" {
					fields = append(fields, f)
				}
			case credentialHeaders[n]:
				x.creds = append(x.creds, f)
			case n == "Accept-Encoding":
				// Only codings that the answer can be read in; anything else would make the outcome invisible.
				if takesGzip(v) {
					fields = append(fields, stoplog.Field{Name: n, Value: "gzip"})
				} else {
					fields = append(fields, stoplog.Field{Name: n, Value: "identity"})
				}
			default:
				fields = append(fields, f)
			}
		}
	}
	x.exact.Header = fields
	return nil
}

// takesGzip reports whether an Accept-Encoding value accepts gzip (RFC 9110 12.5.3).
func takesGzip(v string) bool {
	for t := range strings.SplitSeq(v, ",") {
		coding, params, _ := strings.Cut(strings.TrimSpace(t), ";")
		if c := strings.ToLower(strings.TrimSpace(coding)); c != "gzip" && c != "x-gzip" {
			continue
		}
		q, isQ := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(params), " ", ""), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !isQ || err == nil && weight > 0
	}
	return false
}

// othersPreferences is a Prefer value without what is meant for Stoplog; the rest is the destination's business.
func othersPreferences(v string) string {
	var keep []string
	for t := range strings.SplitSeq(v, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(t), "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async", "wait", "":
		default:
			keep = append(keep, strings.TrimSpace(t))
		}
	}
	return strings.Join(keep, ", ")
}

// droppedByConnection: headers that the client declared hop-by-hop, except those that carry meaning for the effect.
func (x *exchange) droppedByConnection(h http.Header, name string) bool {
	if strings.EqualFold(name, "Content-Type") || strings.EqualFold(name, "Idempotency-Key") || credentialHeaders[name] {
		return false
	}
	return headerHas(h, "Connection", name)
}

func headerHas(h http.Header, name, token string) bool {
	for _, v := range h[name] {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

var bodyPool = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readBody reads the body within the effect's deadline: a body that trickles in holds nothing for ever.
func (x *exchange) readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength == 0 {
		return nil, nil
	}
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(x.deadline) // no connection below: nothing to bound
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	return readAll(r, x.dst.MaxRequestBytes)
}

// readAll reads the whole body, at most limit bytes. A declared length over the limit is refused before a byte is read.
func readAll(r *http.Request, limit int64) ([]byte, error) {
	tooLarge := stoplog.Refuse(stoplog.ReasonBodyTooLarge, "the body is larger than the "+strconv.FormatInt(limit, 10)+" bytes that can be inspected for this destination (max_request_bytes)")
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	var b []byte
	var err error
	if r.ContentLength > 0 {
		b = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, b)
	} else {
		buf := bodyPool.Get().(*bytes.Buffer)
		buf.Reset()
		_, err = buf.ReadFrom(io.LimitReader(r.Body, limit+1))
		b = bytes.Clone(buf.Bytes())
		bodyPool.Put(buf)
		if err == nil && int64(len(b)) > limit {
			return nil, tooLarge
		}
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, stoplog.Refuse(stoplog.ReasonDeadlineExceeded, "the body did not arrive within the destination's deadline")
	case errors.Is(err, errFraming):
		return nil, stoplog.Refuse(stoplog.ReasonAmbiguousFraming, "the body's framing can be read in two ways")
	case err != nil:
		// An unread or cut body is not an empty one.
		return nil, &stoplog.Error{Reason: stoplog.ReasonMalformedBody, Detail: "the body ended early or its framing is broken", Err: err}
	}
	if len(r.Trailer) > 0 {
		return nil, stoplog.Refuse(stoplog.ReasonAmbiguousFraming, "request trailers are not forwarded")
	}
	return b, nil
}

// digest covers everything that the destination can distinguish, except credentials.
func digest(x *stoplog.Exact, effectHeaders []string) [32]byte {
	h := sha256.New()
	for _, s := range [...]string{x.Method, x.Host, x.Target} {
		_, _ = io.WriteString(h, s)
		_, _ = h.Write([]byte{0})
	}
	for _, f := range x.Header {
		if effectHeader(f.Name, effectHeaders) {
			_, _ = io.WriteString(h, strings.ToLower(f.Name))
			_, _ = h.Write([]byte{0})
			_, _ = io.WriteString(h, f.Value)
			_, _ = h.Write([]byte{0})
		}
	}
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(x.Body)
	var d [32]byte
	h.Sum(d[:0])
	return d
}

func effectHeader(name string, more []string) bool {
	if strings.EqualFold(name, "Content-Type") || strings.EqualFold(name, "Content-Encoding") {
		return true
	}
	for _, m := range more {
		if strings.EqualFold(name, m) {
			return true
		}
	}
	return false
}

// listenFor bounds listening streams, so that an abandoned one ends some day.
const listenFor = 24 * time.Hour

// classify completes the effect and gives it its operation and intent.
func (x *exchange) classify() error {
	e := x.effect
	e.Destination, e.Actor, e.Function = x.dst.Name, x.l.Actor, x.l.Function
	if e.Class.Durable() || x.retryCount != "" { // a hash of the whole body: only where something is known by it
		e.Digest = digest(x.exact, x.dst.Profile.EffectHeaders())
	}
	if e.Class == stoplog.ClassUnspecified || e.Unnamed && x.dst.DenyUnnamed {
		x.unknown = map[string]string{"destination": x.dst.Name, "method": x.method, "path": learnPath(x.path), "media": x.media()}
		return stoplog.Refuse(stoplog.ReasonUnclassified, fmt.Sprintf("the profile %s names no such operation and the destination admits only named ones; add under its `operations:` "+
			"`- {action: NAME, methods: [%s], path: %q, class: WRITE}` with the right class (`stoplog learn` prints all lines)", e.Connector, x.method, x.unknown["path"]))
	}
	x.operation = stoplog.OperationID(x.h.o.NewID("op"))
	if e.Class.Durable() {
		key := string(e.Operation)
		x.keyed = key != ""
		if !x.keyed {
			key = "content:" + string(e.Digest[:])
			if x.reading.Key != "" {
				key = "semantic:" + x.reading.Key // equal but for transient fields
			}
		}
		x.cas.Key = x.h.o.Key(e.Actor.Tenant, x.dst.Name, e.Actor.Agent, key)
	}
	if e.Intent == "" {
		e.Intent = x.h.intents.of(x)
	}
	if x.reading.Listen { // a stream that stays open and idle has no deadline
		x.deadline = x.received.Add(listenFor)
	}
	x.cas.Effect, x.cas.Operation, x.cas.Received, x.cas.Released = e, x.operation, x.received, x.released
	x.cas.BreakerClass = x.reading.BreakerClass()
	return nil
}

// learnPath is a path without what may identify or be secret: segments that look like words stay, others become {id}.
func learnPath(p string) string {
	segs := strings.Split(p, "/")
	for i, s := range segs {
		if s != "" && plainName(s) != s {
			segs[i] = "{id}"
		}
	}
	if len(segs) > 12 {
		segs = append(segs[:12], "{rest}")
	}
	return strings.Join(segs, "/")
}

// plainName is s if it is a short word of letters, dots, dashes and at most three digits ("v1", "chat.postMessage"); anything
// else may be an id or a secret.
func plainName(s string) string {
	digits := 0
	for _, c := range s {
		switch {
		case c >= '0' && c <= '9':
			if digits++; digits > 3 {
				return "{id}"
			}
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '.', c == '-', c == '_':
		default:
			return "{id}"
		}
	}
	if len(s) > 40 {
		return "{id}"
	}
	return s
}

// preference is what the client asked of the answer (RFC 7240).
type preference struct {
	respondAsync bool
	wait         time.Duration
}

func parsePrefer(h http.Header) (p preference) {
	for _, v := range h["Prefer"] {
		for t := range strings.SplitSeq(v, ",") {
			k, val, _ := strings.Cut(strings.TrimSpace(t), "=")
			switch strings.ToLower(strings.TrimSpace(k)) {
			case "respond-async":
				p.respondAsync = true
			case "wait":
				if n, err := strconv.Atoi(strings.TrimSpace(val)); err == nil && n > 0 {
					p.wait = min(time.Duration(n)*time.Second, time.Minute)
				}
			}
		}
	}
	return p
}
