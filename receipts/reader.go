package receipts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"sort"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/receipts/frame"
)

// Reader reads the logs in a data directory, also while they are written. It checks checksums, not roots: Verify does.
type Reader struct{ fsys fs.FS }

// OpenReader reads the data directory dir.
func OpenReader(dir string) *Reader { return NewReader(os.DirFS(dir)) }

// NewReader reads a data directory through fsys, whose files must be io.ReaderAt.
func NewReader(fsys fs.FS) *Reader { return &Reader{fsys} }

// Entry is one receipt with its place.
type Entry struct {
	Receipt *Receipt
	Leaf    []byte // the stored bytes, which are what is hashed
	File    string // path below the data directory
}

// Position is where the entry stands.
func (e *Entry) Position() Position {
	return Position{Log: e.Receipt.Log, Seq: e.Receipt.Seq, Leaf: tlog.RecordHash(e.Leaf)}
}

// Query selects receipts. The zero Query selects all.
type Query struct {
	Log       string    // origin; empty = all logs, oldest first
	From      int64     // first sequence number, with Log
	Since     time.Time // written at this time or later
	Operation stoplog.OperationID
	Types     []Type
	Match     func(leaf []byte) bool // looks at the stored bytes before they are decoded

	Follow time.Duration // > 0: at the end wait for more, looking again after this time, until ctx ends
}

func (q *Query) wants(leaf []byte) bool {
	if q.Operation != "" && !bytes.Contains(leaf, []byte(`"op":"`+string(q.Operation)+`"`)) {
		return false
	}
	ok := len(q.Types) == 0
	for _, t := range q.Types {
		ok = ok || bytes.Contains(leaf, []byte(`"typ":"`+string(t)+`"`))
	}
	return ok && (q.Match == nil || q.Match(leaf))
}

func (q *Query) has(r *Receipt) bool {
	return !r.Time.Before(q.Since) && (q.Operation == "" || q.Operation == r.Operation) && (q.Log == "" || r.Seq >= q.From)
}

// Log is all receipts of one log.
func (r *Reader) Log(ctx context.Context, origin string) iter.Seq2[*Entry, error] {
	return r.Select(ctx, Query{Log: origin})
}

// Select iterates over receipts in the order in which they were written. It ends after the first error: damage (with
// file and offset) or a receipt that cannot be decoded.
func (r *Reader) Select(ctx context.Context, q Query) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		c, err := r.cursor(&q)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.close()
		for {
			e, err := c.next()
			switch {
			case ctx.Err() != nil:
				if q.Follow == 0 {
					yield(nil, ctx.Err())
				}
				return
			case errors.Is(err, io.EOF):
				if q.Follow == 0 || !pause(ctx, q.Follow) {
					return
				}
			case err != nil:
				yield(nil, err)
				return
			case e != nil && !yield(e, nil):
				return
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Last returns the newest n receipts that q selects, oldest first. It reads the files from the newest backwards.
func (r *Reader) Last(ctx context.Context, n int, q Query) ([]*Entry, error) {
	names, err := r.logs()
	if err != nil {
		return nil, err
	}
	var got []*Entry
	for i := len(names) - 1; i >= 0 && len(got) < n; i-- {
		segments, err := r.segments(names[i])
		if err != nil {
			return nil, err
		}
		for j := len(segments) - 1; j >= 0 && len(got) < n; j-- {
			c := &cursor{r: r, q: &q, names: names[i : i+1], segment: int64(j), single: true}
			part, err := c.rest(ctx)
			if err != nil {
				return nil, err
			}
			got = append(part, got...)
		}
	}
	return got[max(len(got)-n, 0):], nil
}

// Get returns one receipt; fs.ErrNotExist if there is none.
func (r *Reader) Get(ctx context.Context, origin string, seq int64) (*Entry, error) {
	for e, err := range r.Select(ctx, Query{Log: origin, From: seq}) {
		if err != nil {
			return nil, err
		}
		if e.Receipt.Seq == seq {
			return e, nil
		}
		break
	}
	return nil, fmt.Errorf("receipt %s/%d: %w", origin, seq, fs.ErrNotExist)
}

// Logs are the origins of the logs, oldest first.
func (r *Reader) Logs() ([]string, error) {
	names, err := r.logs()
	if err != nil {
		return nil, err
	}
	var origins []string
	for _, n := range names {
		f, s, err := r.open(n, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		origins = append(origins, s.Header().Origin)
		_ = f.Close()
	}
	return origins, nil
}

// logs are the folders of the logs, oldest first.
func (r *Reader) logs() ([]string, error) {
	list, err := fs.ReadDir(r.fsys, "log")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if e.IsDir() && !strings.HasSuffix(e.Name(), ".pruned") {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

// segments are the names of one log's segment files.
func (r *Reader) segments(name string) ([]string, error) {
	list, err := fs.ReadDir(r.fsys, path.Join("log", name))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if strings.HasSuffix(e.Name(), ".seg") {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}

func segmentFile(name string, number int64) string {
	return path.Join("log", name, fmt.Sprintf("%08d.seg", number))
}

func (r *Reader) open(name string, number int64) (fs.File, *frame.Scanner, error) {
	file := segmentFile(name, number)
	f, at, err := r.readerAt(file)
	if err != nil {
		return nil, nil, err
	}
	s, err := frame.NewReader(at, -1)
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return f, s, nil
}

func (r *Reader) readerAt(file string) (fs.File, io.ReaderAt, error) {
	f, err := r.fsys.Open(file)
	if err != nil {
		return nil, nil, err
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: file system without random access", file)
	}
	return f, at, nil
}
