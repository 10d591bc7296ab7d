package fakevendor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// stream writes server-sent events, one flush per frame, and plays the faults that concern frames.
type stream struct {
	x    *exchange
	ctl  *http.ResponseController
	sent int
}

// sse starts the answer.
func (x *exchange) sse() *stream {
	x.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	x.Header().Set("Cache-Control", "no-cache")
	x.WriteHeader(http.StatusOK)
	s := &stream{x: x, ctl: http.NewResponseController(x)}
	_ = s.ctl.Flush()
	return s
}

// send writes one frame; event may be empty, a string is sent as it is, anything else as JSON. It is false once the client
// has left.
func (s *stream) send(event string, data any) bool {
	if s.x.fault.Kind == CutMidStream && s.sent >= s.x.fault.Frames {
		panic(http.ErrAbortHandler)
	}
	if s.sent > 0 && s.x.interval > 0 {
		select {
		case <-time.After(s.x.interval):
		case <-s.x.r.Context().Done():
			return false
		}
	}
	text, ok := data.(string)
	if !ok {
		b, err := json.Marshal(data)
		if err != nil {
			panic(fmt.Sprintf("fakevendor: frame of %s: %v", s.x.v.name, err))
		}
		text = string(b)
	}
	if event != "" {
		_, _ = fmt.Fprintf(s.x, "event: %s\n", event)
	}
	_, err := fmt.Fprintf(s.x, "data: %s\n\n", text)
	s.sent++
	return err == nil && s.ctl.Flush() == nil && s.x.r.Context().Err() == nil
}
