package receipts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	flog "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"github.com/stoplog/stoplog/receipts/frame"
)

// checked is one log while and after it is verified.
type checked struct {
	name   string // folder
	origin string
	birth  *Receipt
	last   Type
	tree   frame.Tree
	next   int64 // number of the segment that would follow
	broken bool  // reading ended early: what is said about its end would be wrong

	note       []byte // the checkpoint as read before the records, which may be growing
	checkpoint *flog.Checkpoint
	signed     int64 // records under a good checkpoint
	vouched    int64 // records that the successor saw
	roots      map[int64]string
}

func (l *checked) file(segment int64) string { return segmentFile(l.name, max(segment, 0)) }

// rootAt is the root at a size where a group ended.
func (l *checked) rootAt(size int64) string { return l.roots[size] }

// log verifies one folder; nil if there was never a log in it.
func (v *verifier) log(ctx context.Context, name string) (*checked, error) {
	l := &checked{name: name, origin: name, roots: map[int64]string{}}
	segments, err := v.r.segments(name)
	if err != nil {
		return nil, err
	}
	if len(segments) == 0 {
		list, err := fs.ReadDir(v.r.fsys, path.Join("log", name))
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if e.Name() == "checkpoint" {
				v.find(MissingSegment, name, l.file(0), 0, "the log has a checkpoint but no segment")
				return nil, nil
			}
		}
		return nil, nil
	}
	for _, file := range segments {
		number, err := strconv.ParseInt(strings.TrimSuffix(file, ".seg"), 10, 64)
		if err != nil || number != l.next {
			v.missing(l, file)
			break
		}
		ok, err := v.segment(ctx, l, file)
		if err != nil {
			return nil, err
		}
		l.next++
		if !ok {
			l.broken = true
			break
		}
	}
	v.checkSignature(l)
	v.leftovers(l)
	return l, nil
}

// missing reports the segment that should stand where file does.
func (v *verifier) missing(l *checked, file string) {
	l.broken = true
	detail := "the segment is missing"
	if f, s, err := v.open(path.Join("log", l.name, file)); err == nil {
		h := s.Header()
		_ = f.Close()
		if h.Number == l.next {
			detail = fmt.Sprintf("the segment was renamed: %s says that it is number %d", file, h.Number)
		}
	}
	v.find(MissingSegment, l.origin, l.file(l.next), l.tree.Size(), "%s", detail)
}

func (v *verifier) open(file string) (fs.File, *frame.Scanner, error) {
	f, at, err := v.r.readerAt(file)
	if err != nil {
		return nil, nil, err
	}
	s, err := frame.NewReader(at, -1)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, s, nil
}

// segment verifies one file; false if what follows cannot be judged.
func (v *verifier) segment(ctx context.Context, l *checked, name string) (bool, error) {
	file := path.Join("log", l.name, name)
	f, at, err := v.r.readerAt(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	s, err := frame.NewScanner(at, -1, l.tree)
	if err != nil {
		v.find(Edited, l.origin, file, l.tree.Size(), "%v", err)
		return false, nil
	}
	h := s.Header()
	switch {
	case h.Number != l.next:
		v.find(MissingSegment, l.origin, file, l.tree.Size(), "the file says that it is segment %08d: segment %08d was replaced or renamed", h.Number, l.next)
		return false, nil
	case h.Number == 0:
		l.origin = h.Origin
		if path.Base(l.origin) != l.name {
			v.find(Unordered, l.origin, file, 0, "it lies in the folder of another log")
		}
	case h.Origin != l.origin:
		v.find(Forked, l.origin, file, h.First, "the segment belongs to %s", h.Origin)
		return false, nil
	}
	if h.First != l.tree.Size() {
		v.find(Truncated, l.origin, l.file(l.next-1), l.tree.Size(), "the next segment begins at record %d, this one ends before %d", h.First, l.tree.Size())
		return false, nil
	}
	l.readCheckpoint(v)
	for {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		g, err := s.Next()
		if err != nil {
			end, e := v.end(l, s, err)
			if e != nil {
				return false, e
			}
			if end.promised {
				g, err = s.Next() // while we looked, a writer may have gone on
			}
			if err != nil {
				l.tree = s.Tree().Clone()
				return v.judge(l, file, s.Offset(), end), nil
			}
		}
		l.roots[g.Commit.Size] = encodeRoot(g.Commit.Root)
		if len(l.roots) > 1<<16 { // only the ends matter; keep what may be asked for
			l.forget(g.Commit.Size)
		}
		for i, leaf := range g.Leaves {
			v.record(l, file, g.First+int64(i), leaf)
		}
	}
}

// forget drops the roots that nobody will ask for: of older sizes than the checkpoint's or the newest few.
func (l *checked) forget(size int64) {
	for n := range l.roots {
		if n < size-(1<<15) && (l.checkpoint == nil || n != int64(l.checkpoint.Size)) {
			delete(l.roots, n)
		}
	}
}

// ending is what stands where reading a segment ended.
type ending struct {
	stop     *frame.Stop // nil: nothing
	tail     frame.Tail
	promised bool // records must have stood here
}

func (v *verifier) end(l *checked, s *frame.Scanner, err error) (ending, error) {
	e := ending{}
	if !errors.Is(err, io.EOF) && !errors.As(err, &e.stop) {
		return e, err
	}
	var terr error
	e.tail, terr = s.Tail()
	if terr != nil {
		return e, terr
	}
	_, serr := fs.Stat(v.r.fsys, l.file(l.next+1))
	signed := l.checkpoint != nil && int64(l.checkpoint.Size) > s.Tree().Size()
	e.promised = e.tail.Used > s.Offset() && (e.tail.Damaged || serr == nil || signed)
	return e, nil
}

// judge says what an ending means; false if what follows cannot be judged. If records are missing behind a clean end,
// the checkpoint or the successor knows.
func (v *verifier) judge(l *checked, file string, offset int64, e ending) bool {
	seq := l.tree.Size()
	switch {
	case e.tail.Used == offset:
		return true
	case !e.promised:
		v.find(TornTail, l.origin, file, seq, "%d bytes behind the last whole group: an unfinished write", e.tail.Used-offset)
		return true
	case e.stop == nil:
		v.find(Edited, l.origin, file, seq, "offset %d: records were overwritten with zeros", offset)
	case e.stop.Index > e.stop.First && e.stop.Offset == offset:
		v.find(Edited, l.origin, file, e.stop.First, "offset %d: records %d to %d: %s", offset, e.stop.First, e.stop.Index-1, e.stop.What)
	default:
		v.find(Edited, l.origin, file, e.stop.Index, "offset %d: %s", e.stop.Offset, e.stop.What)
	}
	return false
}

// record checks one leaf and moves its operation.
func (v *verifier) record(l *checked, file string, seq int64, leaf []byte) {
	v.report.Records++
	r, err := Decode(leaf)
	if err != nil {
		v.find(Edited, l.origin, file, seq, "%v", err)
		return
	}
	if r.Seq != seq || r.Log != l.origin {
		v.find(Unordered, l.origin, file, seq, "the record says that it is %s/%d", r.Log, r.Seq)
	}
	l.last = r.Type
	switch r.Type {
	case TypeLogOpen:
		if seq != 0 {
			v.find(Unordered, l.origin, file, seq, "a second birth")
			return
		}
		l.birth = r
		_, err := CheckBirth(r, v.identity)
		if err != nil {
			v.find(Foreign, l.origin, file, 0, "%v", err)
		}
	case TypeLogPrune:
		v.pruned[r.Note[NoteLog]] = r
	case TypeLogGap:
		v.find(FailedWrite, l.origin, file, seq, "%s: places %s to %s were given out and withdrawn", r.Note[NoteCause], r.Note[NoteFrom], r.Note[NoteTo])
	}
	if seq == 0 && r.Type != TypeLogOpen {
		v.find(Unordered, l.origin, file, 0, "the first record is %s, not log.open", r.Type)
	}
	v.step(l, file, r)
}

// step checks that an operation took a legal step.
func (v *verifier) step(l *checked, file string, r *Receipt) {
	if r.Operation == "" || r.State == "" {
		return
	}
	from, known := v.states[r.Operation]
	if !known && v.partial {
		v.states[r.Operation] = r.State // it began in records that are not here
		return
	}
	if !LegalTransition(r.Type, from, r.State) {
		v.find(Unordered, l.origin, file, r.Seq, "%s leads operation %s from %q to %q", r.Type, r.Operation, from, r.State)
	}
	v.states[r.Operation] = r.State
}

// readCheckpoint parses the checkpoint as soon as the log's key can be known, which its first group tells.
func (l *checked) readCheckpoint(v *verifier) {
	if l.next != 0 {
		return
	}
	b, err := fs.ReadFile(v.r.fsys, path.Join("log", l.name, "checkpoint"))
	if err != nil {
		return
	}
	l.note = b
	c := &flog.Checkpoint{}
	_, err = c.Unmarshal(b)
	if err == nil {
		l.checkpoint = c // its signature is checked when the birth has been read
	}
}

func (v *verifier) checkSignature(l *checked) {
	file := path.Join("log", l.name, "checkpoint")
	if l.note == nil || l.birth == nil {
		return // nothing is signed; the successor or nobody vouches
	}
	key, err := note.NewVerifier(l.birth.Note[NoteKey])
	if err == nil {
		l.checkpoint, _, _, err = flog.ParseCheckpoint(l.note, l.origin, key)
	}
	if err != nil {
		v.find(Foreign, l.origin, file, -1, "the checkpoint is not signed by the key the log was born with: %v", err)
		return
	}
	size := int64(l.checkpoint.Size)
	switch {
	case l.broken && size > l.tree.Size():
	case size > l.tree.Size():
		l.broken = true
		v.find(Truncated, l.origin, l.file(l.next-1), l.tree.Size(),
			"%d records were signed, only %d are there: segment %08d.seg or the end of %08d.seg is gone", size, l.tree.Size(), l.next, l.next-1)
	case l.rootAt(size) != encodeRoot([32]byte(l.checkpoint.Hash)):
		v.find(Edited, l.origin, "", -1, "its first %d records are not the ones that were signed", size)
	default:
		l.signed = size
	}
}

// leftovers reports what a failed write left.
func (v *verifier) leftovers(l *checked) {
	b, err := fs.ReadFile(v.r.fsys, path.Join("log", l.name, "failed"))
	if err == nil {
		v.find(FailedWrite, l.origin, path.Join("log", l.name, "failed"), l.tree.Size(), "%s", strings.TrimSpace(string(b)))
	}
}
