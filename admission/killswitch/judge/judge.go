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
	// Exempt are rules whose messages leave under an outreach freeze and are stopped from L2 up: alerts that are critical
	// for safety, and escalations that a person started.
	Exempt []Exemption
}

// Exemption matches effects. It must look at the effect's function: that comes from the listener or a verified
// credential, so an agent cannot claim one.
type Exemption struct {
	Name    string
	Matches func(*stoplog.Effect) bool
}

// Stage contributes the level condition to every claim and denies nothing itself.
type Stage struct{ exempt []Exemption }

var _ admission.Stage = (*Stage)(nil)

// New is the stage for one configuration.
func New(c Config) *Stage { return &Stage{exempt: c.Exempt} }

// Name implements admission.Stage.
func (s *Stage) Name() string { return "kill_switch" }

// Judge implements admission.Stage.
func (s *Stage) Judge(_ context.Context, c *admission.Case) (admission.Opinion, error) {
	e := c.Effect
	below := e.Class.Stops()
	d := stoplog.Allowed(s.Name())
	if e.Class == stoplog.ClassMessage && e.Function != "" { // an effect without a function is never exempt
		for _, x := range s.exempt {
			if x.Matches(e) {
				below, d.Rule = stoplog.L2, "policies/"+x.Name
				break
			}
		}
	}
	return admission.Opinion{
		Decision: d,
		Charges: admission.Charges{
			Level: admission.LevelCondition{Scopes: e.Actor.Scopes(e.Destination), Below: below},
		},
	}, nil
}
