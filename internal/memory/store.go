// Package memory is the admission store of one process: everything scarce, kept in memory, judged by one clock.
//
//	Claim ─▶ one lock ─▶ level ─▶ breaker ─▶ intent ─▶ spend ─▶ rate, share, seat ─▶ take them all ─▶ Grant
//	Settle ─▶ one lock ─▶ seat back, result to the breaker, estimate replaced by what was really used
//	Level ─▶ no lock: one immutable table behind an atomic pointer
//
// One lock, because a claim is one step over several owners and takes about a microsecond; finer locks would have to be taken
// together anyway. Nothing slow happens under it: the level file is written, and callbacks run, outside.
//
// State is keyed by names (destination, class, account, scope) and outlives configurations; limits come with each claim.
// What a restart forgets is safe to forget: seats (their holders died with the process), rate (a full bucket at most),
// breakers (they begin closed). What is not: levels are kept in a file, and spend comes back through Restore.
package memory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/killswitch"
)

// Options configure a Store. The zero Options are usable.
type Options struct {
	Now       func() time.Time // the store's clock; nil = time.Now
	LevelFile string           // keeps the kill switch over restarts; "" = levels live in memory only

	// OnBreaker is told of every move of a breaker and OnLevel of every changed record. Both are called without any lock,
	// after the change is in force, on the goroutine that caused it: they should be quick. Two concurrent changes may be told
	// in either order; epochs say which is newer.
	OnBreaker func(admission.BreakerView)
	OnLevel   func(killswitch.Entry)

	MaxIntents int // intents before their deadline at one time; more are refused. 0 = 2,097,152 (about 130 MB when full)
	Remember   int // settled claims whose ids are still recognised. 0 = 4,096
}

// Store implements admission.Store and admission.Operate.
type Store struct {
	options Options
	levels  atomic.Pointer[killswitch.Table]
	changed atomic.Pointer[chan struct{}]

	operating sync.Mutex // one change of levels at a time; held while the file is written
	warning   error      // guarded by operating

	mu           sync.Mutex // everything below
	destinations map[string]*destination
	intents      intents
	accounts     accounts
	leases       leases
	moved        []admission.BreakerView // to be told once mu is free
}

var (
	_ admission.Store   = (*Store)(nil)
	_ admission.Operate = (*Store)(nil)
)

// New opens a store. A level file that cannot be read does not fail it: the store then starts at L2 for the whole fleet and
// says so in Warning, because a store that does not start protects nothing.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxIntents <= 0 {
		o.MaxIntents = 1 << 21
	}
	if o.Remember <= 0 {
		o.Remember = 4096
	}
	s := &Store{
		options:      o,
		destinations: make(map[string]*destination),
		intents:      newIntents(o.MaxIntents),
		accounts:     accounts{known: make(map[string]*account)},
		leases:       leases{known: make(map[string]*lease), recent: make([]string, 0, o.Remember)},
	}
	ch := make(chan struct{})
	s.changed.Store(&ch)
	s.loadLevels()
	return s
}

// Claim implements admission.Store.
func (s *Store) Claim(ctx context.Context, c admission.Claim) (admission.Grant, error) {
	err := ctx.Err()
	if err != nil {
		return admission.Grant{}, fmt.Errorf("claim %s: %w", c.ID, err)
	}
	refusal := incomplete(&c)
	if refusal != nil {
		return admission.Grant{}, refusal
	}
	g, refusal, moved := s.claim(&c)
	s.tell(moved)
	if refusal != nil {
		return admission.Grant{}, refusal
	}
	return g, nil
}

// claim judges everything before it takes anything; only spend is taken on the way, since two charges may meet on one
// account, and is given back when a later judge refuses.
func (s *Store) claim(c *admission.Claim) (g admission.Grant, refusal *stoplog.Error, moved []admission.BreakerView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { moved, s.moved = s.moved, nil }()

	if known := s.leases.known[c.ID]; known != nil {
		return known.grant, nil, nil
	}
	now, table := s.options.Now(), s.levels.Load()
	level := table.Level(c.Charges.Level.Scopes)
	if level >= c.Charges.Level.Below {
		return g, &stoplog.Error{Reason: levelReason(level), Level: level}, nil
	}
	d := s.destination(c.Charges.Destination.Name, now)
	p, refusal := s.pass(d, now, &c.Charges.Destination)
	if refusal != nil {
		return g, refusal, nil
	}
	attempt, refusal := s.intents.check(now, &c.Charges.Intent)
	if refusal != nil {
		return g, refusal, nil
	}
	l := &lease{destination: d, pass: p}
	refusal = s.accounts.reserve(now, l, c.Charges.Spend)
	if refusal != nil {
		return g, refusal, nil
	}
	refusal = d.check(now, &c.Charges.Destination, l)
	if refusal != nil {
		l.release()
		return g, refusal, nil
	}

	d.take(now, l)
	s.intents.take(attempt)
	l.grant = admission.Grant{
		ID:           c.ID,
		At:           now,
		LevelVersion: table.Version(),
		Level:        level,
		BreakerEpoch: p.class.Epoch,
		BreakerState: p.class.State,
		Probe:        p.probe || p.ownProbe,
		Attempt:      attempt.number(),
		AttemptsLeft: attempt.left(),
		Deadline:     attempt.deadline,
		Spend:        l.balances(),
	}
	s.leases.add(l)
	return l.grant, nil, nil
}

// incomplete refuses a claim that lacks what every claim needs: absence is a mistake, never a permission.
func incomplete(c *admission.Claim) *stoplog.Error {
	var lacks string
	switch d := &c.Charges.Destination; {
	case c.ID == "":
		lacks = "an id"
	case c.Charges.Level.Below == stoplog.L0, c.Charges.Level.Below > stoplog.L3, len(c.Charges.Level.Scopes) == 0:
		lacks = "a level condition"
	case d.Name == "":
		lacks = "a destination"
	case d.Requests < 1:
		lacks = "a cost in requests"
	default:
		return nil
	}
	return stoplog.Refuse(stoplog.ReasonInternal, "the claim lacks "+lacks)
}

func levelReason(l stoplog.Level) stoplog.Reason {
	switch l {
	case stoplog.L1:
		return stoplog.ReasonOutreachFreeze
	case stoplog.L2:
		return stoplog.ReasonWriteFreeze
	default:
		return stoplog.ReasonFullStop
	}
}

func (s *Store) tell(moved []admission.BreakerView) {
	if s.options.OnBreaker == nil {
		return
	}
	for _, v := range moved {
		s.options.OnBreaker(v)
	}
}
