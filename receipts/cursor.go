package receipts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/stoplog/stoplog/receipts/frame"
)

// cursor walks the groups of all logs and can be asked again at the end, when more was written.
type cursor struct {
	r       *Reader
	q       *Query
	names   []string // logs to read; names[0] is the current one
	segment int64
	single  bool // only this segment

	file  fs.File
	scan  *frame.Scanner
	group *frame.Group
	leaf  int
}

func (r *Reader) cursor(q *Query) (*cursor, error) {
	names, err := r.logs()
	if err != nil {
		return nil, err
	}
	c := &cursor{r: r, q: q, names: names}
	if q.Log != "" {
		i := slices.Index(names, path.Base(q.Log))
		if i < 0 {
			return nil, fmt.Errorf("log %s: %w", q.Log, fs.ErrNotExist)
		}
		c.names = names[i : i+1]
		return c, nil
	}
	for !q.Since.IsZero() && len(c.names) > 1 { // a log that ended before the next was born before Since
		birth := &cursor{r: r, q: &Query{}, names: c.names[1:2], single: true}
		e, err := birth.next()
		for e == nil && err == nil {
			e, err = birth.next()
		}
		birth.close()
		if err != nil || e.Receipt.Time.After(q.Since) {
			break
		}
		c.names = c.names[1:]
	}
	return c, nil
}

func (c *cursor) close() {
	if c.file != nil {
		_ = c.file.Close()
		c.file, c.scan = nil, nil
	}
}

// next returns the next entry that the query wants; nil, nil to be asked again; io.EOF where nothing follows yet.
func (c *cursor) next() (*Entry, error) {
	for c.group != nil && c.leaf < len(c.group.Leaves) {
		leaf := c.group.Leaves[c.leaf]
		seq := c.group.First + int64(c.leaf)
		c.leaf++
		if c.q.Log != "" && seq < c.q.From || !c.q.wants(leaf) {
			continue
		}
		file := segmentFile(c.names[0], c.segment)
		rec, err := Decode(leaf)
		if err != nil {
			return nil, fmt.Errorf("%s: record %d: %w", file, seq, err)
		}
		if rec.Seq != seq {
			return nil, fmt.Errorf("%s: record %d says that it is %d", file, seq, rec.Seq)
		}
		if c.q.has(rec) {
			return &Entry{Receipt: rec, Leaf: slices.Clone(leaf), File: file}, nil
		}
	}
	c.group = nil
	if len(c.names) == 0 {
		return nil, io.EOF
	}
	if c.scan == nil {
		var err error
		c.file, c.scan, err = c.r.open(c.names[0], c.segment)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, c.advance(nil)
		}
		if err != nil {
			return nil, err
		}
	}
	g, err := c.scan.Next()
	var stop *frame.Stop
	switch {
	case err == nil:
		c.group, c.leaf = g, 0
		return nil, nil
	case errors.Is(err, io.EOF):
		return nil, c.advance(nil)
	case errors.As(err, &stop):
		return nil, c.advance(stop)
	}
	return nil, fmt.Errorf("%s: %w", segmentFile(c.names[0], c.segment), err)
}

// advance goes on to the next segment or log, if there is one; otherwise this is the end for now. A segment that has a
// successor is complete: what cannot be read in it is damage.
func (c *cursor) advance(stop *frame.Stop) error {
	if c.single {
		return io.EOF
	}
	names, segment := c.names, c.segment+1
	if !c.exists(segmentFile(names[0], segment)) {
		names, segment = c.successors(), 0
		if len(names) == 0 {
			return io.EOF
		}
	}
	if c.scan != nil { // the last group may have been written between our look at the file and at its successor
		g, err := c.scan.Next()
		if err == nil {
			c.group, c.leaf = g, 0
			return nil
		}
		if stop != nil && errors.As(err, &stop) {
			return fmt.Errorf("%s: %w", segmentFile(c.names[0], c.segment), stop)
		}
	}
	c.close()
	c.names, c.segment = names, segment
	return nil
}

// successors are the logs after the current one.
func (c *cursor) successors() []string {
	if c.q.Log != "" {
		return nil
	}
	names, err := c.r.logs()
	if err != nil {
		return nil
	}
	i, _ := slices.BinarySearch(names, c.names[0])
	for i < len(names) && names[i] <= c.names[0] {
		i++
	}
	names = names[i:]
	if len(names) > 0 && !c.exists(segmentFile(names[0], 0)) && len(names) == 1 {
		return nil // it is being born
	}
	return names
}

func (c *cursor) exists(file string) bool {
	_, err := fs.Stat(c.r.fsys, file)
	return err == nil
}

// rest reads to the end.
func (c *cursor) rest(ctx context.Context) ([]*Entry, error) {
	defer c.close()
	var list []*Entry
	for ctx.Err() == nil {
		e, err := c.next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if e != nil {
			list = append(list, e)
		}
	}
	return nil, ctx.Err()
}
