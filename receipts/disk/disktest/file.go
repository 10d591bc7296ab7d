package disktest

import (
	"io"
	"io/fs"
	"syscall"
	"time"
)

type file struct {
	m    *Memory
	n    *node
	name string
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if off >= int64(len(f.n.live)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.live[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(op string, p []byte, off int64) error {
	if err := f.m.fault(op, f.name); err != nil {
		return err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if err := f.grow(off + int64(len(p))); err != nil {
		return err
	}
	copy(f.n.live[off:], p)
	for s := off / sector; s <= (off+int64(len(p))-1)/sector; s++ {
		f.n.dirty[s] = true
	}
	f.n.modified = time.Now()
	return nil
}

func (f *file) grow(size int64) error {
	more := size - int64(len(f.n.live))
	if more <= 0 {
		return nil
	}
	if f.m.capacity > 0 && f.m.used()+more > f.m.capacity {
		return &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
	}
	f.n.live = append(f.n.live, make([]byte, more)...)
	return nil
}

func (f *file) Truncate(op string, size int64) error {
	if err := f.m.fault(op, f.name); err != nil {
		return err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if size >= int64(len(f.n.live)) {
		return f.grow(size)
	}
	f.n.live = f.n.live[:size:size]
	return nil
}

func (f *file) Allocate(op string, size int64) error {
	if err := f.m.fault(op, f.name); err != nil {
		return err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.grow(size)
}

func (f *file) Sync(op string) error {
	if err := f.m.fault(op, f.name); err != nil {
		return err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.synced = append(f.n.synced[:0], f.n.live...)
	clear(f.n.dirty)
	return nil
}

func (f *file) Linked(op, name string) (bool, error) {
	if err := f.m.fault(op, name); err != nil {
		return false, err
	}
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.m.names[name] == f.n, nil
}

func (f *file) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.n.live)), nil
}

func (f *file) Close() error { return nil }
