package segment

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/stoplog/stoplog/receipts/disk"
	"github.com/stoplog/stoplog/receipts/frame"
)

// file is one segment that is being written.
type file struct {
	disk.File
	path   string
	header frame.Header
}

func segmentName(number int64) string { return fmt.Sprintf("%08d.seg", number) }

const spareName = "spare.tmp"

// newSegment makes a segment that is known by its name only once its space and header are durable. spare, if not nil, is
// an allocated file of that name.
func (l *Log) newSegment(dir, origin string, number, first int64, spare disk.File) (*file, error) {
	tmp := filepath.Join(dir, spareName)
	f := spare
	if f == nil {
		var err error
		f, err = l.allocate(tmp)
		if err != nil {
			return nil, err
		}
	}
	h := frame.Header{Number: number, First: first, Origin: origin}
	_, _ = rand.Read(h.Salt[:])
	path := filepath.Join(dir, segmentName(number))
	err := f.WriteAt("segment.header", h.Append(nil), 0)
	if err == nil {
		err = f.Sync("segment.header.sync")
	}
	if err == nil {
		err = l.fs.Rename("segment.rename", tmp, path)
	}
	if err == nil {
		err = l.fs.SyncDir("segment.dir", dir)
	}
	if err != nil {
		_ = f.Close()
		_ = l.fs.Remove("segment.remove", tmp)
		return nil, fmt.Errorf("new segment %s: %w", path, err)
	}
	return &file{File: f, path: path, header: h}, nil
}

// allocate makes an empty file with the space of a segment.
func (l *Log) allocate(path string) (disk.File, error) {
	_ = l.fs.Remove("segment.remove", path) // left by a crash
	f, err := l.fs.Create("segment.create", path)
	if err != nil {
		return nil, err
	}
	err = f.Allocate("segment.allocate", l.o.SegmentBytes)
	if err != nil {
		_ = f.Close()
		_ = l.fs.Remove("segment.remove", path)
		return nil, fmt.Errorf("space for a segment: %w", err)
	}
	return f, nil
}

// noSpace reports whether an error means a full disk or quota, which passes.
func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
