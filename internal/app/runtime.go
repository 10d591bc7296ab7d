package app

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/killswitch/judge"
	"github.com/stoplog/stoplog/admission/limit"
	"github.com/stoplog/stoplog/admission/policy"
	"github.com/stoplog/stoplog/budget/intent"
	"github.com/stoplog/stoplog/budget/spend"
	"github.com/stoplog/stoplog/configs"
	"github.com/stoplog/stoplog/proxy"
)

// maxWait is how long a claim may wait inside the proxy before the agent hears of it.
const maxWait = 250 * time.Millisecond

// compile builds the objects of one snapshot, whole, beside those in force. State (levels, breakers, seats, budgets,
// connections) is borrowed, not built.
func (a *App) compile(s *configs.Snapshot) (*proxy.Runtime, error) {
	spending, err := spend.New(s.Spend(), nil)
	if err != nil {
		return nil, fmt.Errorf("budgets: %w", err)
	}
	rt := &proxy.Runtime{
		Policy: s.Version(), Observe: a.options.Observe,
		Destinations: map[string]*proxy.Destination{}, Hosts: map[string]*proxy.Destination{},
	}
	limits, intents := limit.Config{}, intent.Config{Destinations: map[string]intent.Destination{}}
	for _, d := range s.Destinations() {
		x, err := a.destination(d)
		if err != nil {
			return nil, fmt.Errorf("destination %s: %w", d.Name, err)
		}
		rt.Destinations[d.Name] = x
		limits[d.Name] = limit.Destination{Limit: d.Limit, Breaker: d.Breaker}
		intents.Destinations[d.Name] = intent.Destination{Attempts: d.Retry.Attempts, Deadline: d.Deadline.Total}
	}
	for authority, d := range s.Authorities() {
		rt.Hosts[authority] = rt.Destinations[d.Name]
	}
	var rules []policy.Rule
	for _, d := range s.Denials() {
		rules = append(rules, policy.Rule{Name: d.Name, Matches: d.Selector.Matches, Message: d.Message})
	}
	var exempt []judge.Exemption
	for _, e := range s.Exemptions() {
		exempt = append(exempt, judge.Exemption{Name: e.Name, Matches: e.Selector.Matches})
	}
	// The order of judgment: what a rule refuses needs no look at anything else; what costs money comes last.
	rt.Pipeline = admission.New(a.store, admission.Options{Observe: a.options.Observe, MaxWait: maxWait},
		policy.New(rules),
		judge.New(judge.Config{Exempt: exempt}),
		intent.New(intents),
		limit.New(limits),
		spending,
	)
	return rt, nil
}

func (a *App) destination(d *configs.Destination) (*proxy.Destination, error) {
	up, err := a.upstreams.Get(proxy.UpstreamConfig{
		Scheme: d.URL.Scheme, Host: d.URL.Host, ServerName: d.TLS.ServerName, CAFile: d.TLS.CAFile, Guard: proxy.Guard{Allowed: d.AllowedNetworks},
	})
	if err != nil {
		return nil, err
	}
	return &proxy.Destination{
		Name: d.Name, Scheme: d.URL.Scheme, Host: strings.ToLower(d.URL.Host), BasePath: strings.TrimSuffix(d.URL.EscapedPath(), "/"),
		Profile: d.Profile, DenyUnnamed: d.UnnamedDeny,
		Total: d.Deadline.Total, PerAttempt: d.Deadline.PerAttempt, Idle: d.Deadline.Idle, Drain: d.Drain,
		Attempts: max(d.Retry.Attempts, 1), Retry: retryPolicy{d.Retry, d.Deadline.PerAttempt},
		MaxRequestBytes: d.MaxRequestBytes, Credential: credential(d.Credential), Upstream: up,
		Hold: proxy.HoldPolicy{
			MaxAge: d.Hold.MaxAge, ParkMaxAge: d.Hold.ParkMaxAge, MaxBytes: d.Hold.MaxBytes, KeepAgentCredential: d.Hold.KeepAgentCredential,
		},
	}, nil
}

// retryPolicy is budget/intent for one destination.
type retryPolicy struct {
	c          configs.Retry
	perAttempt time.Duration
}

func (p retryPolicy) Next(used int, remaining time.Duration, h proxy.RetryHint) (time.Duration, bool) {
	t := intent.Throttle{RetryAfter: h.RetryAfter, RetryAfterMS: h.RetryAfterMS, Date: h.Date}
	if h.Cool > 0 && len(t.RetryAfter) == 0 && len(t.RetryAfterMS) == 0 {
		t.RetryAfterMS = []string{fmt.Sprint(h.Cool.Milliseconds())}
	}
	return intent.Next(used, source{}, t, time.Now(), remaining, p.c.MinUseful)
}

func (p retryPolicy) Timeout(remaining time.Duration) (time.Duration, bool) {
	return intent.NextAttemptTimeout(remaining, p.perAttempt, p.c.MinUseful)
}

type source struct{}

func (source) Int64N(n int64) int64 { return rand.Int64N(n) }

// credential reads a secret at each use, so that a rotated file is taken up at once.
func credential(c *configs.Credential) func() (stoplog.Field, error) {
	if c == nil {
		return nil
	}
	return func() (stoplog.Field, error) {
		v := os.Getenv(c.Env)
		if c.File != "" {
			b, err := os.ReadFile(c.File)
			if err != nil {
				return stoplog.Field{}, fmt.Errorf("read credential: %w", err)
			}
			v = strings.TrimRight(string(b), "\r\n")
		}
		if v == "" || strings.ContainsAny(v, "\r\n") {
			return stoplog.Field{}, fmt.Errorf("credential from %s%s is empty or has more than one line", c.Env, c.File)
		}
		return stoplog.Field{Name: c.Header, Value: c.Prefix + v}, nil
	}
}
