package receipts

import (
	"time"

	"github.com/stoplog/stoplog"
)

// Type is what a receipt records.
type Type string

const (
	TypeLogOpen  Type = "log.open"
	TypeLogSeal  Type = "log.seal"
	TypeLogPrune Type = "log.prune" // allowed pruning leaves a signed marker
	TypeLogGap   Type = "log.gap"   // a write failed: records that had a place but never became durable

	TypeDecision    Type = "decision"       // a decision that leaves no operation: refused, or a read or model call let through
	TypeOutcome     Type = "outcome"        // end of an effect without an operation
	TypeDispatching Type = "op.dispatching" // intent: durable before the first byte
	TypeOpOutcome   Type = "op.outcome"
	TypeOpReplayed  Type = "op.replayed"
	TypeOpConflict  Type = "op.conflict"
	TypeOpUnknown   Type = "op.unknown" // found DISPATCHING after a crash

	TypeHoldCreated   Type = "hold.created"
	TypeHoldReleased  Type = "hold.released"
	TypeHoldWithdrawn Type = "hold.withdrawn"
	TypeHoldExpired   Type = "hold.expired"

	TypeLevel   Type = "ctl.level"
	TypeBreaker Type = "ctl.breaker"
	TypePolicy  Type = "ctl.policy" // a configuration came into force
)

// Receipt is our signed record of one decision or outcome. (In SCITT a "receipt" is a log's proof of inclusion; ours is
// closer to a signed statement, and the proof is called inclusion proof.)
//
// Nothing secret enters a receipt, so nothing is ever redacted after hashing: bodies, recipients and objects appear as
// keyed commitments only, headers never. The JSON form is RFC 8785-canonical by construction; numbers are integers.
type Receipt struct {
	Type Type
	// Log, Seq, Time and Mono are set by the log at Append.
	Log  string
	Seq  int64
	Time time.Time     // UTC, microseconds
	Mono time.Duration // since log.open, microseconds

	Policy string // "sha256:…" of the configuration in force

	Operation stoplog.OperationID
	Attempt   int
	Intent    stoplog.IntentID
	Previous  stoplog.OperationID
	State     string // ledger state after this event, for op.* and hold.*

	Actor       stoplog.Actor
	Function    string
	Subject     string
	Destination string
	Connector   string
	Class       stoplog.Class
	Action      string
	Method      string
	Host        string
	Path        string // path template of the profile's operation; never the query, never the raw path

	Request    Commitment // raw body
	Recipients Count
	Citations  Count
	Amount     stoplog.Money
	Model      string

	Verdict stoplog.Verdict
	Decided bool // Verdict, Reason, Stage and Rule are meaningful
	Reason  stoplog.Reason
	Stage   string
	Rule    string
	Observe bool // judged and recorded, not enforced
	Stages  []StageVerdict
	Flags   []string // "link_outside", "truncated", "client_gone", "estimated", …

	Level        stoplog.Level
	Breaker      string
	BreakerEpoch uint64
	Probe        bool
	AttemptsLeft int
	DeadlineMS   int64
	Budgets      []BudgetLine

	Outcome    *OutcomeLine
	NotAfter   time.Time // op.dispatching: the latest instant a first byte may leave
	Idempotent string    // upstream idempotency: "agent", "stoplog" or ""

	Ledger *LedgerLine // op.* and hold.*: set by the ledger, from which its index is rebuilt

	Note map[string]string // ctl.* and log.*: small facts ("scope", "from", "to", "actor", "reason", "version")
}

// Commitment hides bytes behind a keyed hash: "h1:" + base64url(HMAC-SHA256(salt, label 0x00 bytes)). The salt lives in the
// vault beside the bytes, so that erasing it closes the commitment for good.
type Commitment struct {
	Hash  string
	Bytes int64
	Media string // media type without parameters
}

// Count is a commitment to a sorted list and its length.
type Count struct {
	Hash string
	N    int
}

// StageVerdict is one judge's verdict.
type StageVerdict struct {
	Stage   string
	Verdict stoplog.Verdict
	Reason  stoplog.Reason
	Rule    string
}

// BudgetLine is one budget before and after: reserved at a decision, actual at an outcome.
type BudgetLine struct {
	Budget   string
	Key      string
	Unit     string
	Limit    int64
	Before   int64 // used and held before this event
	Reserved int64
	Actual   int64 // -1 = not known yet
	Estimate bool  // Actual is an estimate
}

// OutcomeLine is the end of one attempt.
type OutcomeLine struct {
	Outcome    stoplog.Outcome
	Health     stoplog.Health
	Status     int    // HTTP status; 0 = none
	Sent       string // "none", "partial", "full"
	By         string // "response", "stream_end", "timeout", "abandoned", "crash", "human"
	ProviderID string // request id given by the destination
	Response   Commitment
	Micros     int64 // latency of the attempt
	FirstByte  int64 // microseconds to the first response byte; 0 = none
	Usage      stoplog.Usage
	Error      string // short class of the transport error ("reset", "timeout", "refused"), never its text
}

// LedgerLine is what the ledger needs to know an operation again after a restart. Nothing in it can be read or guessed
// without the secret in the vault folder.
type LedgerLine struct {
	Key        [32]byte      // claim key (keyed hash)
	Digest     [32]byte      // of the exact request, sealed
	KeyTTL     time.Duration // whole seconds
	NotBefore  time.Time     // of a hold
	Expires    time.Time     // of a hold
	Bytes      int64         // of a hold: length of the body
	Credential string        // of a hold
	Kept       bool          // the vault has the exact bytes
	Answer     bool          // the vault has the answer
}
