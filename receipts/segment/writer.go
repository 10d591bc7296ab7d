package segment

import (
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk"
	"github.com/stoplog/stoplog/receipts/frame"
)

// writer is the state of the writer goroutine.
type writer struct {
	file  *file
	off   int64      // behind the last durable COMMIT
	tree  frame.Tree // of all durable records
	root  tlog.Hash
	out   []byte
	spare disk.File // allocated next segment, if any

	settled bool      // the last COMMIT says that everything before it is durable
	wrote   time.Time // last group
	watched time.Time // last look at the file's name
	tried   time.Time // last try for space
}

func (w *writer) close() {
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
	if w.spare != nil {
		_ = w.spare.Close()
		w.spare = nil
	}
}

// run is the writer goroutine: it does what is due and sleeps until something is.
func (l *Log) run() {
	defer close(l.stopped)
	timer := time.NewTimer(l.o.WatchEvery)
	defer timer.Stop()
	for {
		l.gather()
		now := time.Now()
		g, wait := l.take(now)
		if g != nil {
			l.write(g)
			if now.Sub(l.w.watched) >= l.o.WatchEvery { // never idle: chores are due all the same
				l.chores(now)
			}
			continue
		}
		if l.ended() {
			l.end()
			return
		}
		wait = min(l.chores(time.Now()), orForever(wait))
		timer.Reset(wait)
		select {
		case <-l.kick:
		case <-timer.C:
		}
	}
}

// gather lets whoever is about to write join the next sync. On one processor a sync holds it: without a turn for the others
// before it, each sync would carry only the few records that came since the last.
func (l *Log) gather() {
	last := int64(-1)
	for range 16 {
		l.mu.Lock()
		n, waits := l.next, len(l.queue) > 0 && l.queue[0].waits
		l.mu.Unlock()
		if !waits || n == last {
			return
		}
		last = n
		runtime.Gosched()
	}
}

func orForever(d time.Duration) time.Duration {
	if d < 0 {
		return time.Hour
	}
	return d
}

// ended reports whether Close was called and nothing is queued.
func (l *Log) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing && (len(l.queue) == 0 || l.poison != nil)
}

// end seals the log. Whatever fails here leaves a log without a seal, which its successor will tell.
func (l *Log) end() {
	if l.failure() != nil {
		return
	}
	l.seal()
	if l.failure() == nil {
		l.trim()
	}
}

// trim gives back the space behind the last record.
func (l *Log) trim() {
	w := &l.w
	err := w.file.Truncate("segment.trim", w.off)
	if err == nil {
		err = w.file.Sync("segment.trim.sync")
	}
	if err != nil {
		l.fail(fmt.Errorf("closing %s: %w", w.file.path, err))
	}
	if w.spare != nil {
		_ = l.fs.Remove("segment.remove", filepath.Join(filepath.Dir(w.file.path), spareName))
	}
}

// seal writes log.seal as the last record of this incarnation.
func (l *Log) seal() {
	l.mu.Lock()
	g := l.newGroup()
	l.add(g, &receipts.Receipt{Type: receipts.TypeLogSeal}, true)
	l.backlog -= len(g.buf)
	l.mu.Unlock()
	l.write(g)
}

// chores does what time demands and returns when to look again.
func (l *Log) chores(now time.Time) time.Duration {
	w := &l.w
	if l.failure() != nil {
		return l.o.WatchEvery
	}
	next := l.o.WatchEvery
	if !w.settled {
		d := w.wrote.Add(l.o.SettleAfter).Sub(now)
		if d <= 0 {
			l.settle()
		} else {
			next = min(next, d)
		}
	}
	if now.Sub(w.watched) >= l.o.WatchEvery {
		w.watched = now
		l.watch()
	}
	if l.noRoom() != nil {
		if now.Sub(w.tried) >= l.o.RetryEvery {
			w.tried = now
			l.retry()
		}
		next = min(next, l.o.RetryEvery)
	}
	if l.o.Now().Sub(l.life.born) >= l.o.MaxAge || w.tree.Size() >= l.o.MaxRecords {
		l.roll()
	}
	return next
}

// write makes a group durable and wakes who waits for it.
func (l *Log) write(g *group) {
	w := &l.w
	stuck := time.AfterFunc(l.o.Stuck, func() {
		l.fail(fmt.Errorf("a write to the receipt log takes longer than %s", l.o.Stuck))
	})
	defer stuck.Stop()
	l.mu.Lock()
	err := l.poison
	l.inFlight = g
	l.mu.Unlock()
	if err == nil {
		err = l.commit(g)
	}
	l.mu.Lock()
	l.inFlight = nil
	if err == nil {
		err = l.poison // it took too long: those who waited have been told otherwise
	}
	l.mu.Unlock()
	switch {
	case err == nil:
		w.settled = len(g.entries) == 0
		w.wrote = time.Now()
		l.mu.Lock()
		if len(g.entries) > 0 {
			l.full = nil
			l.recycle(g)
		}
		g.finish(nil)
		l.mu.Unlock()
		l.signer.durable(head{l.life, w.tree.Size(), w.root})
		l.prepare()
	case noSpace(err):
		l.withdraw(g, err)
	default:
		l.fail(err)
		l.mu.Lock()
		g.finish(l.refusal(receipts.TypeOutcome))
		l.mu.Unlock()
	}
}

// commit writes and syncs one group, in a new segment if this one has no room.
func (l *Log) commit(g *group) error {
	w := &l.w
	need := int64(len(g.buf) + len(g.entries)*frame.Overhead + frame.Overhead + frame.CommitSize)
	if w.off+need > l.o.SegmentBytes {
		err := l.rotate()
		if err != nil {
			return err
		}
	}
	tree := w.tree.Clone()
	salt := w.file.header.Salt
	w.out = w.out[:0]
	for i := range g.entries {
		w.out = frame.AppendLeaf(w.out, salt, tree.Size(), g.leaf(i))
		tree.Add(g.entries[i].hash)
	}
	root := tree.Root()
	w.out = frame.AppendCommit(w.out, salt, frame.Commit{Size: tree.Size(), Root: root, Durable: w.tree.Size()})
	err := w.file.WriteAt("segment.write", w.out, w.off)
	if err != nil {
		return fmt.Errorf("write %s at %d: %w", w.file.path, w.off, err)
	}
	err = w.file.Sync("segment.sync")
	if err != nil {
		return fmt.Errorf("sync %s: %w", w.file.path, err)
	}
	w.off += int64(len(w.out))
	w.tree, w.root = tree, root
	return nil
}

// settle writes an empty COMMIT: a later start can then tell damage to the last group from a torn tail.
func (l *Log) settle() {
	l.write(&group{done: make(chan struct{})})
	l.w.settled = true // one try is enough; a full disk comes back by itself
}

// rotate goes on in the next segment.
func (l *Log) rotate() error {
	w := &l.w
	old := w.file
	spare := w.spare
	w.spare = nil
	f, err := l.newSegment(filepath.Dir(old.path), l.life.origin, old.header.Number+1, w.tree.Size(), spare)
	if err != nil {
		return err
	}
	end := w.off
	w.file, w.off = f, frame.HeaderSize
	err = old.Truncate("segment.trim", end)
	if e := old.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("closing %s: %w", old.path, err)
	}
	return nil
}
