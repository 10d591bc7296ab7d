package spend

import (
	"context"
	"net/url"
	"slices"
	"time"
	_ "time/tzdata" // budgets name zones, also on machines that know none

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

// Stage contributes one charge per budget that matches an effect.
type Stage struct {
	config  Config
	budgets []budget
	now     func() time.Time
}

type budget struct {
	Budget
	zone *time.Location
}

var _ admission.Stage = (*Stage)(nil)

// New is the stage for one configuration. now decides which period an effect falls into; nil = time.Now.
func New(c Config, now func() time.Time) (*Stage, error) {
	err := c.Validate()
	if err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = defaultMaxOutput
	}
	s := &Stage{config: c, now: now}
	for _, b := range c.Budgets {
		zone, err := time.LoadLocation(b.Zone)
		if err != nil {
			return nil, err
		}
		if b.Hold == 0 {
			b.Hold = defaultHold
		}
		s.budgets = append(s.budgets, budget{b, zone})
	}
	return s, nil
}

// Name implements admission.Stage.
func (s *Stage) Name() string { return "spend" }

// Judge implements admission.Stage. It denies only what it cannot price: whether the budget has room, the store says.
func (s *Stage) Judge(_ context.Context, c *admission.Case) (admission.Opinion, error) {
	o := admission.Opinion{Decision: stoplog.Allowed(s.Name())}
	now := s.now()
	for i := range s.budgets {
		b := &s.budgets[i]
		if !b.matches(c.Effect) {
			continue
		}
		estimate, ok := s.estimate(b, c.Effect)
		if !ok {
			return admission.Opinion{Decision: stoplog.Decision{
				Reason: stoplog.ReasonPriceUnknown, Stage: s.Name(), Rule: "budgets/" + b.Name,
				Detail: "the model has no price, and no ceiling is configured",
			}}, nil
		}
		p := PeriodOf(b.Window, b.zone, now)
		o.Charges.Spend = append(o.Charges.Spend, admission.SpendCharge{
			Budget: b.Name, Key: b.key(c.Effect, p), Unit: string(b.Unit), Limit: b.Limit,
			Estimate: estimate, MaxHolds: b.Holds, Hold: b.Hold, Ends: p.Ends, Actual: s.actual(b, c.Effect),
		})
	}
	return o, nil
}

func (b *budget) matches(e *stoplog.Effect) bool {
	has := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	return b.Unit.counts(e.Class) && (b.Selects == nil || b.Selects(e)) &&
		has(b.Destinations, e.Destination) && has(b.Tenants, e.Actor.Tenant) && has(b.Functions, e.Function)
}

// key names the account. Values are escaped, so that no tenant's name can reach another's account.
func (b *budget) key(e *stoplog.Effect, p Period) string {
	k := b.Name
	for _, d := range b.Per {
		v := e.Actor.Tenant
		switch d {
		case PerAgent:
			v = e.Actor.Agent
		case PerFunction:
			v = e.Function
		case PerDestination:
			v = e.Destination
		case PerTenant:
		}
		k += "/" + string(d) + "/" + url.PathEscape(v)
	}
	return k + "/" + p.ID
}

// estimate is what the effect may cost: a tenth more input than its size suggests, and the output that it asks for, up to
// what is usual. A hard budget takes the most that the model can write.
func (s *Stage) estimate(b *budget, e *stoplog.Effect) (int64, bool) {
	if b.Unit == Message {
		return int64(max(len(e.Recipients), 1)), true
	}
	p, known := s.config.Prices.Find(e.Destination, e.Model.Name)
	if b.Unit == USDMicro && !known {
		return 0, false
	}
	u := stoplog.Usage{Input: tenthMore(max(e.Model.InputTokens, 0)), Output: e.Model.MaxOutputTokens}
	switch {
	case b.Hard && u.Output <= 0:
		u.Output = max(p.MaxOutput, s.config.MaxOutput)
	case u.Output <= 0 || !b.Hard && u.Output > s.config.MaxOutput:
		u.Output = s.config.MaxOutput
	}
	if b.Unit == Token {
		return total(u), true
	}
	return p.Cost(u), true
}

// actual prices what a call really used; nil where the estimate is exact.
func (s *Stage) actual(b *budget, e *stoplog.Effect) func(stoplog.Usage) int64 {
	switch b.Unit {
	case Token:
		return total
	case USDMicro:
		p, known := s.config.Prices.Find(e.Destination, e.Model.Name)
		if known {
			return p.Cost
		}
	case Message:
	}
	return nil
}

func total(u stoplog.Usage) int64 {
	const most = 1<<62 - 1
	return min(max(u.Input, 0), most) + min(max(u.Output, 0), most)
}

func tenthMore(n int64) int64 {
	const most = 1 << 60
	n = min(n, most)
	return n + (n+9)/10
}
