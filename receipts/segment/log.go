// Package segment is the log of receipts on one machine's disk.
//
//	<data>/identity.key                 signs births of logs and nothing else (0600)
//	<data>/identity.pub                 what a verifier pins
//	<data>/log/lock                     one writer
//	<data>/log/<incarnation>/NNNNNNNN.seg, checkpoint, torn-*, failed
//
// Each process life writes a log of its own (an incarnation) under a key that exists only in memory, linked to the log
// before by origin, size and root. One goroutine writes: it takes whatever waits, writes the group and its COMMIT, syncs
// once and wakes everybody, so that many writers share one sync. A checkpoint is signed only over what is durable.
//
// A full disk cuts the file back to the last COMMIT, refuses what it cannot keep and resumes by itself; room is kept so
// that outcomes of effects already under way still fit. Any other error of a write or a sync ends this incarnation:
// nothing is tried again on a file whose state is not known.
package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk"
)

// Options of a log. Only Dir is needed.
type Options struct {
	Dir    string // data directory
	Origin string // prefix of the logs' origins, without spaces, "+" or a final "/"; default "stoplog.local"
	Policy string // digest of the configuration in force at the start
	Build  string // version of the program, for the birth record

	Now func() time.Time // wall and monotonic clock; default time.Now
	FS  disk.FS          // default disk.OS

	SegmentBytes    int64         // default 64 MiB, at least 64 KiB
	Reserve         int64         // bytes kept for outcomes when the disk is full; default SegmentBytes/8
	Interval        time.Duration // how long Enqueue may wait to become durable; default 50 ms
	SettleAfter     time.Duration // an empty COMMIT follows a quiet group; default 100 ms
	CheckpointEvery time.Duration // at most one checkpoint in this time; default 50 ms
	WatchEvery      time.Duration // how often the live file's name is looked at; default 1 s
	RetryEvery      time.Duration // how often a full disk is tried again; default 200 ms
	Stuck           time.Duration // a write that takes longer ends the incarnation; default 10 s

	MaxRecords int64         // records per incarnation before a new one begins; default 2^22
	MaxAge     time.Duration // age of an incarnation before a new one begins; default 7 days
}

func (o Options) withDefaults() (Options, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Interval, 50*time.Millisecond)
	def(&o.SettleAfter, 100*time.Millisecond)
	def(&o.CheckpointEvery, 50*time.Millisecond)
	def(&o.WatchEvery, time.Second)
	def(&o.RetryEvery, 200*time.Millisecond)
	def(&o.Stuck, 10*time.Second)
	def(&o.MaxAge, 7*24*time.Hour)
	if o.Origin == "" {
		o.Origin = "stoplog.local"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.Reserve == 0 {
		o.Reserve = o.SegmentBytes / 8
	}
	if o.MaxRecords == 0 {
		o.MaxRecords = 1 << 22
	}
	switch {
	case o.Dir == "":
		return o, errors.New("receipt log: no data directory")
	case o.SegmentBytes < 64<<10:
		return o, fmt.Errorf("receipt log: segments of %d bytes, want at least 64 KiB", o.SegmentBytes)
	case o.Reserve > o.SegmentBytes/2:
		return o, errors.New("receipt log: reserve above half a segment")
	case len(o.Origin) > 200:
		return o, errors.New("receipt log: origin above 200 bytes")
	}
	return o, nil
}

// Log is the log of receipts. It is safe for concurrent use.
type Log struct {
	o        Options
	fs       disk.FS
	dir      string // <data>/log
	identity string // secret key
	lock     io.Closer

	kick    chan struct{} // wakes the writer
	stopped chan struct{} // closed when the writer has ended
	signer  *signer

	mu       sync.Mutex
	rolled   *sync.Cond // rolling has become false
	life     life
	next     int64    // place of the next record
	queue    []*group // what waits to be written
	backlog  int      // bytes queued
	inFlight *group   // what is being written
	free     []buffers
	rolling  bool  // submitters wait while a new incarnation begins
	poison   error // this incarnation is over
	full     error // no space; clears by itself
	closing  bool

	w writer // owned by the writer goroutine (and by Open before it starts)
}

// life is one incarnation.
type life struct {
	name   string
	origin string
	born   time.Time
	key    note.Signer
	public string
}

var _ receipts.Appender = (*Log)(nil)

// Open takes the data directory's log for this process, recovers what the last life left and begins a new incarnation,
// whose birth is durable when Open returns. It fails with disk.ErrLocked when another process writes, with *Damage when
// records that were durable cannot be read or are fewer than were signed. A torn tail is cut off and kept aside.
func Open(ctx context.Context, options Options) (*Log, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Log{
		o: o, fs: o.FS, dir: filepath.Join(o.Dir, "log"),
		kick: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	l.rolled = sync.NewCond(&l.mu)
	err = l.fs.MkdirAll("log.mkdir", l.dir)
	if err != nil {
		return nil, fmt.Errorf("receipt log: %w", err)
	}
	l.lock, err = l.fs.Lock("log.lock", filepath.Join(l.dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("receipt log: %w", err)
	}
	err = l.start(ctx)
	if err != nil {
		l.w.close()
		_ = l.lock.Close()
		return nil, fmt.Errorf("receipt log: %w", err)
	}
	go l.run()
	return l, nil
}

func (l *Log) start(ctx context.Context) error {
	var err error
	l.identity, err = identity(l.fs, l.o.Dir, l.o.Origin)
	if err != nil {
		return err
	}
	prev, err := l.recover()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	next, f, err := l.conceive(prev.number + 1)
	if err != nil {
		return err
	}
	l.signer = newSigner(l)
	err = l.birth(next, f, prev)
	if err != nil {
		l.signer.close()
	}
	return err
}

// Append writes receipts in one group and returns when they are durable. When ctx ends first its error is returned, and
// the receipts may still become durable.
func (l *Log) Append(ctx context.Context, r ...*receipts.Receipt) ([]receipts.Position, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	pos := make([]receipts.Position, len(r))
	g, err := l.submit(r, pos, true)
	if err != nil {
		return nil, err
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the receipt log: %w", ctx.Err())
	}
	if g.err != nil {
		return nil, g.err
	}
	return pos, nil
}

// Enqueue writes a receipt without waiting; it is durable within Options.Interval. Its position changes only if a write
// fails before that, and then the log says so (log.gap).
func (l *Log) Enqueue(r *receipts.Receipt) (receipts.Position, error) {
	pos := make([]receipts.Position, 1)
	_, err := l.submit([]*receipts.Receipt{r}, pos, false)
	return pos[0], err
}

// Err is non-nil while the log takes no new effects: *stoplog.Error with reason evidence_unavailable.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusal(receipts.TypeDispatching)
}

// refusal says why a receipt of this type cannot be taken now.
func (l *Log) refusal(t receipts.Type) error {
	switch {
	case l.poison != nil:
		return unavailable("the receipt log failed; this process must be restarted", l.poison)
	case l.closing:
		return unavailable("the receipt log is closed", fs.ErrClosed)
	case l.full != nil && !closes(t):
		return unavailable("no space for receipts", l.full)
	}
	return nil
}

// closes reports whether a receipt says how something ended that is already under way; room is kept for these.
func closes(t receipts.Type) bool {
	switch t {
	case receipts.TypeOutcome, receipts.TypeOpOutcome, receipts.TypeOpUnknown, receipts.TypeOpConflict, receipts.TypeHoldWithdrawn,
		receipts.TypeHoldExpired, receipts.TypeLevel, receipts.TypeLogSeal, receipts.TypeLogGap:
		return true
	}
	return false
}

func unavailable(detail string, err error) error {
	return &stoplog.Error{Reason: stoplog.ReasonEvidenceUnavailable, Detail: detail, Err: err}
}

// Origin of the current incarnation.
func (l *Log) Origin() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life.origin
}

// Identity is the public key that a verifier pins.
func (l *Log) Identity() (string, error) { return receipts.PublicKey(l.identity) }

// Reader reads the log's files, also while they are written.
func (l *Log) Reader() *receipts.Reader { return receipts.NewReader(l.fs.View(l.o.Dir)) }

// Close writes what is queued, seals the log, signs its last checkpoint and releases the lock. It returns the error that
// ended the incarnation, if one did.
func (l *Log) Close() error {
	l.mu.Lock()
	first := !l.closing
	l.closing = true
	l.mu.Unlock()
	l.wake()
	<-l.stopped
	if !first {
		return nil
	}
	l.signer.close()
	l.w.close()
	err := l.lock.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poison != nil {
		return l.poison
	}
	return err
}

func (l *Log) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Damage is a log whose durable records cannot be read, or are gone.
type Damage struct {
	File   string
	Offset int64 // of the first bytes that cannot be read
	Detail string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", d.File, d.Offset, d.Detail)
}
