package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/vault"
)

// Log is what the ledger needs of the log of receipts.
type Log interface {
	receipts.Appender
	Reader() *receipts.Reader
}

// Options of a Local. The zero value is usable.
type Options struct {
	Now       func() time.Time
	MaxClosed int           // ended operations that are remembered, at most; the one that expires first goes first; default 200,000
	Retention time.Duration // how long exact bytes are kept after an operation's end; default 7 days
	Orphan    time.Duration // age at which bytes that no receipt names are deleted; default 1 h
}

// Local is the ledger of one process over its log and vault: the log is the only truth, the maps are an index of it.
// It is safe for concurrent use; concurrent calls share the log's syncs.
type Local struct {
	o     Options
	log   Log
	vault *vault.Vault

	mu      sync.Mutex
	open    map[stoplog.OperationID]*open
	keys    map[[32]byte]stoplog.OperationID
	closed  closedSet
	garbage []stoplog.OperationID // forgotten; their answers are deleted at the next Sweep

	collected time.Time // last look for bytes to delete
}

// open is an operation that has not ended.
type open struct {
	Operation
	ttl  time.Duration
	kept bool // the vault has its bytes
	busy bool // a change is being written: nothing else may touch it
}

var _ Ledger = (*Local)(nil)

// NewID is the id of a new operation: "op_" and a UUIDv7, which sorts by time.
func NewID() stoplog.OperationID {
	return stoplog.OperationID("op_" + uuid.Must(uuid.NewV7()).String())
}

// Open rebuilds the ledger from the log. Operations that an earlier life left DISPATCHING become UNKNOWN, each with a
// receipt that is durable when Open returns.
func Open(log Log, v *vault.Vault, o Options) (*Local, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxClosed == 0 {
		o.MaxClosed = 200_000
	}
	if o.Retention == 0 {
		o.Retention = 7 * 24 * time.Hour
	}
	if o.Orphan == 0 {
		o.Orphan = time.Hour
	}
	l := &Local{
		o: o, log: log, vault: v,
		open: map[stoplog.OperationID]*open{}, keys: map[[32]byte]stoplog.OperationID{}, closed: newClosedSet(o.MaxClosed),
	}
	err := l.rebuild()
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return l, nil
}

// Key is the claim key of an effect that came with an idempotency key: who, where and which key.
func (l *Local) Key(tenant, destination, agent, key string) [32]byte {
	return l.mac("claim", []byte(tenant), []byte(destination), []byte(agent), []byte(key))
}

// DigestKey is the claim key of an effect without one: who, where and which content. intent may be empty.
func (l *Local) DigestKey(tenant, destination, agent string, intent stoplog.IntentID, digest [32]byte) [32]byte {
	return l.mac("claim by content", []byte(tenant), []byte(destination), []byte(agent), []byte(intent), digest[:])
}

func (l *Local) mac(label string, parts ...[]byte) [32]byte {
	sum, err := l.vault.MAC(label, parts...)
	if err != nil {
		panic("ledger: " + err.Error()) // the root key was read when the vault was opened
	}
	return sum
}

// Committer makes the commitments of an operation's receipts.
func (l *Local) Committer(id stoplog.OperationID) (receipts.Committer, error) {
	return l.vault.Committer(id)
}

// Lookup finds the live operation with this key.
func (l *Local) Lookup(_ context.Context, key [32]byte) (Operation, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	op, ok := l.byKey(key)
	return op, ok, nil
}

// byKey finds an operation by its key. The caller holds mu.
func (l *Local) byKey(key [32]byte) (Operation, bool) {
	id, ok := l.keys[key]
	if !ok {
		return Operation{}, false
	}
	if op := l.open[id]; op != nil {
		return op.snapshot(), true
	}
	c := l.closed.get(id)
	if c == nil || c.joins <= l.o.Now().UnixMicro() {
		delete(l.keys, key)
		return Operation{}, false
	}
	return c.operation(), true
}

// Get returns an operation; reason not_found if it is not remembered.
func (l *Local) Get(_ context.Context, id stoplog.OperationID) (Operation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.get(id)
}

func (l *Local) get(id stoplog.OperationID) (Operation, error) {
	if op := l.open[id]; op != nil {
		return op.snapshot(), nil
	}
	if c := l.closed.get(id); c != nil {
		return c.operation(), nil
	}
	return Operation{}, notFound(id)
}

func notFound(id stoplog.OperationID) error {
	return stoplog.Refuse(stoplog.ReasonNotFound, "operation "+string(id)+" is not known")
}

// snapshot is a copy that the caller may keep. An operation whose first intent is being written counts as DISPATCHING.
func (o *open) snapshot() Operation {
	c := o.Operation
	if c.Hold != nil {
		h := *c.Hold
		c.Hold = &h
	}
	return c
}

// Bytes are the exact bytes of a held operation.
func (l *Local) Bytes(_ context.Context, id stoplog.OperationID) (*stoplog.Exact, error) {
	e, err := l.vault.Get(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &stoplog.Error{Reason: stoplog.ReasonNotFound, Detail: "no bytes are kept of " + string(id), Err: err}
	}
	if err != nil {
		return nil, &stoplog.Error{Reason: stoplog.ReasonEvidenceUnavailable, Detail: "kept bytes of " + string(id), Err: err}
	}
	return &e.Exact, nil
}

// Answer is the stored answer of a finished operation; reason not_found if none is kept or it was lost.
func (l *Local) Answer(_ context.Context, id stoplog.OperationID) (*stoplog.Answer, error) {
	a, err := l.vault.Answer(id)
	if err != nil {
		return nil, &stoplog.Error{Reason: stoplog.ReasonNotFound, Detail: "no answer is kept of " + string(id), Err: err}
	}
	return a, nil
}

// Holds lists held and parked operations, oldest first.
func (l *Local) Holds(context.Context) ([]Operation, error) {
	return l.list(func(o *open) bool { return o.Hold != nil }), nil
}

// Open lists operations that are neither final nor held, oldest first.
func (l *Local) Open(context.Context) ([]Operation, error) {
	return l.list(func(o *open) bool { return o.Hold == nil }), nil
}

func (l *Local) list(want func(*open) bool) []Operation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Operation
	for _, o := range l.open {
		if want(o) {
			list = append(list, o.snapshot())
		}
	}
	sortOldest(list)
	return list
}
