package limit

import (
	"context"
	"fmt"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// Config is the limits and the breaker of each destination, by name.
type Config map[string]Destination

// Destination is what one destination can bear.
type Destination struct {
	Limit   admission.Limit
	Breaker admission.Breaker
	Weights map[string]float64 // of tenants in fair shares; one that is not listed weighs 1
}

// Stage names what an attempt takes from its destination; the store judges it.
type Stage struct{ config Config }

var _ admission.Stage = (*Stage)(nil)

// New is the stage for one configuration.
func New(c Config) *Stage { return &Stage{config: c} }

// Name implements admission.Stage.
func (s *Stage) Name() string { return "limits" }

// Judge implements admission.Stage. A destination without limits is refused: nothing is unlimited by omission.
func (s *Stage) Judge(_ context.Context, c *admission.Case) (admission.Opinion, error) {
	e := c.Effect
	d, ok := s.config[e.Destination]
	if !ok {
		return admission.Opinion{}, fmt.Errorf("destination %q has no limits", e.Destination)
	}
	charge := admission.DestinationCharge{
		Name: e.Destination, Class: c.BreakerClass, Tenant: e.Actor.Tenant, Weight: d.Weights[e.Actor.Tenant], Requests: 1,
		Limit: d.Limit, Breaker: d.Breaker,
	}
	if e.Class == stoplog.ClassModel && d.Limit.TokenRate > 0 {
		charge.Tokens = e.Model.InputTokens + e.Model.MaxOutputTokens
	}
	return admission.Opinion{Decision: stoplog.Allowed(s.Name()), Charges: admission.Charges{Destination: charge}}, nil
}
