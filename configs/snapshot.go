package configs

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/killswitch"
	"github.com/stoplog/stoplog/budget/spend"
	"github.com/stoplog/stoplog/configs/configv1"
	"github.com/stoplog/stoplog/proxy/connector"
)

// Snapshot is one whole configuration. It is immutable and safe for concurrent use; callers MUST NOT change what its methods
// return.
type Snapshot struct {
	version      string
	bundle       *configv1.Bundle
	destinations []*Destination // by name
	byName       map[string]*Destination
	byHost       map[string]*Destination
	denials      []Denial
	exemptions   []Exemption
	spend        spend.Config
	levels       []killswitch.Entry
}

// Version is "sha256:" and the hash of everything that is in force, shipped connector profiles and prices included. Equal
// content has an equal version, however it is spread over files.
func (s *Snapshot) Version() string { return s.version }

// Bundle is a copy of the schema's messages in force, each list by name, for dumps.
func (s *Snapshot) Bundle() *configv1.Bundle { return proto.CloneOf(s.bundle) }

// Destinations are all destinations by name.
func (s *Snapshot) Destinations() []*Destination { return s.destinations }

// Destination is the destination with this name, or nil.
func (s *Snapshot) Destination(name string) *Destination { return s.byName[name] }

// DestinationOf is the destination that an authority ("api.github.com", "API.github.com:443") belongs to, or nil.
func (s *Snapshot) DestinationOf(authority string) *Destination {
	return s.byHost[strings.ToLower(authority)]
}

// Authorities are all keys of DestinationOf with what they belong to.
func (s *Snapshot) Authorities() map[string]*Destination { return maps.Clone(s.byHost) }

// Denials are the rules that refuse, by name.
func (s *Snapshot) Denials() []Denial { return s.denials }

// Exemptions are the rules that let messages pass at L1, by name.
func (s *Snapshot) Exemptions() []Exemption { return s.exemptions }

// Spend is the budgets by name, and prices.
func (s *Snapshot) Spend() spend.Config { return s.spend }

// Levels are the kill-switch records that the configuration carries; they merge with those of every other source.
func (s *Snapshot) Levels() []killswitch.Entry { return s.levels }

// Destination is one account at one outside service.
type Destination struct {
	Name            string
	Source          string   // where its definition came from, as the definition says; may be empty
	URL             *url.URL // origin and base path without a trailing slash
	Hosts           []string // authorities, lower case, the URL's first
	Connector       string   // name of its profile
	Profile         *connector.Profile
	UnnamedDeny     bool // operations that the profile does not name are refused
	Deadline        Deadline
	Retry           Retry
	Breaker         admission.Breaker
	Limit           admission.Limit
	TLS             TLS
	Credential      *Credential    // nil = the agent's own passes
	MaxRequestBytes int64          // larger request bodies are refused
	AllowedNetworks []netip.Prefix // private networks that it may be dialled at
	Hold            Hold
	Drain           time.Duration // longest time to read on an abandoned model stream for its usage
}

// Deadline bounds the time of an intent.
type Deadline struct {
	Total      time.Duration // from the receipt of the request
	PerAttempt time.Duration // to the first byte of an answer
	Idle       time.Duration // longest silence inside an answer
}

// Retry is how often an intent may start. Its rate is in the Limit's retry bucket.
type Retry struct {
	Attempts  int           // of a whole intent, the first included; 1 = no retries
	Base, Max time.Duration // wait before attempt n+1: uniform in [0, min(Base * 2^n, Max))
	MinUseful time.Duration // no attempt begins with less time left
}

// TLS of a destination; empty fields = the URL's host, the system's authorities.
type TLS struct{ ServerName, CAFile string }

// Credential is a header that Stoplog sets. Exactly one of Env and File is set.
type Credential struct{ Header, Prefix, Env, File string }

// Hold is how messages are held and writes parked.
type Hold struct {
	MaxAge              time.Duration // of a held message, then it is withdrawn
	ParkMaxAge          time.Duration // of a parked write
	KeepAgentCredential bool
	MaxBytes            int64 // largest body that is kept
}

// Denial refuses the effects that it selects.
type Denial struct {
	Name     string
	Selector Selector
	Message  string // for the agent; may be empty
}

// Exemption lets selected messages pass at L1, never above.
type Exemption struct {
	Name     string
	Selector Selector
	Reason   string
}

// Selector picks effects. An empty list means any; a value is exact, or a prefix followed by "*".
type Selector struct {
	Tenants, Agents, Functions, Destinations, Actions []string
	Classes                                           []stoplog.Class
}

// Matches reports whether the effect is picked.
func (s Selector) Matches(e *stoplog.Effect) bool {
	return matches(s.Destinations, e.Destination) &&
		matches(s.Actions, e.Action) &&
		(len(s.Classes) == 0 || slices.Contains(s.Classes, e.Class)) &&
		matches(s.Functions, e.Function) &&
		matches(s.Agents, e.Actor.Agent) &&
		matches(s.Tenants, e.Actor.Tenant)
}

func matches(patterns []string, value string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		prefix, open := strings.CutSuffix(p, "*")
		if p == value || open && strings.HasPrefix(value, prefix) {
			return true
		}
	}
	return false
}

// JSON is the configuration in force as the schema's JSON, for dumps. It holds no secrets: the schema has none.
func (s *Snapshot) JSON() ([]byte, error) {
	return protojson.MarshalOptions{UseProtoNames: true, Multiline: true}.Marshal(s.bundle)
}
