package fakevendor

import (
	"net/http"
	"time"
)

// Request is one request as it arrived on the wire, whether or not anything came of it.
type Request struct {
	ID            int64       `json:"id"` // counts up per vendor from 1
	Time          time.Time   `json:"time"`
	Proto         string      `json:"proto"`
	Method        string      `json:"method"`
	Target        string      `json:"target"` // request line as sent: path and query, nothing decoded
	Host          string      `json:"host"`
	Header        http.Header `json:"header"`
	ContentLength int64       `json:"content_length"` // -1 = chunked
	Body          []byte      `json:"body"`           // exact bytes; base64 in JSON
	Remote        string      `json:"remote"`         // one value per connection
	Fault         string      `json:"fault,omitempty"`
	Gone          bool        `json:"gone,omitempty"` // the client left before the answer was complete
}

// Effect is one thing that the vendor really did.
type Effect struct {
	Vendor  string      `json:"vendor"`
	Action  string      `json:"action"` // vendor's own word, for example "chat.postMessage"
	ID      string      `json:"id"`     // id that the vendor gave to the result
	Request int64       `json:"request"`
	Time    time.Time   `json:"time"`
	Method  string      `json:"method"`
	Target  string      `json:"target"`
	Header  http.Header `json:"header"`
	Body    []byte      `json:"body"` // exact bytes; base64 in JSON
}

// Requests lists what reached the vendor, oldest first. It is empty for a vendor that the fleet does not run.
func (f *Fleet) Requests(vendor string) []Request {
	v, ok := f.vendors[vendor]
	if !ok {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]Request, len(v.requests))
	for i, r := range v.requests {
		out[i] = *r
	}
	return out
}

// Effects lists what the vendor did, oldest first. It is empty for a vendor that the fleet does not run.
func (f *Fleet) Effects(vendor string) []Effect {
	v, ok := f.vendors[vendor]
	if !ok {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]Effect(nil), v.effects...)
}

// last keeps at least the n newest items; it copies once in n calls.
func last[T any](s []T, n int) []T {
	if len(s) < 2*n {
		return s
	}
	return append(s[:0:0], s[len(s)-n:]...)
}
