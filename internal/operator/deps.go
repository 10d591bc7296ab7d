package operator

import (
	"context"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/admission"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/ledger"
)

// Deps is what the API works on. All fields are needed, except where they say otherwise.
type Deps struct {
	Operate  admission.Operate
	Ledger   Operations
	Receipts Receipts
	Effects  Effects
	Config   Config
	Log      Log
	// Verify proves the receipt log from its files, offline. A full stop is not lowered unless it returns nil.
	Verify func(ctx context.Context) error
	// Token opens the API on the admin port. Empty = it opens for nobody.
	Token string
	// Hosts are names, beside IP addresses and localhost, that a request on the admin port may give as its Host.
	Hosts   []string
	Version string
	// ReleaseTime is how long one release of many may wait for limits; 0 = one minute.
	ReleaseTime time.Duration
}

// Operations is what the API reads of the ledger.
type Operations interface {
	Get(ctx context.Context, id stoplog.OperationID) (ledger.Operation, error)
	Holds(ctx context.Context) ([]ledger.Operation, error)
	Open(ctx context.Context) ([]ledger.Operation, error)
}

// Log takes the receipts of changes. See receipts.Appender.
type Log interface {
	Append(ctx context.Context, r ...*receipts.Receipt) ([]receipts.Position, error)
}

// Receipts reads the receipt logs of this data directory, oldest log first.
type Receipts interface {
	// Scan calls fn in order for every durable receipt behind the cursor for which keep is true (nil = all), and returns the
	// cursor behind the last one that it looked at. An error of fn ends it and is returned. The zero Cursor is the start.
	Scan(ctx context.Context, from Cursor, keep func(*receipts.Receipt) bool, fn func(*receipts.Receipt) error) (Cursor, error)
}

// Cursor is a place in the receipt logs: behind receipt Seq-1 of Log.
type Cursor struct {
	Log string
	Seq int64
}

// Effects moves kept effects. Implementations write the receipts (hold.released, hold.withdrawn) with who asked, in the same
// durable step as the change.
type Effects interface {
	// Release judges a kept effect anew, by everything that is in force now, and sends it if it is allowed. A refusal is no
	// error: it is the result's Decision.
	Release(ctx context.Context, id stoplog.OperationID, by, reason string) (ReleaseResult, error)
	// Withdraw ends a kept effect without sending it.
	Withdraw(ctx context.Context, id stoplog.OperationID, by, reason string) error
}

// ReleaseResult is what became of a kept effect.
type ReleaseResult struct {
	Decision stoplog.Decision
	Sent     bool            // a first byte may have left
	Outcome  stoplog.Outcome // meaningful when Sent
	Status   int             // HTTP status of the destination; 0 = none
	Digest   [32]byte        // of the exact request that was sent, or would have been
}

// Config is the configuration in force.
type Config interface {
	Version() string
	// Dump is the whole configuration as YAML. It holds names of secrets' sources, never secrets.
	Dump() ([]byte, error)
	Destinations() []Destination
	// Reload reads the configuration's files anew. What is wrong in them is the error, and then the old one stays in force.
	// It writes its own receipt (ctl.policy) before the change.
	Reload(ctx context.Context, by string) (version string, err error)
}

// Destination is one configured destination as people see it.
type Destination struct {
	Name      string `json:"name"`
	Connector string `json:"connector"`
	URL       string `json:"url"`
	Local     string `json:"local"`           // base URL for agents
	Bound     string `json:"bound,omitempty"` // URL of a listener that is bound to it
}
