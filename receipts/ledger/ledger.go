package ledger

import (
	"context"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
)

// State is where an operation stands.
type State uint8

const (
	Proposed     State = iota // known; waits (held, parked) or is being judged
	Dispatching               // its intent is durable; bytes may leave or have left
	Confirmed                 // a definite answer: applied, or definitely rejected
	Unknown                   // the answer was lost; never sent again blindly
	Superseded                // replaced by a later operation
	ManualReview              // a human must find out
	Void                      // ended before dispatch: withdrawn, expired
)

var stateNames = [...]string{"proposed", "dispatching", "confirmed", "unknown", "superseded", "manual_review", "void"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// ParseState reads the name of a state.
func ParseState(s string) (State, bool) {
	for i, n := range stateNames {
		if n == s {
			return State(i), true
		}
	}
	return Unknown, false
}

// Operation is one logical effect.
type Operation struct {
	ID       stoplog.OperationID
	Key      [32]byte // claim key: who, where and which key or content; unique among live operations
	Digest   [32]byte // of the exact request: same key and other digest is a conflict
	Effect   stoplog.Effect
	State    State
	Outcome  stoplog.Outcome // of the last attempt
	Attempt  int
	NotAfter time.Time
	Hold     *Hold // while held or parked
	Created  time.Time
	Updated  time.Time
	Receipt  receipts.Position // last receipt of this operation
	Replay   bool              // an answer is stored
}

// Hold says why and how long an operation waits.
type Hold struct {
	Verdict    stoplog.Verdict // Hold or Park
	Reason     stoplog.Reason
	Level      stoplog.Level
	NotBefore  time.Time // zero = any time
	Expires    time.Time
	Bytes      int64
	Credential string // where the credential will come from at release: "injected", "none"
}

// Proposal is what is needed to make an operation known.
type Proposal struct {
	ID     stoplog.OperationID // NewID() for a new operation; that of a held operation to dispatch it after release
	Key    [32]byte
	KeyTTL time.Duration // how long the key joins later requests to this operation after its end
	Effect *stoplog.Effect
	Exact  *stoplog.Exact
}

// Known is the error of Begin and Keep when the key belongs to an operation already.
type Known struct{ Operation Operation }

func (k *Known) Error() string {
	return "operation " + string(k.Operation.ID) + " is known: " + k.Operation.State.String()
}

// Ledger owns operations. Every method that changes one writes its receipt in the same durable step: when it returns nil,
// both survive kill -9 and power loss; when it returns an error, neither may be assumed. Implementations MUST refuse an
// edge that the state table does not have.
type Ledger interface {
	// Lookup finds the live operation with this key.
	Lookup(ctx context.Context, key [32]byte) (Operation, bool, error)
	Get(ctx context.Context, id stoplog.OperationID) (Operation, error)
	// Begin makes a new (or released) operation DISPATCHING with its first intent. A taken key is a *Known.
	Begin(ctx context.Context, p Proposal, notAfter time.Time, r *receipts.Receipt) (Operation, error)
	// Attempt makes a further intent of a DISPATCHING operation whose last attempt was proven not sent, or which may be
	// repeated under the same key.
	Attempt(ctx context.Context, id stoplog.OperationID, attempt int, notAfter time.Time, r *receipts.Receipt) error
	// Finish records the outcome. NotSent ends the operation as Void; Confirmed and Rejected as Confirmed; Unknown as Unknown.
	// After NotSent and Rejected the same key may be tried anew: nothing was applied. Late evidence about a final state is recorded and moves nothing.
	Finish(ctx context.Context, id stoplog.OperationID, o stoplog.Outcome, a *stoplog.Answer, r *receipts.Receipt) error
	// Keep stores the exact bytes of a held or parked effect, encrypted, before the receipt that names it.
	Keep(ctx context.Context, p Proposal, h Hold, r *receipts.Receipt) (Operation, error)
	// Bytes are the exact bytes of a held operation.
	Bytes(ctx context.Context, id stoplog.OperationID) (*stoplog.Exact, error)
	// Answer is the stored answer of a finished operation.
	Answer(ctx context.Context, id stoplog.OperationID) (*stoplog.Answer, error)
	// Withdraw ends a held operation without sending it.
	Withdraw(ctx context.Context, id stoplog.OperationID, r *receipts.Receipt) error
	// Holds lists held and parked operations, oldest first.
	Holds(ctx context.Context) ([]Operation, error)
	// Open lists operations that are neither final nor held, oldest first.
	Open(ctx context.Context) ([]Operation, error)
}
