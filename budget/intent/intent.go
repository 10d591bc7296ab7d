// Package intent is the one deadline and the one attempt budget of a customer wish, and the rules by which the one retry
// loop waits.
//
//	request ─▶ Stage: "one attempt of intent I, of N, until D" ─▶ claim: the store counts, for all sidecars together
//	  attempt failed ─▶ Policy.Next: Retry-After or full jitter, if a useful attempt still fits before D ─▶ next claim
//
// The first who meets an intent sets its deadline and its attempts; whoever comes later inherits both. Crossing a boundary
// creates no more of either, so that layers of retries cannot multiply.
package intent

import (
	"context"
	"fmt"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// Bounds of a configuration, and its defaults.
const (
	DefaultAttempts = 2 // one and one more
	MaxAttempts     = 10
	DefaultDeadline = 30 * time.Second
	MinDeadline     = 10 * time.Millisecond
	MaxDeadline     = time.Hour
)

// Config says how long and how often each destination may try.
type Config struct {
	Destinations map[string]Destination // by name
	Default      Destination            // for destinations that are not listed
}

// Destination is the budget of an intent whose first effect goes to this destination.
type Destination struct {
	Attempts int           // of the whole intent, 1 to 10; 0 = 2
	Deadline time.Duration // from receipt of the first request, 10 ms to 1 h; 0 = 30 s
}

// Validate names the field that is out of bounds.
func (c Config) Validate() error {
	err := c.Default.validate("default")
	if err != nil {
		return err
	}
	for name, d := range c.Destinations {
		err := d.validate(fmt.Sprintf("destinations[%q]", name))
		if err != nil {
			return err
		}
	}
	return nil
}

func (d Destination) validate(at string) error {
	switch {
	case d.Attempts < 0 || d.Attempts > MaxAttempts:
		return fmt.Errorf("%s.attempts: %d: want 1 to %d, or 0 for %d", at, d.Attempts, MaxAttempts, DefaultAttempts)
	case d.Deadline != 0 && (d.Deadline < MinDeadline || d.Deadline > MaxDeadline):
		return fmt.Errorf("%s.deadline: %s: want %s to %s, or 0 for %s", at, d.Deadline, MinDeadline, MaxDeadline, DefaultDeadline)
	}
	return nil
}

// clamped is what holds even if nobody called Validate.
func (d Destination) clamped() Destination {
	if d.Attempts == 0 {
		d.Attempts = DefaultAttempts
	}
	if d.Deadline == 0 {
		d.Deadline = DefaultDeadline
	}
	d.Attempts = min(max(d.Attempts, 1), MaxAttempts)
	d.Deadline = min(max(d.Deadline, MinDeadline), MaxDeadline)
	return d
}

// Stage contributes the intent's attempt to every claim.
type Stage struct{ config Config }

var _ admission.Stage = (*Stage)(nil)

// New is the stage for one configuration.
func New(c Config) *Stage { return &Stage{config: c} }

// Name implements admission.Stage.
func (s *Stage) Name() string { return "intent" }

// Judge implements admission.Stage. An effect without an intent is its own: its operation. A released effect is a new wish,
// since the time of the first one went by while a human thought; that it is sent once is the ledger's business.
func (s *Stage) Judge(_ context.Context, c *admission.Case) (admission.Opinion, error) {
	d, ok := s.config.Destinations[c.Effect.Destination]
	if !ok {
		d = s.config.Default
	}
	d = d.clamped()
	id, lifetime := c.Effect.Intent, d.Deadline
	if !c.Received.IsZero() {
		lifetime -= max(time.Since(c.Received), 0)
	}
	switch {
	case c.Released:
		id = stoplog.IntentID(fmt.Sprintf("release/%s/%d", c.Operation, c.Received.UnixNano()))
	case id == "" && c.Operation == "":
		return admission.Opinion{}, fmt.Errorf("effect has neither an intent nor an operation")
	case id == "":
		id = stoplog.IntentID("operation/" + c.Operation)
	}
	if lifetime <= 0 {
		return admission.Opinion{Decision: stoplog.Decision{
			Reason: stoplog.ReasonDeadlineExceeded, Stage: s.Name(), Detail: "the deadline passed before anything was sent",
		}}, nil
	}
	return admission.Opinion{
		Decision: stoplog.Allowed(s.Name()),
		Charges: admission.Charges{
			Intent: admission.IntentCharge{ID: id, Tenant: c.Effect.Actor.Tenant, Budget: d.Attempts, Lifetime: lifetime},
		},
	}, nil
}
