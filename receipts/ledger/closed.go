package ledger

import (
	"container/heap"
	"time"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
)

// closed is what is remembered of an ended operation: enough to answer a repetition and a question about its end.
type closed struct {
	id          stoplog.OperationID
	key, digest [32]byte
	receipt     receipts.Position
	actor       stoplog.Actor
	destination string
	connector   string
	action      string
	class       stoplog.Class
	state       State
	outcome     stoplog.Outcome
	replay      bool
	attempt     int32
	created     int64 // microseconds
	ended       int64
	joins       int64 // until then the key leads here
	expires     int64 // until then it is remembered
	index       int   // in the heap
}

// remembered is how long an operation can be asked for after its end at least, also when its key is free again.
const remembered = 10 * time.Minute

func newClosed(o *open) *closed {
	return &closed{
		id: o.ID, key: o.Key, digest: o.Digest, receipt: o.Receipt,
		actor: o.Effect.Actor, destination: o.Effect.Destination, connector: o.Effect.Connector, action: o.Effect.Action,
		class: o.Effect.Class, state: o.State, outcome: o.Outcome, replay: o.Replay, attempt: int32(o.Attempt),
		created: o.Created.UnixMicro(), ended: o.Updated.UnixMicro(), joins: o.Updated.Add(o.ttl).UnixMicro(),
		expires: o.Updated.Add(max(o.ttl, remembered)).UnixMicro(),
	}
}

func (c *closed) expired(now time.Time) bool { return c.expires <= now.UnixMicro() }

func (c *closed) operation() Operation {
	return Operation{
		ID: c.id, Key: c.key, Digest: c.digest, State: c.state, Outcome: c.outcome, Attempt: int(c.attempt), Replay: c.replay,
		Receipt: c.receipt, Created: time.UnixMicro(c.created), Updated: time.UnixMicro(c.ended),
		Effect: stoplog.Effect{
			Actor: c.actor, Destination: c.destination, Connector: c.connector, Action: c.action, Class: c.class, Digest: c.digest,
		},
	}
}

// closedSet remembers ended operations, a bounded number, by id and by expiry.
type closedSet struct {
	limit int
	byID  map[stoplog.OperationID]*closed
	heap  expiry
}

func newClosedSet(limit int) closedSet {
	return closedSet{limit: limit, byID: map[stoplog.OperationID]*closed{}}
}

func (s *closedSet) get(id stoplog.OperationID) *closed { return s.byID[id] }

// add remembers c and returns which operations are too many now.
func (s *closedSet) add(c *closed) []stoplog.OperationID {
	s.byID[c.id] = c
	heap.Push(&s.heap, c)
	var drop []stoplog.OperationID
	if len(s.heap) > s.limit {
		drop = append(drop, s.heap[0].id)
	}
	return drop
}

func (s *closedSet) remove(id stoplog.OperationID) *closed {
	c := s.byID[id]
	if c != nil {
		delete(s.byID, id)
		heap.Remove(&s.heap, c.index)
	}
	return c
}

// first is the operation whose time is over first, if it is over.
func (s *closedSet) first(now time.Time) (stoplog.OperationID, bool) {
	if len(s.heap) == 0 || !s.heap[0].expired(now) {
		return "", false
	}
	return s.heap[0].id, true
}

type expiry []*closed

func (e expiry) Len() int           { return len(e) }
func (e expiry) Less(i, j int) bool { return e[i].expires < e[j].expires }
func (e expiry) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

func (e *expiry) Push(x any) {
	c, _ := x.(*closed)
	c.index = len(*e)
	*e = append(*e, c)
}

func (e *expiry) Pop() any {
	old := *e
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*e = old[:len(old)-1]
	return c
}
