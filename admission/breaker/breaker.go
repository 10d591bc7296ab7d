// Package breaker is the state machine of one destination's breaker, as pure maths: every method takes the time, nothing
// sleeps, nothing is locked, and whoever keeps a Cell (a map in one process, a hash in Redis) brings its own atomicity.
//
//	          failures in a row, failure rate, or a trip signal
//	┌────────┐ ───────────────────────────────────────────────▶ ┌──────┐
//	│ closed │                                                  │ open │ ◀─┐
//	└────────┘ ◀──┐                                             └──────┘   │ a bad probe, or any trip signal:
//	 (with ramp)  │ enough good probes                             │       │ the cooldown doubles
//	              │                                                ▼       │
//	              │  cooldown over and cause signal decayed  ┌───────────┐ │
//	              └───────────────────────────────────────── │ half-open │─┘
//	                                                         └───────────┘ one probe per ProbeSpacing
//
// Transitions are lazy: an open breaker becomes half-open when somebody asks. Each transition starts an epoch, and a
// result that carries another epoch is ignored, so that answers to calls from before a trip can neither open nor close what
// came after. A half-open breaker hands out time slots and counts no outstanding probes: a probe that never reports wedges
// nothing.
//
// This is the profile of a destination. It never closes without a good probe and needs no human. The profile of a
// function (a human's acknowledgement, a clean window) differs only in what Cell.closes and Cell.halfOpensAt ask.
package breaker

import (
	"fmt"
	"math"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

const (
	// rampStart is the cap of a gradual close at its first instant, in requests per second: the rate that probing proved.
	rampStart = 20.0
	// rampEnd is where a ramp has no meaning any more, whatever the destination's rate.
	rampEnd = 1e6
	// longHalfOpen closes a half-open breaker that too little traffic keeps from CloseAfter, if any probe was good.
	longHalfOpen = 48 * time.Hour
	// leastRetry is the shortest wait told to a refused caller of an open breaker.
	leastRetry = 250 * time.Millisecond
	// certain is the cause signal of a trip that needs no statistics (basis points).
	certain = 10_000.0
	// byHand is the cooldown of a breaker that a person opened: only a person half-opens it.
	byHand time.Duration = -1
)

// Defaults stand in for the zero fields of an admission.Breaker, except RampDouble, whose zero means no ramp.
var Defaults = admission.Breaker{
	Window:       10 * time.Second,
	MinRequests:  20,
	FailureBPS:   5_000,
	Consecutive:  12,
	Cooldown:     30 * time.Second,
	MaxCooldown:  10 * time.Minute,
	ProbeSpacing: 52_632 * time.Microsecond,
	CloseAfter:   20,
}

// Cell is the stored state of one breaker. The zero Cell is not valid: use New.
type Cell struct {
	State     admission.BreakerState
	Epoch     uint64
	Since     time.Time     // last transition
	Cooldown  time.Duration // of the present open period; negative = only a person half-opens
	Trips     int           // in a row, without a close between them
	Cause     float64       // cause signal at the last trip: failure rate in basis points
	Good      int64         // good probes of this half-open period
	NextProbe time.Time     // earliest next probe
	RampFrom  time.Time     // start of a gradual close; zero = none
	Row       int64         // failures in a row while closed

	seen window
}

// New is a closed breaker.
func New(now time.Time) Cell { return Cell{Epoch: 1, Since: now} }

// Answer says whether one attempt may pass.
type Answer struct {
	OK      bool
	Probe   bool           // passes as a probe: call Probe when the rest of the claim holds too
	Reason  stoplog.Reason // when refused: breaker_open or probe_slot_used
	RetryIn time.Duration  // when refused; 0 = waiting does not help (a person opened it)
}

// Admit makes the transitions that are due and says whether one attempt may pass. It takes nothing: a caller whose claim
// fails elsewhere leaves the probe slot to the next one.
func (c *Cell) Admit(now time.Time, cfg admission.Breaker) Answer {
	if c.State == admission.BreakerClosed {
		return Answer{OK: true}
	}
	cfg = Complete(cfg)
	if c.State == admission.BreakerOpen {
		at, ever := c.halfOpensAt(cfg)
		if !ever {
			return Answer{Reason: stoplog.ReasonBreakerOpen}
		}
		if now.Before(at) {
			return Answer{Reason: stoplog.ReasonBreakerOpen, RetryIn: max(at.Sub(now), leastRetry)}
		}
		c.halfOpen(now)
	}
	if now.Sub(c.Since) >= longHalfOpen && c.Good >= 1 {
		c.close(now, cfg)
		return Answer{OK: true}
	}
	if now.Before(c.NextProbe) {
		return Answer{Reason: stoplog.ReasonProbeSlotUsed, RetryIn: c.NextProbe.Sub(now)}
	}
	return Answer{OK: true, Probe: true}
}

// Probe takes the slot that Admit offered.
func (c *Cell) Probe(now time.Time, cfg admission.Breaker) {
	c.NextProbe = now.Add(Complete(cfg).ProbeSpacing)
}

// Result is the end of one attempt.
type Result struct {
	Epoch  uint64         // of the breaker when the attempt was admitted
	Health stoplog.Health // only good and bad count: a throttled or neutral answer says nothing about the destination
	Trip   bool           // explicit signal to open; counts in any epoch
}

// Report counts a result. A result of another epoch is ignored, an explicit trip is not.
func (c *Cell) Report(now time.Time, cfg admission.Breaker, r Result) {
	cfg = Complete(cfg)
	switch {
	case r.Trip:
		if c.State != admission.BreakerOpen {
			c.open(now, cfg, certain)
		}
	case r.Epoch != c.Epoch, r.Health != stoplog.HealthGood && r.Health != stoplog.HealthBad:
	case c.State == admission.BreakerHalfOpen && r.Health == stoplog.HealthBad:
		c.open(now, cfg, certain)
	case c.State == admission.BreakerHalfOpen:
		c.Good++
		if c.closes(cfg) {
			c.close(now, cfg)
		}
	case c.State == admission.BreakerClosed:
		c.count(now, cfg, r.Health == stoplog.HealthBad)
	}
}

func (c *Cell) count(now time.Time, cfg admission.Breaker, bad bool) {
	c.seen.add(now.Sub(c.Since), cfg.Window, bad)
	if !bad {
		c.Row = 0
		return
	}
	c.Row++
	good, fails := c.seen.sum(now.Sub(c.Since))
	total := good + fails
	rate := float64(fails) * 10_000 / float64(max(total, 1))
	if c.Row >= cfg.Consecutive || total >= cfg.MinRequests && rate >= float64(cfg.FailureBPS) {
		c.open(now, cfg, rate)
	}
}

// Force moves the breaker by hand. Open stays open until a person half-opens it; half-open starts probing at once.
// Closing by hand is an error: only probes close a breaker.
func (c *Cell) Force(now time.Time, to admission.BreakerState) error {
	switch to {
	case admission.BreakerOpen:
		c.move(now, admission.BreakerOpen)
		c.Cooldown, c.Cause = byHand, 0
	case admission.BreakerHalfOpen:
		c.halfOpen(now)
	default:
		return fmt.Errorf("force breaker %s: want open or half_open; only good probes close a breaker", to)
	}
	return nil
}

// Ramp is the cap of a gradual close in requests per second; 0 = none.
func (c *Cell) Ramp(now time.Time, cfg admission.Breaker) float64 {
	if c.State != admission.BreakerClosed || c.RampFrom.IsZero() || cfg.RampDouble <= 0 {
		return 0
	}
	r := rampStart * math.Exp2(float64(now.Sub(c.RampFrom))/float64(cfg.RampDouble))
	if r >= rampEnd {
		return 0
	}
	return r
}

// RampOver ends a gradual close: the cap has reached the destination's own rate.
func (c *Cell) RampOver() { c.RampFrom = time.Time{} }

// View is the breaker as an operator sees it, without its names.
func (c *Cell) View(now time.Time, cfg admission.Breaker) admission.BreakerView {
	cfg = Complete(cfg)
	v := admission.BreakerView{
		State: c.State, Epoch: c.Epoch, Since: c.Since, Trips: c.Trips, ProbesGood: c.Good, Ramp: c.Ramp(now, cfg),
	}
	if at, ever := c.halfOpensAt(cfg); ever && c.State == admission.BreakerOpen {
		v.RetryAt = at
	}
	if c.State == admission.BreakerClosed {
		v.Successes, v.Fails = c.seen.sum(now.Sub(c.Since))
	}
	return v
}

// halfOpensAt is the first instant at which the cooldown is over and the cause signal below its threshold. While a breaker
// is open nothing is observed, so the signal decays by halves; the half-life is short enough that a certain failure
// against the default threshold is forgotten within one cooldown, and a low threshold waits longer.
func (c *Cell) halfOpensAt(cfg admission.Breaker) (time.Time, bool) {
	if c.Cooldown < 0 {
		return time.Time{}, false
	}
	wait := c.Cooldown
	if th := float64(cfg.FailureBPS); c.Cause > th {
		half := float64(min(cfg.Window, cfg.Cooldown/2))
		wait = max(wait, time.Duration(half*math.Log2(c.Cause/th)))
	}
	return c.Since.Add(wait), true
}

func (c *Cell) closes(cfg admission.Breaker) bool { return c.Good >= cfg.CloseAfter }

func (c *Cell) open(now time.Time, cfg admission.Breaker, cause float64) {
	c.move(now, admission.BreakerOpen)
	c.Trips++
	c.Cooldown, c.Cause = cfg.Cooldown, cause
	for i := 1; i < c.Trips && c.Cooldown < cfg.MaxCooldown; i++ {
		c.Cooldown *= 2
	}
	c.Cooldown = min(c.Cooldown, cfg.MaxCooldown)
}

func (c *Cell) halfOpen(now time.Time) {
	c.move(now, admission.BreakerHalfOpen)
	c.NextProbe = now
}

func (c *Cell) close(now time.Time, cfg admission.Breaker) {
	c.move(now, admission.BreakerClosed)
	c.Trips = 0
	if cfg.RampDouble > 0 {
		c.RampFrom = now
	}
}

// move starts an epoch; whatever belonged to the last one is gone.
func (c *Cell) move(now time.Time, to admission.BreakerState) {
	c.State, c.Since = to, now
	c.Epoch++
	c.Good, c.Row = 0, 0
	c.RampFrom = time.Time{}
	c.seen = window{}
}

// Complete replaces what is zero or negative by Defaults.
func Complete(b admission.Breaker) admission.Breaker {
	b.Window = min(positive(b.Window, Defaults.Window), 10*time.Minute)
	b.MinRequests = positive(b.MinRequests, Defaults.MinRequests)
	b.FailureBPS = positive(b.FailureBPS, Defaults.FailureBPS)
	b.Consecutive = positive(b.Consecutive, Defaults.Consecutive)
	b.Cooldown = positive(b.Cooldown, Defaults.Cooldown)
	b.MaxCooldown = max(positive(b.MaxCooldown, Defaults.MaxCooldown), b.Cooldown)
	b.ProbeSpacing = positive(b.ProbeSpacing, Defaults.ProbeSpacing)
	b.CloseAfter = positive(b.CloseAfter, Defaults.CloseAfter)
	return b
}

func positive[T int64 | time.Duration](v, or T) T {
	if v <= 0 {
		return or
	}
	return v
}
