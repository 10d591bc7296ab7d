package proxy

import (
	"context"
	"sync"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// flights are the effects under way. They are counted for the drain, and those that a full stop ends are cut when the level
// rises.
type flights struct {
	mu       sync.Mutex
	all      map[*exchange]*flight
	draining bool
	idle     chan struct{} // closed when draining and nothing is under way
}

type flight struct {
	permit *admission.Permit
	cut    context.CancelCauseFunc
}

// cutError ends a stream that a level stopped.
type cutError struct{ d stoplog.Decision }

func (c *cutError) Error() string { return "cut: " + string(c.d.Reason) }

func (f *flights) enter(x *exchange) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining && !x.released {
		return false
	}
	if f.all == nil {
		f.all = map[*exchange]*flight{}
	}
	f.all[x] = nil
	return true
}

func (f *flights) leave(x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, x)
	if f.draining && len(f.all) == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// fly registers a transmission that may be cut.
func (f *flights) fly(x *exchange, p *admission.Permit, cut context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[x] = &flight{p, cut}
}

func (f *flights) land(x *exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[x] = nil
}

// Watch looks again at everything under way whenever a level changes, until ctx ends. changed is closed at the next change.
func (h *Handler) Watch(ctx context.Context, changed func() <-chan struct{}) {
	for {
		c := changed()
		h.flights.look()
		select {
		case <-c:
		case <-ctx.Done():
			return
		}
	}
}

func (f *flights) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for x, fl := range f.all {
		// A write whose bytes left is done: cutting it would only lose its answer.
		if fl == nil || x.effect.Class.Durable() {
			continue
		}
		if d := fl.permit.LastLook(); d != nil {
			fl.cut(&cutError{*d})
		}
	}
}

func (f *flights) drain(ctx context.Context) error {
	f.mu.Lock()
	f.draining = true
	if len(f.all) == 0 {
		f.mu.Unlock()
		return nil
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	f.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// InFlight is the number of requests under way.
func (h *Handler) InFlight() int {
	h.flights.mu.Lock()
	defer h.flights.mu.Unlock()
	return len(h.flights.all)
}
