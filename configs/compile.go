package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/killswitch"
	"github.com/stoplog/stoplog/configs/configv1"
	"github.com/stoplog/stoplog/proxy/connector"
)

// Values for what a definition may leave out. They are stated in the schema's comments too.
const (
	defaultMaxRequestBytes = 10 << 20
	defaultDrain           = 30 * time.Second
	defaultHold            = 48 * time.Hour
	defaultPark            = 24 * time.Hour
	defaultHoldBytes       = 10 << 20
	defaultBackoff         = 200 * time.Millisecond
	defaultMaxBackoff      = 1200 * time.Millisecond
	defaultMinUseful       = 250 * time.Millisecond
	defaultMaxCooldown     = 10 * time.Minute
)

// compiler turns checked messages into plain Go.
type compiler struct {
	profiles map[string]*connector.Profile
}

// compile needs a bundle that check has passed.
func (c *compiler) compile(b *configv1.Bundle) *Snapshot {
	b = proto.CloneOf(b)
	sortByName(b.Destinations)
	sortByName(b.ConnectorProfiles)
	sortByName(b.Policies)
	sortByName(b.Budgets)
	sortByName(b.PriceTables)
	sortByName(b.KillSwitches)

	s := &Snapshot{
		version: version(b), bundle: b, spend: spending(b),
		byName: map[string]*Destination{}, byHost: map[string]*Destination{},
	}
	for _, x := range b.GetDestinations() {
		d := c.destination(x)
		s.destinations = append(s.destinations, d)
		s.byName[d.Name] = d
		for _, h := range authorities(x) {
			if s.byHost[h] == nil { // of several accounts at one service, the first by name
				s.byHost[h] = d
			}
		}
	}
	for _, p := range b.GetPolicies() {
		switch rule := p.GetRule().(type) {
		case *configv1.AdmissionPolicy_Deny_:
			s.denials = append(s.denials, Denial{p.GetName(), selector(p.GetSelector()), rule.Deny.GetMessage()})
		case *configv1.AdmissionPolicy_FreezeExemption_:
			s.exemptions = append(s.exemptions, Exemption{p.GetName(), selector(p.GetSelector()), rule.FreezeExemption.GetReason()})
		}
	}
	for _, k := range b.GetKillSwitches() {
		s.levels = append(s.levels, entry(k))
	}
	return s
}

func sortByName[T interface{ GetName() string }](list []T) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
}

func version(b *configv1.Bundle) string {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
	if err != nil {
		panic("configs: a checked bundle does not marshal: " + err.Error()) // only invalid UTF-8 could, and the reader refuses it
	}
	sum := sha256.Sum256(bytes)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (c *compiler) destination(x *configv1.Destination) *Destination {
	u, _ := url.Parse(x.GetUrl()) // checked
	u.Host, u.Path = canonical(u.Host, schemePort(u)), strings.TrimRight(u.Path, "/")
	d := &Destination{
		Name: x.GetName(), Source: x.GetMeta().GetSource(), URL: u, Hosts: hosts(x),
		Connector: x.GetConnectorProfile(), Profile: c.profiles[x.GetConnectorProfile()],
		UnnamedDeny: x.GetUnnamedOperations() == configv1.Destination_DENY,
		Deadline: Deadline{
			Total: duration(x.GetDeadline().GetTotal(), 0), PerAttempt: duration(x.GetDeadline().GetPerAttempt(), 0),
			Idle: duration(x.GetDeadline().GetIdle(), x.GetDeadline().GetTotal().AsDuration()),
		},
		Retry:           retry(x.GetRetry()),
		Breaker:         breaker(x.GetBreaker()),
		Limit:           limit(x.GetLimit(), x.GetRetry()),
		TLS:             TLS{x.GetTls().GetServerName(), x.GetTls().GetCaFile()},
		MaxRequestBytes: orDefault(x.GetMaxRequestBytes(), defaultMaxRequestBytes),
		Hold: Hold{
			MaxAge: duration(x.GetHold().GetMaxAge(), defaultHold), ParkMaxAge: duration(x.GetHold().GetParkMaxAge(), defaultPark),
			KeepAgentCredential: x.GetHold().GetKeepAgentCredential(),
			MaxBytes:            orDefault(x.GetHold().GetMaxBytes(), defaultHoldBytes),
		},
		Drain: duration(x.GetDrain(), defaultDrain),
	}
	if k := x.GetCredential(); k != nil {
		d.Credential = &Credential{k.GetHeader(), k.GetPrefix(), k.GetEnv(), k.GetFile()}
	}
	for _, n := range x.GetAllowedNetworks() {
		p, _ := netip.ParsePrefix(n) // checked
		d.AllowedNetworks = append(d.AllowedNetworks, p.Masked())
	}
	return d
}

func retry(r *configv1.Destination_Retry) Retry {
	return Retry{
		Attempts: max(1, int(r.GetAttempts())),
		Base:     duration(r.GetBaseBackoff(), min(defaultBackoff, duration(r.GetMaxBackoff(), defaultBackoff))),
		Max:      duration(r.GetMaxBackoff(), max(defaultMaxBackoff, r.GetBaseBackoff().AsDuration())),

		MinUseful: duration(r.GetMinUsefulAttempt(), defaultMinUseful),
	}
}

func breaker(b *configv1.Destination_Breaker) admission.Breaker {
	cooldown := b.GetCooldown().AsDuration()
	return admission.Breaker{
		Window: b.GetWindow().AsDuration(), MinRequests: int64(b.GetMinRequests()), FailureBPS: int64(b.GetFailureBps()),
		Consecutive: int64(b.GetConsecutiveFailures()), Cooldown: cooldown,
		MaxCooldown:  duration(b.GetMaxCooldown(), max(defaultMaxCooldown, cooldown)),
		ProbeSpacing: probeSpacing(b.GetProbesPerSecond()),
		CloseAfter:   int64(b.GetCloseAfter()), RampDouble: b.GetRampDouble().AsDuration(),
	}
}

// probeSpacing lets at most n probes start in any second at the destination, also when each arrives up to 52 ms late: n
// probes with n-1 gaps must take longer than a second.
func probeSpacing(n uint32) time.Duration {
	const jitter = time.Second / 19
	if n <= 1 {
		return (time.Second + jitter).Round(time.Microsecond)
	}
	d := time.Second / time.Duration(n-1)
	return (d + time.Microsecond - 1).Truncate(time.Microsecond) // up: the promise is a maximum
}

func limit(l *configv1.Destination_Limit, r *configv1.Destination_Retry) admission.Limit {
	out := admission.Limit{Seats: int64(l.GetMaxConcurrency())}
	out.TenantSeats = tenantSeats(l)
	out.Rate, out.Burst = bucket(l.GetRequests())
	out.TokenRate, out.TokenBurst = bucket(l.GetModelTokens())
	if r.GetAttempts() > 1 {
		out.RetryRate, out.RetryBurst = bucket(r.GetBucket())
	}
	return out
}

func tenantSeats(l *configv1.Destination_Limit) int64 {
	return int64(l.GetMaxConcurrency()) * int64(l.GetTenantShareBps()) / 10_000
}

// bucket is rate per second and size; an absent bucket has neither.
func bucket(b *configv1.TokenBucket) (float64, float64) {
	every := b.GetRefillInterval().AsDuration().Seconds()
	if every <= 0 {
		return 0, 0
	}
	return float64(b.GetRefillTokens()) / every, float64(b.GetCapacity())
}

func selector(s *configv1.Selector) Selector {
	out := Selector{
		Tenants: slices.Clone(s.GetTenants()), Agents: slices.Clone(s.GetAgents()), Functions: slices.Clone(s.GetFunctions()),
		Destinations: slices.Clone(s.GetDestinations()), Actions: slices.Clone(s.GetActions()),
	}
	for _, c := range s.GetClasses() {
		out.Classes = append(out.Classes, stoplog.Class(c)) // the same numbers; a test holds them together
	}
	return out
}

func entry(k *configv1.KillSwitch) killswitch.Entry {
	e := killswitch.Entry{Scope: stoplog.Scope(k.GetName())}
	if d := k.GetDecision(); d != nil {
		e.Record.Decision = killswitch.Decision{
			Level: level(d.GetLevel()), Epoch: d.GetEpoch(), Acked: d.GetAckedEpoch(), Actor: d.GetActor(), Reason: d.GetReason(),
			At: d.GetAt().AsTime(),
		}
	}
	for _, r := range k.GetRaises() {
		l := level(r.GetLevel())
		e.Record.Raises[l] = killswitch.Raise{
			Level: l, Epoch: r.GetEpoch(), Actor: r.GetActor(), Reason: r.GetReason(), At: r.GetAt().AsTime(),
		}
	}
	return e
}

// level is one less in Go: the schema's zero is "unspecified", which the rules refuse.
func level(l configv1.Level) stoplog.Level { return stoplog.Level(max(int(l)-1, 0)) }

func duration(d *durationpb.Duration, otherwise time.Duration) time.Duration {
	if d == nil || d.AsDuration() == 0 {
		return otherwise
	}
	return d.AsDuration()
}

func orDefault(n uint64, otherwise int64) int64 {
	if n == 0 {
		return otherwise
	}
	return signed(n)
}
