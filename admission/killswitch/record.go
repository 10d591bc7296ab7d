// Package killswitch holds the state of the kill switch: per scope one record that merges in any order.
//
// A record is a join semilattice: a human's decision with the epoch that he has seen, and the newest raise per level. Two
// copies from any transports merge without regard to order or repetition, automation has no way to write a lowering, and
// a raise that the human had not seen survives his decision.
package killswitch

import (
	"time"

	"github.com/stoplog/stoplog"
)

// Raise asks for at least a level. Automation and people may raise.
type Raise struct {
	Level  stoplog.Level
	Epoch  uint64 // issued by the store: greater than all that it has seen
	Actor  string // who ("user:alice", "automation:breaker/slack")
	Reason string
	At     time.Time
}

// Decision is a human's word and the only thing that lowers.
type Decision struct {
	Level  stoplog.Level
	Epoch  uint64 // issued by the store; the newest decision holds
	Acked  uint64 // raises up to this epoch were seen and are answered; a stale view revives what it had not seen
	Actor  string
	Reason string
	At     time.Time
}

// Record is the state of one scope. The zero Record is L0.
type Record struct {
	Decision Decision
	Raises   [4]Raise // newest per level; index 0 unused
}

// Entry is a record with its scope.
type Entry struct {
	Scope  stoplog.Scope
	Record Record
}

// Level is the effective level of the record.
func (r Record) Level() stoplog.Level {
	l := r.Decision.Level
	for i := stoplog.L3; i > stoplog.L0; i-- {
		if r.Raises[i].Epoch > r.Decision.Acked && i > l {
			return i
		}
	}
	return l
}

// Epoch is the newest epoch in the record: what a human who looks at it has seen.
func (r Record) Epoch() uint64 {
	e := max(r.Decision.Epoch, r.Decision.Acked)
	for _, x := range r.Raises {
		e = max(e, x.Epoch)
	}
	return e
}

// Merge joins two copies. It is commutative, associative and idempotent.
func Merge(a, b Record) Record {
	if decisionLess(a.Decision, b.Decision) {
		a.Decision = b.Decision
	}
	for i := range a.Raises {
		if raiseLess(a.Raises[i], b.Raises[i]) {
			a.Raises[i] = b.Raises[i]
		}
	}
	return a
}

// The greater epoch wins; a tie goes to the stricter decision. The remaining fields only make the order total, so that
// merging is commutative to the byte.
func decisionLess(a, b Decision) bool {
	switch {
	case a.Epoch != b.Epoch:
		return a.Epoch < b.Epoch
	case a.Acked != b.Acked:
		return a.Acked > b.Acked
	case a.Level != b.Level:
		return a.Level < b.Level
	case !a.At.Equal(b.At):
		return a.At.Before(b.At)
	case a.Actor != b.Actor:
		return a.Actor < b.Actor
	default:
		return a.Reason < b.Reason
	}
}

func raiseLess(a, b Raise) bool {
	switch {
	case a.Epoch != b.Epoch:
		return a.Epoch < b.Epoch
	case !a.At.Equal(b.At):
		return a.At.Before(b.At)
	case a.Actor != b.Actor:
		return a.Actor < b.Actor
	default:
		return a.Reason < b.Reason
	}
}
