package fakevendor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Kind is what goes wrong.
type Kind string

const (
	Status            Kind = "status"              // answer Status, Headers and Body; nothing is applied
	RateLimited       Kind = "rate_limited"        // 429 with RetryAfter, literally; nothing is applied
	Latency           Kind = "latency"             // only DelayMS
	CutBeforeEffect   Kind = "cut_before_effect"   // close the connection; nothing is applied
	CutAfterEffect    Kind = "cut_after_effect"    // apply, then close the connection without an answer
	StatusAfterEffect Kind = "status_after_effect" // apply, then answer Status (500 if 0)
	CutMidBody        Kind = "cut_mid_body"        // apply, announce 500 bytes, send 100, close
	CutMidStream      Kind = "cut_mid_stream"      // close after Frames frames
	Hang              Kind = "hang"                // never answer; nothing is applied
	HangAfterEffect   Kind = "hang_after_effect"   // apply, then never answer
	EarlyHints        Kind = "early_hints"         // 103, then the answer
	Trailers          Kind = "trailers"            // the answer, chunked, with unannounced Headers as trailers
	Gzip              Kind = "gzip"                // the answer, compressed if the client takes it
	SlowStream        Kind = "slow_stream"         // IntervalMS between frames
	Garbage           Kind = "garbage"             // 200 and an HTML text; nothing is applied
	Redirect          Kind = "redirect"            // 307 to Location; nothing is applied
	MissingUsage      Kind = "missing_usage"       // a model's answer without usage
	LongAnswer        Kind = "long_answer"         // a model's answer of Tokens tokens
)

// kinds lists the valid ones, for the control listener.
var kinds = []Kind{
	Status, RateLimited, Latency, CutBeforeEffect, CutAfterEffect, StatusAfterEffect, CutMidBody, CutMidStream, Hang,
	HangAfterEffect, EarlyHints, Trailers, Gzip, SlowStream, Garbage, Redirect, MissingUsage, LongAnswer,
}

// Fault is one scripted misbehaviour. The first one in order of addition that matches a request is played.
type Fault struct {
	Vendor string `json:"vendor"`
	Method string `json:"method,omitempty"` // empty = any
	Path   string `json:"path,omitempty"`   // exact, or a prefix that ends in "*"; empty = any
	Skip   int    `json:"skip,omitempty"`   // let so many matching requests pass first
	Times  int    `json:"times,omitempty"`  // how often; 0 = until cleared

	Kind       Kind              `json:"kind"`
	DelayMS    int               `json:"delay_ms,omitempty"` // wait before anything else; goes with every kind
	Status     int               `json:"status,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	Body       string            `json:"body,omitempty"`
	RetryAfter string            `json:"retry_after,omitempty"` // sent as it is, also when it is nonsense
	Location   string            `json:"location,omitempty"`
	Frames     int               `json:"frames,omitempty"`
	IntervalMS int               `json:"interval_ms,omitempty"`
	Tokens     int               `json:"tokens,omitempty"`
}

// AddFault scripts a fault behind those already scripted.
func (f *Fleet) AddFault(fault Fault) error {
	v, ok := f.vendors[fault.Vendor]
	if !ok {
		return fmt.Errorf("fault for %q: %w", fault.Vendor, errNoVendor)
	}
	if !slices.Contains(kinds, fault.Kind) {
		return fmt.Errorf("fault kind %q: want one of %v", fault.Kind, kinds)
	}
	if fault.Kind == Status && fault.Status == 0 {
		return errors.New("fault kind status: status is missing")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults = append(v.faults, &fault)
	return nil
}

// ClearFaults removes all scripted faults.
func (f *Fleet) ClearFaults() {
	for _, v := range f.vendors {
		v.mu.Lock()
		v.faults = nil
		v.mu.Unlock()
	}
}

func (f *Fault) matches(method, path string) bool {
	if f.Method != "" && f.Method != method {
		return false
	}
	if prefix, ok := strings.CutSuffix(f.Path, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return f.Path == "" || f.Path == path
}

// play answers x: apply runs the vendor's routes, or is not called where nothing may be applied.
func (f Fault) play(x *exchange, apply func()) {
	if f.DelayMS > 0 {
		select {
		case <-time.After(time.Duration(f.DelayMS) * time.Millisecond):
		case <-x.r.Context().Done():
			return
		}
	}
	switch f.Kind {
	case Status, RateLimited, Garbage, Redirect:
		f.refuse(x)
	case CutBeforeEffect:
		panic(http.ErrAbortHandler)
	case Hang:
		x.wait()
	case CutAfterEffect:
		x.aside(apply)
		panic(http.ErrAbortHandler)
	case HangAfterEffect:
		x.aside(apply)
		x.wait()
	case StatusAfterEffect:
		x.aside(apply)
		if f.Status == 0 {
			f.Status = http.StatusInternalServerError
		}
		f.refuse(x)
	case CutMidBody:
		b := x.aside(apply)
		maps.Copy(x.Header(), b.header)
		x.Header().Set("Content-Length", "500")
		x.WriteHeader(b.status)
		_, _ = x.Write(append(b.Bytes(), bytes.Repeat([]byte(" "), 100)...)[:100])
		_ = http.NewResponseController(x).Flush()
		panic(http.ErrAbortHandler)
	case EarlyHints:
		x.Header().Set("Link", "</style.css>; rel=preload")
		x.WriteHeader(http.StatusEarlyHints)
		x.Header().Del("Link")
		apply()
	case Trailers:
		f.trail(x, apply)
	case Gzip:
		x.gzipped(apply)
	case SlowStream:
		x.interval = time.Duration(f.IntervalMS) * time.Millisecond
		apply()
	default: // no fault, or one that the vendor itself plays
		apply()
	}
}

// wait ends with the client or the fleet, and not with an answer.
func (x *exchange) wait() {
	<-x.r.Context().Done()
	panic(http.ErrAbortHandler)
}

// refuse answers without the vendor.
func (f Fault) refuse(x *exchange) {
	status, body := f.Status, f.Body
	switch f.Kind {
	case RateLimited:
		status = http.StatusTooManyRequests
		x.Header().Set("Retry-After", f.RetryAfter)
		if x.v.name == "slack" && body == "" {
			body = `{"ok":false,"error":"ratelimited"}`
		}
	case Garbage:
		status = http.StatusOK
		x.Header().Set("Content-Type", "text/html; charset=utf-8")
		if body == "" {
			body = "<html><body>upstream connect error</body></html>"
		}
	case Redirect:
		status = http.StatusTemporaryRedirect
		x.Header().Set("Location", f.Location)
	default: // as scripted
	}
	if body == "" && f.Kind != Redirect {
		body = fmt.Sprintf(`{"error":{"type":"scripted","message":"scripted %d"}}`, status)
	}
	if x.Header().Get("Content-Type") == "" {
		x.Header().Set("Content-Type", "application/json")
	}
	for k, v := range f.Headers {
		x.Header().Set(k, v)
	}
	x.WriteHeader(status)
	_, _ = io.WriteString(x, body)
}

// trail sends the vendor's answer in chunks, with trailers that no header announced.
func (f Fault) trail(x *exchange, apply func()) {
	b := x.aside(apply)
	maps.Copy(x.Header(), b.header)
	x.Header().Del("Content-Length")
	x.WriteHeader(b.status)
	_, _ = x.Write(b.Bytes())
	_ = http.NewResponseController(x).Flush() // without a length from here on
	for k, v := range f.Headers {
		x.Header().Set(http.TrailerPrefix+k, v)
	}
}

// aside runs the vendor and keeps its answer from the client.
func (x *exchange) aside(apply func()) *answer {
	b := &answer{header: http.Header{}, status: http.StatusOK}
	w := x.ResponseWriter
	x.ResponseWriter = b
	apply()
	x.ResponseWriter = w
	return b
}

// answer is a response in memory.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
}

func (a *answer) Header() http.Header    { return a.header }
func (a *answer) WriteHeader(status int) { a.status = status }
func (a *answer) Flush()                 {}
