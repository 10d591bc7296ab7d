package admission

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stoplog/stoplog"
)

// Pipeline judges and claims. Its stages run in the order given; the first that does not allow ends the judgment.
type Pipeline struct {
	stages  []Stage
	store   Store
	observe bool
	maxWait time.Duration
	wait    func(context.Context, time.Duration) error
}

// Options of a pipeline.
type Options struct {
	// Observe records what would have been decided and lets the effect pass.
	Observe bool
	// MaxWait is how long a claim may wait inside the proxy for a refill, a share, a seat or a probe slot before the agent
	// hears of it; 0 = not at all.
	MaxWait time.Duration
}

// New makes a pipeline. It panics on a duplicate stage name: that is a mistake in the wiring.
func New(store Store, o Options, stages ...Stage) *Pipeline {
	seen := map[string]bool{stageStore: true}
	for _, s := range stages {
		if seen[s.Name()] {
			panic("admission: duplicate stage " + s.Name())
		}
		seen[s.Name()] = true
	}
	return &Pipeline{stages: stages, store: store, observe: o.Observe, maxWait: o.MaxWait, wait: sleep}
}

const stageStore = "store"

// Judgment is what the stages and the store said of one case.
type Judgment struct {
	Decision stoplog.Decision
	Opinions []Verdict // in order, the deciding one last
	Charges  Charges
	Observed bool // the decision was not enforced
}

// Verdict is one judge's part of a judgment.
type Verdict struct {
	Stage  string
	Result stoplog.Verdict
	Reason stoplog.Reason
	Rule   string
}

// Judge asks the stages. It takes nothing and may be repeated.
func (p *Pipeline) Judge(ctx context.Context, c *Case) Judgment {
	j := Judgment{Opinions: make([]Verdict, 0, len(p.stages)+1)}
	for _, s := range p.stages {
		op, err := p.ask(ctx, s, c)
		d := op.Decision
		if err != nil {
			d = stoplog.Decision{Verdict: stoplog.Deny, Reason: stoplog.ReasonOf(err), Detail: "the check " + s.Name() + " could not be made"}
			var e *stoplog.Error
			if errors.As(err, &e) {
				d.Detail, d.RetryAfter = e.Detail, e.RetryAfter
			}
		}
		d.Stage = s.Name()
		if d.Reason == "" {
			d.Reason = stoplog.ReasonInternal
			d.Verdict = stoplog.Deny
		}
		j.note(d)
		if d.Verdict != stoplog.Allow {
			return j
		}
		j.Charges.add(op.Charges)
	}
	return j
}

// A stage that panics has not allowed.
func (p *Pipeline) ask(ctx context.Context, s Stage, c *Case) (op Opinion, err error) {
	defer func() {
		if r := recover(); r != nil {
			op, err = Opinion{}, fmt.Errorf("stage %s panicked: %v", s.Name(), r)
		}
	}()
	return s.Judge(ctx, c)
}

func (j *Judgment) note(d stoplog.Decision) {
	j.Decision = d
	j.Opinions = append(j.Opinions, Verdict{Stage: d.Stage, Result: d.Verdict, Reason: d.Reason, Rule: d.Rule})
}

func (c *Charges) add(o Charges) {
	if len(o.Level.Scopes) > 0 {
		c.Level = o.Level
	}
	if o.Destination.Name != "" {
		c.Destination = o.Destination
	}
	if o.Intent.ID != "" {
		c.Intent = o.Intent
	}
	c.Spend = append(c.Spend, o.Spend...)
}

// Admit judges a case and claims its first attempt. The permit is nil unless the decision allows (or is only observed).
// id is unique to the attempt: claiming it again takes nothing more.
func (p *Pipeline) Admit(ctx context.Context, c *Case, x *stoplog.Exact, id string) (*Permit, Judgment) {
	j := p.Judge(ctx, c)
	permit := &Permit{pipeline: p, c: c, exact: x}
	if j.Decision.Verdict == stoplog.Allow {
		g, d := p.claim(ctx, c, j.Charges, id)
		j.note(d)
		permit.grant = g
		if d.Verdict == stoplog.Allow {
			permit.live.Store(true)
			permit.charges = j.Charges
			return permit, j
		}
	}
	if p.observe && j.Decision.Verdict != stoplog.Replay {
		j.Observed = true
		permit.observed = true
		return permit, j
	}
	return nil, j
}

// claim takes the charges, waiting a little where waiting helps. A level that changes meanwhile decides anew: each try is a
// claim of its own.
func (p *Pipeline) claim(ctx context.Context, c *Case, ch Charges, id string) (Grant, stoplog.Decision) {
	left := p.maxWait
	for {
		g, err := p.store.Claim(ctx, Claim{ID: id, Operation: c.Operation, Class: c.Effect.Class, Charges: ch})
		if err == nil {
			return g, stoplog.Allowed(stageStore)
		}
		d := refusal(c.Effect.Class, err)
		if !waitable(d.Reason) || d.RetryAfter <= 0 || d.RetryAfter > left {
			return Grant{}, d
		}
		left -= d.RetryAfter
		if p.wait(ctx, d.RetryAfter) != nil {
			return Grant{}, d
		}
	}
}

func waitable(r stoplog.Reason) bool {
	switch r {
	case stoplog.ReasonProbeSlotUsed, stoplog.ReasonRateLimited, stoplog.ReasonTokensLimited, stoplog.ReasonShareUsed,
		stoplog.ReasonSeatsTaken, stoplog.ReasonTenantSeatsTaken, stoplog.ReasonRetryBudgetUsed:
		return true
	}
	return false
}

// refusal turns what the store said into a decision. A store that cannot answer is a refusal too: it never becomes Allow.
func refusal(class stoplog.Class, err error) stoplog.Decision {
	d := stoplog.Decision{Verdict: stoplog.Deny, Reason: stoplog.ReasonStoreUnavailable, Stage: stageStore}
	var e *stoplog.Error
	if errors.As(err, &e) {
		d.Reason, d.RetryAfter, d.Detail, d.Level = e.Reason, e.RetryAfter, e.Detail, e.Level
	}
	switch d.Reason {
	case stoplog.ReasonOutreachFreeze, stoplog.ReasonWriteFreeze, stoplog.ReasonFullStop, stoplog.ReasonLevelUnknown:
		d.Verdict = class.StoppedVerdict()
	case stoplog.ReasonStoreUnavailable, stoplog.ReasonStoreStateMissing:
		// Design: messages and writes hold or park while the store is away.
		d.Verdict = class.StoppedVerdict()
	}
	return d
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Permit is the proof that every stage allowed and every charge was taken. It owns the exact bytes. Its grant MUST be
// settled exactly once per attempt; settling twice panics, since it would hide a leak elsewhere.
type Permit struct {
	pipeline *Pipeline
	c        *Case
	exact    *stoplog.Exact
	charges  Charges
	grant    Grant
	observed bool
	live     atomic.Bool // a grant is out
}

// Exact is the request to send. Only the forwarder may ask.
func (p *Permit) Exact() *stoplog.Exact { return p.exact }

// Grant of the current attempt. It is zero where the decision was only observed.
func (p *Permit) Grant() Grant { return p.grant }

// Charges that were taken for the current attempt.
func (p *Permit) Charges() Charges { return p.charges }

// LastLook is the look at the level before the first byte: nil, or the decision that stops the effect after all. Whoever is
// stopped here settles with NotSent. Who only observes is stopped by nothing, also when the level rises later.
func (p *Permit) LastLook() *stoplog.Decision {
	if p.pipeline.observe {
		return nil
	}
	l, err := p.pipeline.store.Level(p.charges.Level.Scopes)
	if err == nil && l < p.charges.Level.Below {
		return nil
	}
	d := stoplog.Decision{Stage: "last_look", Level: l, Verdict: p.c.Effect.Class.StoppedVerdict()}
	switch {
	case err != nil:
		d.Reason = stoplog.ReasonLevelUnknown
	case l == stoplog.L1:
		d.Reason = stoplog.ReasonOutreachFreeze
	case l == stoplog.L2:
		d.Reason = stoplog.ReasonWriteFreeze
	default:
		d.Reason = stoplog.ReasonFullStop
	}
	return &d
}

// Settle gives the current grant back. ctx must not be the agent's: the agent may be gone.
func (p *Permit) Settle(ctx context.Context, s Settlement) error {
	if p.observed && !p.live.Load() {
		return nil
	}
	if !p.live.CompareAndSwap(true, false) {
		panic("admission: permit settled twice")
	}
	s.Grant = p.grant.ID
	return p.pipeline.store.Settle(ctx, s)
}

// Again claims a further attempt of the same effect; the last one must have been settled.
func (p *Permit) Again(ctx context.Context, id string) stoplog.Decision {
	if p.live.Load() {
		panic("admission: another attempt before the last one was settled")
	}
	if p.observed {
		return stoplog.Allowed(stageStore)
	}
	ch := p.charges
	ch.Destination.Retry = true
	g, d := p.pipeline.claim(ctx, p.c, ch, id)
	if d.Verdict == stoplog.Allow {
		p.grant = g
		p.live.Store(true)
	}
	return d
}
