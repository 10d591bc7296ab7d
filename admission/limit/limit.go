// Package limit is what one destination has to give, as pure maths: a bucket of requests, a bucket of model tokens, a
// bucket of retries, seats, and each tenant's fair share of it all. Every method takes the time; nothing sleeps or locks.
//
// Check says whether an ask fits and takes nothing but a note of the tenant's demand; Take takes everything that Check
// priced; Settle gives back what an attempt did not use, and its seat.
//
// The bound that matters: over any T seconds at most Burst + Rate x T requests are taken, whatever was refused, given back
// or configured in between, because a bucket refills from one clock, never above its size, and is taken from only when it
// holds enough.
package limit

import (
	"math"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
)

const (
	// seatWait is told to who finds every seat taken: nobody knows when one is given back.
	seatWait = 100 * time.Millisecond
	// longestCool bounds how long a destination can silence a credential with one answer.
	longestCool = 15 * time.Minute
	// clockSlack: a clock that steps back by less refills nothing until it has caught up; by more, it is a new clock.
	clockSlack = time.Second
)

// Ask is what one attempt wants.
type Ask struct {
	Tenant   string
	Weight   float64 // in fair shares; not positive = 1
	Requests int64   // at least 1
	Tokens   int64
	Retry    bool
}

// Refusal is why an ask does not fit. The zero Refusal is none.
type Refusal struct {
	Reason  stoplog.Reason
	RetryIn time.Duration // 0 = waiting does not help
}

// State is what one destination has left. The zero State is a destination that nobody has used: full buckets.
type State struct {
	at       time.Time // of the last refill; zero = never
	requests bucket
	tokens   bucket
	retries  bucket
	cool     time.Time // no request before: the destination asked this credential to wait
	seats    int64
	share    share
}

// Slip is a priced ask: what Take takes and Settle gives back.
type Slip struct {
	tenant   *tenant
	at       time.Time
	requests float64
	tokens   float64
	retries  float64
	cost     float64 // seconds of the destination's capacity, in the scarcer dimension
	credit   float64 // tenant's share credit before the ask
}

// Check refills the buckets and prices the ask.
func (s *State) Check(now time.Time, a Ask, l admission.Limit) (Slip, Refusal) {
	tokens := l.TokenRate > 0 || l.TokenBurst > 0
	if !Usable(l) || a.Requests < 1 || a.Tokens < 0 ||
		float64(a.Requests) > l.Burst || tokens && float64(a.Tokens) > l.TokenBurst {
		return Slip{}, Refusal{Reason: stoplog.ReasonCostExceedsBurst}
	}
	p := Slip{requests: float64(a.Requests)}
	if tokens {
		p.tokens = float64(a.Tokens)
	}
	if a.Retry {
		p.retries = 1
	}
	now = s.refill(now, l)
	p.at, p.cost = now, p.requests/l.Rate
	if p.tokens > 0 {
		p.cost = max(p.cost, p.tokens/l.TokenRate)
	}
	p.tenant = s.share.demand(now, a.Tenant, a.Weight, p.cost, l)
	p.credit = s.share.credit(now, p.tenant, p.cost, l)
	return p, s.judge(now, p, l)
}

func (s *State) judge(now time.Time, p Slip, l admission.Limit) Refusal {
	tenantSeats := l.TenantSeats
	if tenantSeats <= 0 {
		tenantSeats = l.Seats
	}
	switch {
	case now.Before(s.cool):
		return Refusal{stoplog.ReasonRateLimited, s.cool.Sub(now)}
	case s.seats >= l.Seats:
		return Refusal{stoplog.ReasonSeatsTaken, helps(seatWait, l.Seats > 0)}
	case p.tenant.seats >= tenantSeats:
		return Refusal{stoplog.ReasonTenantSeatsTaken, seatWait}
	case s.requests.level < p.requests:
		return Refusal{stoplog.ReasonRateLimited, refillTime(p.requests-s.requests.level, l.Rate)}
	case s.tokens.level < p.tokens:
		return Refusal{stoplog.ReasonTokensLimited, refillTime(p.tokens-s.tokens.level, l.TokenRate)}
	case s.retries.level < p.retries:
		return Refusal{stoplog.ReasonRetryBudgetUsed, helps(refillTime(p.retries-s.retries.level, l.RetryRate), l.RetryBurst >= 1)}
	// Beyond its share a tenant may borrow what nobody uses: as long as the bucket stays at least half full.
	case p.credit < p.cost && s.requests.level-p.requests < l.Burst/2:
		return Refusal{stoplog.ReasonShareUsed, refillTime(p.cost-p.credit, s.share.rate(p.tenant))}
	}
	return Refusal{}
}

// Take takes what Check priced at the same instant and found to fit.
func (s *State) Take(p Slip) {
	s.requests.level -= p.requests
	s.tokens.level -= p.tokens
	s.retries.level -= p.retries
	s.seats++
	p.tenant.seats++
	p.tenant.credit = max(p.credit-p.cost, -p.cost)
}

// Use is how an attempt ended.
type Use struct {
	NotSent bool          // proven that nothing was sent: everything taken returns
	Tokens  int64         // really used; negative = unknown, what was taken stands
	Cool    time.Duration // the destination asked the credential to wait; at most 15 minutes are honoured
}

// Settle gives back the seat of a slip, and what it did not use. Call it once per Take.
func (s *State) Settle(now time.Time, p Slip, l admission.Limit, u Use) {
	s.seats = max(s.seats-1, 0)
	p.tenant.seats = max(p.tenant.seats-1, 0)
	switch {
	case u.NotSent:
		now = s.refill(now, l)
		s.requests.giveBack(p.requests, p.at, now, l.Rate, l.Burst)
		s.tokens.giveBack(p.tokens, p.at, now, l.TokenRate, l.TokenBurst)
		s.retries.giveBack(p.retries, p.at, now, l.RetryRate, l.RetryBurst)
		p.tenant.credit += p.cost
	case u.Tokens >= 0 && p.tokens > 0:
		now = s.refill(now, l)
		if left := p.tokens - float64(u.Tokens); left >= 0 {
			s.tokens.giveBack(left, p.at, now, l.TokenRate, l.TokenBurst)
		} else { // what the estimate missed becomes a debt of at most one bucket
			s.tokens.level = max(s.tokens.level+left, -l.TokenBurst)
		}
	}
	if u.Cool > 0 {
		until := now.Add(min(u.Cool, longestCool))
		if until.After(s.cool) {
			s.cool = until
		}
	}
}

// Requests is what the request bucket holds at now.
func (s *State) Requests(now time.Time, l admission.Limit) float64 {
	if s.at.IsZero() {
		return l.Burst
	}
	return min(l.Burst, s.requests.level+max(now.Sub(s.at), 0).Seconds()*l.Rate)
}

// Seats is how many are taken.
func (s *State) Seats() int64 { return s.seats }

// refill returns the time to go on with, which is never before the last one by less than clockSlack.
func (s *State) refill(now time.Time, l admission.Limit) time.Time {
	if s.at.IsZero() {
		s.at = now
		s.requests, s.tokens, s.retries = bucket{l.Burst, now}, bucket{l.TokenBurst, now}, bucket{l.RetryBurst, now}
		return now
	}
	gone := now.Sub(s.at).Seconds()
	if gone < 0 {
		gone = 0
		if s.at.Sub(now) <= clockSlack {
			now = s.at
		}
	}
	s.at = now
	s.requests.refill(now, gone, l.Rate, l.Burst)
	s.tokens.refill(now, gone, l.TokenRate, l.TokenBurst)
	s.retries.refill(now, gone, l.RetryRate, l.RetryBurst)
	return now
}

// Ramp is the limit of a destination whose breaker closes gradually, at rate requests per second. It is a State of its own
// that counts starts only, so that a broken class of operations ramps up without slowing the others.
func Ramp(rate float64, requests int64) admission.Limit {
	return admission.Limit{Rate: rate, Burst: max(float64(requests), 1+rate/20), Seats: math.MaxInt64}
}

// Usable reports whether the limits mean something: zero refuses everything, and so does what is not a finite number.
func Usable(l admission.Limit) bool {
	for _, v := range [...]float64{l.Rate, l.Burst, l.TokenRate, l.TokenBurst, l.RetryRate, l.RetryBurst} {
		if !(v >= 0) || v > math.MaxInt64 {
			return false
		}
	}
	return l.Rate > 0 && (l.TokenRate > 0 || l.TokenBurst == 0)
}

func helps(d time.Duration, ever bool) time.Duration {
	if !ever {
		return 0
	}
	return d
}
