package admission

import (
	"context"
	"time"

	"github.com/stoplog/stoplog"
)

// Charges is what one attempt of an effect takes or requires. Every part is optional except Level and Destination, without
// which the store refuses the claim. Each stage fills the parts that it owns; no two stages own the same part.
type Charges struct {
	Level       LevelCondition
	Destination DestinationCharge
	Intent      IntentCharge
	Spend       []SpendCharge
}

// LevelCondition holds when the effective level over Scopes is below Below.
type LevelCondition struct {
	Scopes []stoplog.Scope
	Below  stoplog.Level // L1, L2 or L3; the zero value can never hold
}

// DestinationCharge asks a destination's breaker to let one attempt through and takes one unit of its rate, tokens of its
// token rate, and a seat.
type DestinationCharge struct {
	Name     string // destination
	Class    string // operation class: breakers are kept per destination and class of operation, so that one broken operation does not stop the others; "" = the destination's own
	Tenant   string
	Weight   float64 // tenant's weight in fair shares; 0 counts as 1
	Requests int64   // usually 1
	Tokens   int64   // model tokens; 0 for others
	Retry    bool    // an attempt after the first of its intent: also takes from the retry bucket
	Limit    Limit
	Breaker  Breaker
}

// Limit is a destination's limits, fleet-wide by definition. A zero Rate, Burst or Seats refuses everything: there is no
// "unlimited" by omission.
type Limit struct {
	Rate, Burst           float64       // requests per second; bucket size
	TokenRate, TokenBurst float64       // model tokens per second; bucket size. Both zero = dimension not used
	Seats, TenantSeats    int64         // concurrency ceiling; ceiling of one tenant
	RetryRate, RetryBurst float64       // retry bucket; zero = no retries
	ShareWindow           time.Duration // window of the fair-share water level; 0 = 250 ms
}

// Breaker is how a destination's breaker behaves (profile "destination": needs no human).
type Breaker struct {
	Window       time.Duration // outcomes counted, at most 10 minutes
	MinRequests  int64         // outcomes needed before the rate counts
	FailureBPS   int64         // failure rate that opens, in basis points
	Consecutive  int64         // failures in a row that open whatever the volume
	Cooldown     time.Duration // first open period; doubles with each trip in a row
	MaxCooldown  time.Duration
	ProbeSpacing time.Duration // least time between probes; 52.632 ms keeps any second at 20 or less
	CloseAfter   int64         // successful probes needed
	RampDouble   time.Duration // gradual close: the cap doubles once per RampDouble; 0 = no ramp
}

// IntentCharge takes one attempt of an intent.
type IntentCharge struct {
	ID       stoplog.IntentID
	Tenant   string
	Budget   int           // attempts of the whole intent; set by whoever meets the intent first
	Lifetime time.Duration // from now to the intent's deadline; counts only at the first claim of the intent
}

// SpendCharge reserves an estimate on an account. Key names account, scope and period ("model/tenant/acme/2026-11-30T21").
type SpendCharge struct {
	Budget   string // configured budget, for receipts and metrics
	Key      string
	Unit     string // "usd_micro", "token", "message"
	Limit    int64  // of the period
	Estimate int64
	MaxHolds int64         // most concurrent reservations; 0 = no bound
	Hold     time.Duration // after which an unsettled reservation becomes spend (fail closed)
	Ends     time.Time     // end of the period

	// Actual is what a call of this usage costs in Unit; nil = the estimate stands. The store never calls it.
	Actual func(stoplog.Usage) int64
}

// Claim is all charges of one attempt.
type Claim struct {
	ID        string // unique per attempt; claiming it twice takes once
	Operation stoplog.OperationID
	Class     stoplog.Class
	Charges   Charges
}

// Grant is the proof of a claim: a lease that MUST be settled exactly once.
type Grant struct {
	ID           string
	At           time.Time // the store's clock
	LevelVersion uint64    // of the level table the claim was judged by
	Level        stoplog.Level
	BreakerEpoch uint64
	BreakerState BreakerState
	Probe        bool      // admitted by a half-open breaker: its outcome decides, and it has the attempt deadline
	Attempt      int       // 1 for the first
	AttemptsLeft int       // of the intent
	Deadline     time.Time // of the intent
	Spend        []Balance // after reservation, in the order of the charges
}

// Balance is one spend account as a claim or an operator sees it.
type Balance struct {
	Budget, Key, Unit string
	Limit, Used, Held int64
	Ends              time.Time
}

// BreakerState is one of the three states that are stored; a ramp is an attribute of closed.
type BreakerState uint8

const (
	BreakerClosed BreakerState = iota // traffic flows
	BreakerOpen
	BreakerHalfOpen
)

func (s BreakerState) String() string {
	return [...]string{"closed", "open", "half_open"}[min(int(s), 2)]
}

// Settlement gives a grant back.
type Settlement struct {
	Grant   string
	Health  stoplog.Health
	Whole   bool          // HealthBad speaks of the whole destination, not only of the claim's class
	Trip    bool          // an explicit signal to open, whatever the epoch
	Cool    time.Duration // HealthThrottled: the destination asked this credential to wait this long
	Tokens  int64         // model tokens really used; -1 = unknown, the estimate stands
	Spend   []int64       // really used per spend charge, in the claim's order; -1 = unknown, the estimate stands
	NotSent bool          // proven that nothing was sent: rate and reservations return; the attempt stays counted
}

// Store owns everything scarce. It is the only judge of levels, breakers, limits and budgets at the moment of the claim.
//
// Implementations MUST take all charges of a claim or none, by the store's own clock, within the context's deadline;
// MUST answer a claim id that they have granted with the same grant; MUST refuse when state is missing or unreadable;
// MUST return seats of a process that died. A refusal is a *stoplog.Error whose Reason says which charge failed and whose
// RetryAfter is set where waiting helps; any other error means that the store is away and callers MUST treat it as refused.
type Store interface {
	Claim(ctx context.Context, c Claim) (Grant, error)
	// Settle MUST be idempotent by grant id and MUST work after the caller's request is gone (give it a context of its own).
	Settle(ctx context.Context, s Settlement) error
	// Level is the effective level over scopes as this process knows it now, without a round trip; an error means that
	// the level cannot be established within the staleness bound. It is the last look before the first byte.
	Level(scopes []stoplog.Scope) (stoplog.Level, error)
	// LevelChanged is closed at the next change of any level; callers fetch it anew after each change.
	LevelChanged() <-chan struct{}
}
