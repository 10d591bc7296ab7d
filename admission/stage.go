package admission

import (
	"context"
	"time"

	"github.com/stoplog/stoplog"
)

// Case is what the stages judge. Stages MUST NOT change it.
type Case struct {
	Effect    *stoplog.Effect
	Operation stoplog.OperationID
	Key       [32]byte // claim key of the operation; zero for effects that need none
	// BreakerClass is the part of the destination that fails on its own (an operation class, a model); "" = the destination.
	BreakerClass string
	Received     time.Time // when the request was accepted; carries the monotonic clock
	Released     bool      // the effect was held or parked and is being re-observed
}

// Opinion is what one stage thinks of a case. The zero Opinion denies.
type Opinion struct {
	Decision stoplog.Decision
	Charges  Charges
}

// Stage is one judge.
//
// Judge MUST NOT take anything from a store, send anything or block beyond ctx. It MAY look things up. An error means
// Deny: the pipeline, not the stage, turns it into a decision, so that no stage can forget to fail closed.
type Stage interface {
	Name() string // unique, stable, snake_case; goes into receipts and metrics
	Judge(ctx context.Context, c *Case) (Opinion, error)
}
