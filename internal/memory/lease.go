package memory

import (
	"context"

	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/admission/limit"
)

// lease is a grant with everything that it took.
type lease struct {
	grant       admission.Grant
	settled     bool
	destination *destination
	pass        pass
	slip        limit.Slip
	ramps       []ramping // while a breaker closes gradually
	holds       []hold
	buffer      [2]hold // most claims need no more
}

type ramping struct {
	state *limit.State
	slip  limit.Slip
}

func (l *lease) balances() []admission.Balance {
	if len(l.holds) == 0 {
		return nil
	}
	b := make([]admission.Balance, len(l.holds))
	for i := range l.holds {
		b[i] = l.holds[i].account.balance
	}
	return b
}

// release gives reservations back as if they had never been made.
func (l *lease) release() {
	for i := range l.holds {
		l.holds[i].account.drop(&l.holds[i])
	}
	l.holds = nil
}

// leases are the open claims and, for who asks twice, the last settled ones.
type leases struct {
	known  map[string]*lease
	recent []string // ring of settled ids
	next   int
}

func (s *leases) add(l *lease) { s.known[l.grant.ID] = l }

func (s *leases) settled(l *lease) {
	l.settled = true
	if len(s.recent) < cap(s.recent) {
		s.recent = append(s.recent, l.grant.ID)
		return
	}
	delete(s.known, s.recent[s.next])
	s.recent[s.next] = l.grant.ID
	s.next = (s.next + 1) % len(s.recent)
}

// Settle implements admission.Store. It ignores the context: nothing in it waits, and a settlement must not be lost. A grant
// that is unknown or settled already changes nothing.
func (s *Store) Settle(_ context.Context, t admission.Settlement) error {
	s.tell(s.settle(t))
	return nil
}

func (s *Store) settle(t admission.Settlement) (moved []admission.BreakerView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases.known[t.Grant]
	if l == nil || l.settled {
		return nil
	}
	now := s.options.Now()
	s.settleDestination(now, l, t)
	for i := range l.holds {
		used := int64(-1)
		switch {
		case t.NotSent:
			used = 0
		case i < len(t.Spend):
			used = t.Spend[i]
		}
		l.holds[i].settle(now, used)
	}
	s.leases.settled(l)
	moved, s.moved = s.moved, nil
	return moved
}
