package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"

	flog "github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"github.com/stoplog/stoplog/receipts"
	"github.com/stoplog/stoplog/receipts/disk"
	"github.com/stoplog/stoplog/receipts/frame"
)

const prunedSuffix = ".pruned" // of a log whose removal was recorded and is under way

// incarnations lists the logs' folders, oldest first.
func incarnations(fsys disk.FS, dir string) ([]string, error) {
	list, err := fsys.ReadDir("log.list", dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		_, err := incarnationNumber(e.Name())
		if e.IsDir() && err == nil && !strings.HasSuffix(e.Name(), prunedSuffix) {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

// recover makes the newest log that holds anything fit to be followed.
func (l *Log) recover() (before, error) {
	err := l.finishPruning()
	if err != nil {
		return before{}, err
	}
	names, err := incarnations(l.fs, l.dir)
	if err != nil {
		return before{}, err
	}
	for i := len(names) - 1; i >= 0; i-- {
		b, err := l.recoverLife(names[i])
		if err != nil {
			return before{}, err
		}
		if b.size > 0 {
			return b, nil
		}
		err = l.removeLife(names[i]) // died before its birth was durable: it never was a log
		if err != nil {
			return before{}, err
		}
	}
	return before{}, nil
}

// old is a log of an earlier life while it is recovered.
type old struct {
	l        *Log
	dir      string
	segments []string
	tree     frame.Tree
	torn     int64
	origin   string
	birth    *receipts.Receipt
	last     receipts.Type
	signed   *flog.Checkpoint
	signedOK bool // the root at the signed size was seen and is equal
}

func (l *Log) recoverLife(name string) (before, error) {
	o := &old{l: l, dir: filepath.Join(l.dir, name)}
	number, err := incarnationNumber(name)
	if err != nil {
		return before{}, err
	}
	list, err := l.fs.ReadDir("log.list", o.dir)
	if err != nil {
		return before{}, err
	}
	failed := false
	for _, e := range list {
		failed = failed || e.Name() == failedName
		if strings.HasSuffix(e.Name(), ".seg") {
			o.segments = append(o.segments, e.Name())
		}
	}
	sort.Strings(o.segments)
	for i := range o.segments {
		err := o.segment(i)
		if err != nil {
			return before{}, err
		}
	}
	err = o.check()
	if err != nil {
		return before{}, err
	}
	_ = l.fs.Remove("segment.remove", filepath.Join(o.dir, spareName))
	b := before{number: number, origin: o.origin, size: o.tree.Size(), root: o.tree.Root(), torn: o.torn, end: receipts.EndCrash}
	if o.signed != nil {
		b.signed = int64(o.signed.Size)
	}
	switch {
	case o.last == receipts.TypeLogSeal:
		b.end = receipts.EndSealed
	case failed:
		b.end = receipts.EndWriteError
	}
	return b, nil
}

// segment reads one segment, cuts a torn tail off the last and refuses what is damaged.
func (o *old) segment(i int) error {
	path := filepath.Join(o.dir, o.segments[i])
	if o.segments[i] != segmentName(int64(i)) {
		return &Damage{File: filepath.Join(o.dir, segmentName(int64(i))), Detail: "the segment is missing"}
	}
	f, err := o.l.fs.Open("segment.open", path)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	s, err := frame.NewScanner(f, size, o.tree)
	if err != nil {
		return &Damage{File: path, Detail: err.Error()}
	}
	h := s.Header()
	if h.Number != int64(i) || h.First != o.tree.Size() || i > 0 && h.Origin != o.origin {
		return &Damage{File: path, Detail: fmt.Sprintf("it says that it is segment %d of %s from record %d on, want segment %d from %d",
			h.Number, h.Origin, h.First, i, o.tree.Size())}
	}
	o.origin = h.Origin
	stop, err := o.groups(s)
	if err != nil {
		return err
	}
	o.tree = s.Tree().Clone()
	tail, err := s.Tail()
	if err != nil {
		return err
	}
	last := i == len(o.segments)-1
	if tail.Damaged || !last && tail.Used > s.Offset() {
		d := &Damage{File: path, Offset: s.Offset(), Detail: "unreadable"}
		if stop != nil {
			d.Offset, d.Detail = stop.Offset, stop.What
		}
		if tail.Damaged {
			d.Detail += fmt.Sprintf("; the COMMIT at %d proves that durable records stood here", tail.Proof)
		}
		return d
	}
	if !last {
		return nil
	}
	return o.cut(f, path, s.Offset(), tail.Used, size)
}

func (o *old) groups(s *frame.Scanner) (*frame.Stop, error) {
	for {
		g, err := s.Next()
		var stop *frame.Stop
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case errors.As(err, &stop):
			return stop, nil
		case err != nil:
			return nil, err
		}
		if len(g.Leaves) == 0 {
			continue
		}
		r, err := receipts.Decode(g.Leaves[len(g.Leaves)-1])
		if err == nil {
			o.last = r.Type
		}
		if g.First == 0 {
			o.birth, _ = receipts.Decode(g.Leaves[0])
			o.readCheckpoint()
		}
		if o.signed != nil && int64(o.signed.Size) == g.Commit.Size {
			o.signedOK = string(o.signed.Hash) == string(g.Commit.Root[:])
		}
	}
}

// cut removes a torn tail, which is kept aside first, and the space behind.
func (o *old) cut(f disk.File, path string, end, used, size int64) error {
	if used > end {
		torn := make([]byte, used-end)
		_, err := f.ReadAt(torn, end)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		name := fmt.Sprintf("torn-%s-%d", strings.TrimSuffix(filepath.Base(path), ".seg"), end)
		err = disk.Replace(o.l.fs, "torn.write", filepath.Join(o.dir, name), torn, disk.Full)
		if err != nil {
			return fmt.Errorf("keeping a torn tail aside: %w", err)
		}
		o.torn += used - end
	}
	if size == end {
		return nil
	}
	err := f.Truncate("segment.cut", end)
	if err == nil {
		err = f.Sync("segment.cut.sync")
	}
	return err
}

// readCheckpoint reads the last checkpoint; one that is missing or unreadable says nothing.
func (o *old) readCheckpoint() {
	if o.birth == nil {
		return
	}
	v, err := note.NewVerifier(o.birth.Note[receipts.NoteKey])
	if err != nil {
		return
	}
	b, err := o.l.fs.ReadFile("checkpoint.read", filepath.Join(o.dir, checkpointName))
	if err != nil {
		return
	}
	o.signed, _, _, err = flog.ParseCheckpoint(b, o.origin, v)
	if err != nil {
		o.signed = nil
	}
}

// check compares what was recovered with what was signed.
func (o *old) check() error {
	if o.signed == nil {
		return nil
	}
	path := filepath.Join(o.dir, checkpointName)
	n := int64(o.signed.Size)
	switch {
	case n > o.tree.Size():
		return &Damage{File: path, Detail: fmt.Sprintf("%d records were signed, only %d are there: records were lost or rolled back", n, o.tree.Size())}
	case !o.signedOK:
		return &Damage{File: path, Detail: fmt.Sprintf("the first %d records are not the ones that were signed", n)}
	}
	return nil
}
