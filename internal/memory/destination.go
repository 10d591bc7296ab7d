package memory

import (
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/breaker"
	"github.com/stoplog/stoplog/admission/limit"
)

// mostClasses bounds the breakers of one destination: a class may be a word from a request (a model's name). Classes
// beyond share one breaker.
const (
	mostClasses = 1024
	otherClass  = "*"
)

// destination is what all effects to one destination share. Its own breaker (class "") stands above those of its classes:
// people move it, and results that speak of the whole destination; while it is open nothing passes.
type destination struct {
	name    string
	own     *cell
	classes map[string]*cell

	limits limit.State
	limit  admission.Limit   // of the last claim
	config admission.Breaker // of the last claim
}

// cell is one breaker with the rate at which it closes gradually.
type cell struct {
	breaker.Cell
	class string
	ramp  *limit.State // while it closes gradually
}

func (s *Store) destination(name string, now time.Time) *destination {
	d := s.destinations[name]
	if d == nil {
		d = &destination{name: name, own: newCell("", now)}
		s.destinations[name] = d
	}
	return d
}

func newCell(class string, now time.Time) *cell { return &cell{Cell: breaker.New(now), class: class} }

func (d *destination) cell(class string, now time.Time) *cell {
	if class == "" {
		return d.own
	}
	c := d.classes[class]
	if c != nil {
		return c
	}
	if d.classes == nil {
		d.classes = make(map[string]*cell)
	}
	if len(d.classes) >= mostClasses && class != otherClass {
		return d.cell(otherClass, now)
	}
	c = newCell(class, now)
	d.classes[class] = c
	return c
}

// pass is how a claim gets through the breakers.
type pass struct {
	class    *cell
	epoch    uint64 // of class
	probe    bool   // of class
	ownEpoch uint64 // of the destination's own breaker, if that is not the class's
	ownProbe bool
}

// pass asks the breakers. Transitions that are due happen here, whether or not the claim gets further.
func (s *Store) pass(d *destination, now time.Time, c *admission.DestinationCharge) (pass, *stoplog.Error) {
	d.config = c.Breaker
	p := pass{class: d.cell(c.Class, now)}
	if d.own != p.class {
		if d.own.State != admission.BreakerClosed {
			a := s.admit(d, d.own, now)
			if !a.OK {
				return p, refuse(a.Reason, a.RetryIn)
			}
			p.ownProbe = a.Probe
		}
		p.ownEpoch = d.own.Epoch
	}
	a := s.admit(d, p.class, now)
	if !a.OK {
		return p, refuse(a.Reason, a.RetryIn)
	}
	p.epoch, p.probe = p.class.Epoch, a.Probe
	return p, nil
}

func (s *Store) admit(d *destination, c *cell, now time.Time) breaker.Answer {
	before := c.Epoch
	a := c.Admit(now, d.config)
	s.note(d, c, before, now)
	return a
}

// note remembers a move of a breaker, to be told when the lock is free.
func (s *Store) note(d *destination, c *cell, before uint64, now time.Time) {
	if c.Epoch == before {
		return
	}
	c.ramp = nil
	if s.options.OnBreaker != nil {
		s.moved = append(s.moved, d.view(c, now))
	}
}

func (d *destination) view(c *cell, now time.Time) admission.BreakerView {
	v := c.View(now, d.config)
	v.Destination, v.Class = d.name, c.class
	return v
}

// check prices the claim and asks the buckets, the shares and the seats. It takes nothing.
func (d *destination) check(now time.Time, c *admission.DestinationCharge, l *lease) *stoplog.Error {
	ask := limit.Ask{Tenant: c.Tenant, Weight: c.Weight, Requests: c.Requests, Tokens: c.Tokens, Retry: c.Retry}
	if limit.Usable(c.Limit) {
		d.limit = c.Limit
	}
	for i, b := range [...]*cell{l.pass.class, d.own} {
		if b.RampFrom.IsZero() || i > 0 && b == l.pass.class {
			continue
		}
		rate := b.Ramp(now, d.config)
		if rate <= 0 || rate >= c.Limit.Rate {
			b.RampOver()
			b.ramp = nil
			continue
		}
		if b.ramp == nil {
			b.ramp = new(limit.State)
		}
		starts := limit.Ask{Tenant: c.Tenant, Weight: c.Weight, Requests: c.Requests}
		slip, r := b.ramp.Check(now, starts, limit.Ramp(rate, c.Requests))
		if r.Reason != "" {
			return refuse(r.Reason, r.RetryIn)
		}
		l.ramps = append(l.ramps, ramping{b.ramp, slip})
	}
	slip, r := d.limits.Check(now, ask, c.Limit)
	if r.Reason != "" {
		return refuse(r.Reason, r.RetryIn)
	}
	l.slip = slip
	return nil
}

// take takes what check priced.
func (d *destination) take(now time.Time, l *lease) {
	if l.pass.probe {
		l.pass.class.Probe(now, d.config)
	}
	if l.pass.ownProbe {
		d.own.Probe(now, d.config)
	}
	for _, r := range l.ramps {
		r.state.Take(r.slip)
		r.state.Settle(now, r.slip, admission.Limit{}, limit.Use{Tokens: -1}) // it counts starts: the seat returns at once
	}
	d.limits.Take(l.slip)
}

// settle gives the destination's part of a lease back and reports to the breakers.
func (s *Store) settleDestination(now time.Time, l *lease, t admission.Settlement) {
	d := l.destination
	use := limit.Use{NotSent: t.NotSent, Tokens: t.Tokens}
	if t.Health == stoplog.HealthThrottled {
		use.Cool = t.Cool
	}
	d.limits.Settle(now, l.slip, d.limit, use)
	s.report(d, l.pass.class, now, breaker.Result{Epoch: l.pass.epoch, Health: t.Health, Trip: t.Trip})
	// The destination's own breaker counts what speaks of the whole destination, and whatever it let through as a probe.
	if l.pass.class != d.own && (t.Whole || t.Health == stoplog.HealthGood || l.pass.ownProbe) {
		s.report(d, d.own, now, breaker.Result{Epoch: l.pass.ownEpoch, Health: t.Health})
	}
}

func (s *Store) report(d *destination, c *cell, now time.Time, r breaker.Result) {
	before := c.Epoch
	c.Report(now, d.config, r)
	s.note(d, c, before, now)
}

func refuse(r stoplog.Reason, retryIn time.Duration) *stoplog.Error {
	return &stoplog.Error{Reason: r, RetryAfter: retryIn}
}
