package admission

import (
	"context"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission/killswitch"
)

// Operate is what people do to a store. Nothing that serves agents may hold one.
type Operate interface {
	Levels(ctx context.Context) ([]killswitch.Entry, error)
	// Raise is open to automation.
	Raise(ctx context.Context, scope stoplog.Scope, r killswitch.Raise) (killswitch.Record, error)
	// Decide is a human's decision and the only way down. It answers the raises up to d.Acked; newer ones stand.
	Decide(ctx context.Context, scope stoplog.Scope, d killswitch.Decision) (killswitch.Record, error)
	Breakers(ctx context.Context) ([]BreakerView, error)
	// Force moves a breaker by hand: open, or half-open to start probing now.
	Force(ctx context.Context, destination, class string, to BreakerState) error
	Balances(ctx context.Context) ([]Balance, error)
	Destinations(ctx context.Context) ([]DestinationView, error)
}

// BreakerView is one breaker as an operator sees it.
type BreakerView struct {
	Destination, Class string
	State              BreakerState
	Epoch              uint64
	Since              time.Time
	RetryAt            time.Time // when open: earliest half-open
	Trips              int
	ProbesGood         int64
	Successes, Fails   int64   // in the window
	Ramp               float64 // cap in requests/s while closing gradually; 0 = none
}

// DestinationView is a destination's limits as an operator sees them.
type DestinationView struct {
	Destination string
	Tokens      float64 // left in the request bucket
	Seats       int64   // taken
	SeatLimit   int64
	Tenants     []TenantView
}

// TenantView is one tenant's part of a destination.
type TenantView struct {
	Tenant string
	Seats  int64
	Weight float64
}
