package memory

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

const (
	// defaultHold ends a reservation that names no end itself.
	defaultHold = 15 * time.Minute
	// lateSettle is how long an account is kept after its period, for the answers that come late.
	lateSettle = time.Hour
	// holdWait is told to who finds too many reservations open.
	holdWait = time.Second
)

type accounts struct {
	known map[string]*account
	swept time.Time
}

// account is one budget in one period. used + held <= limit at every reservation.
type account struct {
	balance admission.Balance
	holds   int64
	first   *hold     // open reservations, newest first
	expires time.Time // the soonest of them, or earlier
}

// hold is one reservation. One that nobody settles in time becomes spend at its estimate: a process that dies must not give
// money away. A settlement that comes after all corrects the difference.
type hold struct {
	account    *account
	prev, next *hold
	estimate   int64
	expires    time.Time
	expired    bool
}

// reserve takes all charges or none.
func (s *accounts) reserve(now time.Time, l *lease, charges []admission.SpendCharge) *stoplog.Error {
	if len(charges) > len(l.buffer) {
		l.holds = make([]hold, 0, len(charges))
	} else {
		l.holds = l.buffer[:0]
	}
	for i := range charges {
		c := &charges[i]
		a := s.account(now, c)
		refusal := a.refuses(now, c)
		if refusal != nil {
			l.release()
			return refusal
		}
		l.holds = append(l.holds, hold{account: a, estimate: c.Estimate, expires: now.Add(cmp.Or(max(c.Hold, 0), defaultHold))})
		a.open(&l.holds[len(l.holds)-1])
	}
	return nil
}

func (s *accounts) account(now time.Time, c *admission.SpendCharge) *account {
	a := s.known[c.Key]
	if a == nil {
		s.sweep(now)
		a = &account{balance: admission.Balance{Key: c.Key}}
		s.known[c.Key] = a
	}
	a.balance.Budget, a.balance.Unit, a.balance.Limit, a.balance.Ends = c.Budget, c.Unit, c.Limit, c.Ends
	a.expire(now)
	return a
}

// sweep forgets accounts whose period is long over. It runs when a new period may have begun.
func (s *accounts) sweep(now time.Time) {
	if now.Sub(s.swept) < time.Minute {
		return
	}
	s.swept = now
	for k, a := range s.known {
		if a.ended(now.Add(-lateSettle)) && a.first == nil {
			delete(s.known, k)
		}
	}
}

func (a *account) ended(now time.Time) bool {
	return !a.balance.Ends.IsZero() && !now.Before(a.balance.Ends)
}

func (a *account) refuses(now time.Time, c *admission.SpendCharge) *stoplog.Error {
	b := &a.balance
	switch {
	case c.Key == "" || c.Estimate < 0:
		return stoplog.Refuse(stoplog.ReasonInternal, "a spend charge lacks its key or has a negative estimate")
	case c.MaxHolds > 0 && a.holds >= c.MaxHolds:
		return &stoplog.Error{
			Reason: stoplog.ReasonBudgetExhausted, RetryAfter: holdWait, Detail: c.Budget + ": too many reservations are open",
		}
	case c.Estimate <= c.Limit-sum(b.Used, b.Held):
		return nil
	}
	e := &stoplog.Error{Reason: stoplog.ReasonBudgetExhausted, Detail: c.Budget}
	if c.Estimate <= c.Limit && !c.Ends.IsZero() {
		e.RetryAfter = max(c.Ends.Sub(now), 0)
	}
	return e
}

func (a *account) open(h *hold) {
	a.balance.Held += h.estimate
	a.holds++
	if a.first == nil || h.expires.Before(a.expires) {
		a.expires = h.expires
	}
	h.next = a.first
	if a.first != nil {
		a.first.prev = h
	}
	a.first = h
}

func (a *account) drop(h *hold) {
	a.balance.Held -= h.estimate
	a.holds--
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		a.first = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.prev, h.next = nil, nil
}

// expire turns reservations that are past their time into spend.
func (a *account) expire(now time.Time) {
	if a.first == nil || now.Before(a.expires) {
		return
	}
	soonest := time.Time{}
	for h := a.first; h != nil; {
		next := h.next
		if !now.Before(h.expires) {
			a.drop(h)
			h.expired = true
			a.balance.Used = sum(a.balance.Used, h.estimate)
		} else if soonest.IsZero() || h.expires.Before(soonest) {
			soonest = h.expires
		}
		h = next
	}
	a.expires = soonest
}

// settle replaces the estimate by what was really used; negative = unknown, the estimate stands.
func (h *hold) settle(now time.Time, used int64) {
	h.account.expire(now)
	if used < 0 {
		used = h.estimate
	}
	b := &h.account.balance
	if h.expired {
		b.Used = max(b.Used-h.estimate, 0)
	} else {
		h.account.drop(h)
	}
	b.Used = sum(b.Used, used)
}

// sum adds two amounts that are not negative and stops at the greatest number.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Restore takes over the spend of running periods, as the receipts tell it at a start. What was held by a process that died
// counts as used. An account keeps the greater of what it has and what it is told; limits come with the next claim.
func (s *Store) Restore(balances []admission.Balance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	for _, b := range balances {
		if b.Key == "" || b.Used < 0 || b.Held < 0 {
			continue
		}
		used := sum(b.Used, b.Held)
		a := s.accounts.known[b.Key]
		if a == nil {
			a = &account{balance: b}
			a.balance.Used, a.balance.Held = 0, 0
			if a.ended(now) {
				continue
			}
			s.accounts.known[b.Key] = a
		}
		a.balance.Used = max(a.balance.Used, used)
	}
}

func (s *accounts) balances(now time.Time) []admission.Balance {
	all := make([]admission.Balance, 0, len(s.known))
	for _, a := range s.known {
		a.expire(now)
		if !a.ended(now) {
			all = append(all, a.balance)
		}
	}
	slices.SortFunc(all, func(x, y admission.Balance) int { return cmp.Compare(x.Key, y.Key) })
	return all
}
