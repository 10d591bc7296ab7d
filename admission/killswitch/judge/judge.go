// Package judge is the kill switch's stage. It looks nothing up: it names the level below which the effect may leave, and
// the store judges that at the moment of the claim, with everything else.
package judge

import (
	"context"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// Config is the kill switch's configuration. The zero Config exempts nothing.
type Config struct {
	// Exempt are functions whose messages leave under an outreach freeze and are stopped from L2 up: alerts that are
	// critical for safety, and escalations that a person started. An effect's function comes from its listener or a
	// verified credential, so an agent cannot claim one.
	Exempt []string
}

// Stage contributes the level condition to every claim and denies nothing itself.
type Stage struct{ exempt map[string]bool }

var _ admission.Stage = (*Stage)(nil)

// New is the stage for one configuration.
func New(c Config) *Stage {
	s := &Stage{exempt: make(map[string]bool, len(c.Exempt))}
	for _, f := range c.Exempt {
		if f != "" { // an effect without a function is never exempt
			s.exempt[f] = true
		}
	}
	return s
}

// Name implements admission.Stage.
func (s *Stage) Name() string { return "kill_switch" }

// Judge implements admission.Stage.
func (s *Stage) Judge(_ context.Context, c *admission.Case) (admission.Opinion, error) {
	e := c.Effect
	below := e.Class.Stops()
	if e.Class == stoplog.ClassMessage && s.exempt[e.Function] {
		below = stoplog.L2
	}
	return admission.Opinion{
		Decision: stoplog.Allowed(s.Name()),
		Charges: admission.Charges{
			Level: admission.LevelCondition{Scopes: e.Actor.Scopes(e.Destination), Below: below},
		},
	}, nil
}
