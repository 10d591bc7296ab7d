package segment

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk"
)

// prepare allocates the next segment before this one is full, so that a full disk is known while there is still room for
// the outcomes of what is under way.
func (l *Log) prepare() {
	w := &l.w
	if w.spare != nil || w.off+2*l.o.Reserve <= l.o.SegmentBytes {
		return
	}
	now := time.Now()
	tight := w.off+l.o.Reserve > l.o.SegmentBytes
	if now.Sub(w.tried) < l.o.RetryEvery && !tight {
		return
	}
	w.tried = now
	f, err := l.allocate(filepath.Join(filepath.Dir(w.file.path), spareName))
	w.spare = f
	if err == nil || !tight {
		return
	}
	l.mu.Lock()
	l.full = err
	l.mu.Unlock()
}

// retry looks whether a full disk has space again.
func (l *Log) retry() {
	l.mu.Lock()
	var g *group
	if len(l.queue) > 0 {
		g = l.pop()
	}
	l.mu.Unlock()
	w := &l.w
	tight := w.off+l.o.Reserve > l.o.SegmentBytes
	if tight && w.spare == nil {
		f, err := l.allocate(filepath.Join(filepath.Dir(w.file.path), spareName))
		if err == nil {
			w.spare = f
		} else if g == nil {
			return
		}
	}
	if g != nil {
		l.write(g)
		return
	}
	l.mu.Lock()
	l.full = nil
	l.mu.Unlock()
}

// withdraw cuts the file back to the last COMMIT after a write found no space. Who waits is told; what was enqueued keeps
// its turn behind a log.gap, because its place was given out already.
func (l *Log) withdraw(g *group, cause error) {
	w := &l.w
	err := w.file.Truncate("segment.cut", w.off)
	if err == nil {
		err = w.file.Sync("segment.cut.sync")
	}
	if err == nil { // back to a full-sized file, so that later writes need no growth where that is possible
		e := w.file.Allocate("segment.allocate", l.o.SegmentBytes)
		if e != nil && !noSpace(e) {
			err = e
		}
	}
	if err != nil {
		l.fail(errors.Join(cause, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	refused := unavailable("no space for receipts", cause)
	if l.closing && l.poison == nil {
		l.poison = cause // nothing comes after this that could be told
	}
	if l.poison != nil {
		g.finish(refused)
		return
	}
	w.tried = time.Now()
	l.full = cause
	groups := append([]*group{g}, l.queue...)
	from, to := w.tree.Size(), l.next-1
	l.queue, l.backlog, l.next = nil, 0, from
	gap := &receipts.Receipt{Type: receipts.TypeLogGap, Note: map[string]string{receipts.NoteCause: "no_space"}}
	var keep []*receipts.Receipt
	for _, g := range groups {
		for _, e := range g.entries {
			switch {
			case e.receipt.Type == receipts.TypeLogGap:
				gap = e.receipt
			case !e.waits:
				keep = append(keep, e.receipt)
			}
		}
		g.finish(refused)
	}
	if from > to {
		return // only an empty COMMIT found no space: no place was given out
	}
	if gap.Note[receipts.NoteFrom] == "" {
		gap.Note[receipts.NoteFrom] = strconv.FormatInt(from, 10)
	}
	if last, _ := strconv.ParseInt(gap.Note[receipts.NoteTo], 10, 64); to > last || last == 0 {
		gap.Note[receipts.NoteTo] = strconv.FormatInt(to, 10)
	}
	for _, r := range append([]*receipts.Receipt{gap}, keep...) {
		l.add(l.tail(1), r, false)
	}
}

// watch notices that the live file was removed or replaced: writes to it would succeed and be lost.
func (l *Log) watch() {
	f := l.w.file
	ok, err := f.Linked("segment.watch", f.path)
	switch {
	case err != nil:
		l.fail(fmt.Errorf("looking at %s: %w", f.path, err))
	case !ok:
		l.fail(fmt.Errorf("%s was removed or replaced while it was written", f.path))
	}
}

// fail ends this incarnation. Nothing is written to it again. Who waits is told before the disk is touched once more,
// since it may be the disk that hangs.
func (l *Log) fail(err error) {
	l.mu.Lock()
	if l.poison != nil {
		l.mu.Unlock()
		return
	}
	l.poison = err
	if l.inFlight != nil {
		l.inFlight.finish(l.refusal(receipts.TypeOutcome))
	}
	for _, g := range l.queue {
		g.finish(l.refusal(receipts.TypeOutcome))
	}
	l.queue, l.backlog = nil, 0
	name := l.life.name
	l.mu.Unlock()
	_ = disk.Replace(l.fs, "log.failed", filepath.Join(l.dir, name, failedName), []byte(err.Error()+"\n"), disk.Content)
}

const failedName = "failed"

func (l *Log) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.poison
}

func (l *Log) noRoom() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full
}
