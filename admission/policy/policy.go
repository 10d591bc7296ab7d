// Package policy refuses what a configured rule refuses.
package policy

import (
	"context"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// Rule refuses the effects that it matches.
type Rule struct {
	Name    string
	Matches func(*stoplog.Effect) bool
	Message string // for the agent; may be empty
}

// Stage asks every rule. Its order does not matter: one that matches refuses.
type Stage struct{ rules []Rule }

var _ admission.Stage = (*Stage)(nil)

// New is the stage for one configuration.
func New(rules []Rule) *Stage { return &Stage{rules: rules} }

// Name implements admission.Stage.
func (s *Stage) Name() string { return "policy" }

// Judge implements admission.Stage.
func (s *Stage) Judge(_ context.Context, c *admission.Case) (admission.Opinion, error) {
	for _, r := range s.rules {
		if r.Matches(c.Effect) {
			return admission.Opinion{Decision: stoplog.Decision{
				Verdict: stoplog.Deny, Reason: stoplog.ReasonPolicyDenied, Stage: s.Name(), Rule: "policies/" + r.Name, Detail: r.Message,
			}}, nil
		}
	}
	return admission.Opinion{Decision: stoplog.Allowed(s.Name())}, nil
}
