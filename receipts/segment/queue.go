package segment

import (
	"crypto/sha256"
	"errors"
	"time"

	"github.com/stoplog/stoplog/receipts"
)

const (
	maxGroupRecords = 1024
	maxGroupBytes   = 1 << 20
	eagerBytes      = 256 << 10 // a lot of this size does not wait for its interval
	maxBacklog      = 16 << 20  // bytes queued; beyond it the disk is too slow for what comes
)

// group is what is written and synced together.
type group struct {
	buf     []byte // 0x00 before each leaf: the prefix that RFC 6962 hashes with it
	entries []entry
	waits   bool // somebody waits
	born    time.Time

	done     chan struct{}
	finished bool
	err      error
}

type entry struct {
	receipt *receipts.Receipt
	hash    [32]byte
	end     int // of the leaf in buf
	waits   bool
}

// leaf i of the group.
func (g *group) leaf(i int) []byte {
	from := 0
	if i > 0 {
		from = g.entries[i-1].end
	}
	return g.buf[from+1 : g.entries[i].end]
}

// submit queues receipts for one group and fills in their places.
func (l *Log) submit(list []*receipts.Receipt, pos []receipts.Position, waits bool) (*group, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.rolling {
		l.rolled.Wait()
	}
	for _, r := range list {
		err := l.refusal(r.Type)
		if err != nil {
			return nil, err
		}
	}
	if len(list) > maxGroupRecords || len(list)*receipts.MaxLeaf > l.maxGroup() {
		return nil, errors.New("receipt log: too many receipts for one group")
	}
	if l.backlog > maxBacklog {
		return nil, unavailable("the receipt log cannot keep up", nil)
	}
	g := l.tail(len(list))
	for i, r := range list {
		pos[i] = l.add(g, r, waits)
	}
	eager := len(g.buf) >= eagerBytes
	if waits && !g.waits || eager || len(g.entries) == len(list) {
		g.waits = g.waits || waits
		l.wake()
	}
	return g, nil
}

func (l *Log) maxGroup() int { return int(min(maxGroupBytes, l.o.SegmentBytes/4)) }

// tail is the group that takes n more receipts. The caller holds mu.
func (l *Log) tail(n int) *group {
	if k := len(l.queue); k > 0 {
		g := l.queue[k-1]
		if len(g.entries)+n <= maxGroupRecords && len(g.buf)+n*receipts.MaxLeaf <= l.maxGroup() {
			return g
		}
	}
	g := l.newGroup()
	l.queue = append(l.queue, g)
	return g
}

// newGroup is an empty group, over the buffers of a written one where possible. The caller holds mu.
func (l *Log) newGroup() *group {
	g := &group{done: make(chan struct{}), born: time.Now()}
	if k := len(l.free); k > 0 {
		g.buf, g.entries = l.free[k-1].buf, l.free[k-1].entries
		l.free = l.free[:k-1]
	}
	return g
}

// recycle gives back the buffers of a group that is durable. The caller holds mu.
func (l *Log) recycle(g *group) {
	clear(g.entries)
	if len(l.free) < 4 {
		l.free = append(l.free, buffers{g.buf[:0], g.entries[:0]})
	}
	g.buf, g.entries = nil, nil
}

type buffers struct {
	buf     []byte
	entries []entry
}

// add gives a receipt its place and encodes it. The caller holds mu.
func (l *Log) add(g *group, r *receipts.Receipt, waits bool) receipts.Position {
	now := l.o.Now()
	r.Log, r.Seq = l.life.origin, l.next
	if r.Type != receipts.TypeLogOpen { // the birth has signed its time
		r.Time = time.UnixMicro(now.UnixMicro()).UTC()
		r.Mono = max(now.Sub(l.life.born), 0).Truncate(time.Microsecond)
	}
	from := len(g.buf)
	g.buf = append(g.buf, 0)
	buf, err := r.AppendJSON(g.buf)
	if err != nil { // somebody else's text must not cost us the record
		buf, err = r.Cleaned().AppendJSON(g.buf)
	}
	if err != nil {
		panic("receipt log: a cleaned receipt cannot be encoded: " + err.Error())
	}
	g.buf = buf
	l.next++
	l.backlog += len(g.buf) - from
	e := entry{receipt: r, hash: sha256.Sum256(g.buf[from:]), end: len(g.buf), waits: waits}
	g.entries = append(g.entries, e)
	return receipts.Position{Log: r.Log, Seq: r.Seq, Leaf: e.hash}
}

// take removes the first group if it is due. wait is how long it may still wait; < 0 if nothing is queued.
func (l *Log) take(now time.Time) (g *group, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil, -1
	}
	g = l.queue[0]
	due := g.waits || l.closing || len(l.queue) > 1 || len(g.buf) >= eagerBytes
	if l.full != nil && !g.waits && !l.closing {
		return nil, -1 // the retry of a full disk decides
	}
	if wait = g.born.Add(l.o.Interval).Sub(now); !due && wait > 0 {
		return nil, wait
	}
	l.pop()
	return g, 0
}

func (l *Log) pop() *group {
	g := l.queue[0]
	l.queue = l.queue[1:]
	l.backlog -= len(g.buf)
	return g
}

// finish wakes who waits. The caller holds mu.
func (g *group) finish(err error) {
	if !g.finished {
		g.finished, g.err = true, err
		close(g.done)
	}
}
