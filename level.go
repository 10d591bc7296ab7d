package stoplog

import (
	"fmt"
	"strings"
)

// Level is the kill switch of one scope. Higher includes lower.
type Level uint8

const (
	L0 Level = iota // normal
	L1              // outreach freeze: messages are held
	L2              // write freeze: L1, and connector writes are parked
	L3              // full stop: L2, and model calls and reads are refused
)

func (l Level) String() string { return "L" + string('0'+rune(min(l, L3))) }

// ParseLevel reads "L0" to "L3" (or "0" to "3").
func ParseLevel(s string) (Level, error) {
	t := strings.TrimPrefix(strings.ToUpper(s), "L")
	if len(t) == 1 && t[0] >= '0' && t[0] <= '3' {
		return Level(t[0] - '0'), nil
	}
	return L3, fmt.Errorf("level %q: want L0, L1, L2 or L3", s)
}

// Stops is the lowest level at which an effect of this class may not leave. An unspecified class is stopped at every
// level above L0.
func (c Class) Stops() Level {
	switch c {
	case ClassRead, ClassModel:
		return L3
	case ClassWrite:
		return L2
	default:
		return L1
	}
}

// StoppedVerdict is what becomes of an effect of this class that a level stops: messages are held and writes parked so
// that nothing is lost; model calls and reads are refused.
func (c Class) StoppedVerdict() Verdict {
	switch c {
	case ClassMessage:
		return Hold
	case ClassWrite:
		return Park
	default:
		return Deny
	}
}

// Scope is what a level applies to: "fleet", "tenant/ID", "org/ID", "destination/NAME" or "agent/ID".
type Scope string

// ScopeFleet is every effect of every sidecar.
const ScopeFleet Scope = "fleet"

// ParseScope checks the form of a scope.
func ParseScope(s string) (Scope, error) {
	if s == string(ScopeFleet) {
		return ScopeFleet, nil
	}
	kind, id, ok := strings.Cut(s, "/")
	switch kind {
	case "tenant", "org", "destination", "agent":
		if ok && id != "" && len(s) <= 160 && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == '/' || r > '~' }) {
			return Scope(s), nil
		}
	}
	return "", fmt.Errorf("scope %q: want fleet, tenant/ID, org/ID, destination/NAME or agent/ID", s)
}

// Scopes are the scopes that an effect of this actor to this destination falls under.
func (a Actor) Scopes(destination string) []Scope {
	s := append(make([]Scope, 0, 5), ScopeFleet)
	for _, p := range [...]struct{ kind, id string }{
		{"tenant/", a.Tenant}, {"org/", a.Org}, {"agent/", a.Agent}, {"destination/", destination},
	} {
		if p.id != "" {
			s = append(s, Scope(p.kind+p.id))
		}
	}
	return s
}
