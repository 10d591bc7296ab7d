// Package disktest is a disk in memory that loses power, fills up and fails where a test says so.
package disktest

import (
	"io"
	"io/fs"
	"maps"
	"math/rand"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoplog/stoplog/receipts/disk"
)

const sector = 512

// Memory is a file system in memory. It knows what was synced and what was not.
type Memory struct {
	faults atomic.Pointer[func(op, name string) error]

	mu       sync.Mutex
	capacity int64 // bytes; 0 = unlimited
	names    map[string]*node
	durable  map[string]*node // names that survive a power cut
	pending  []change         // name changes since
	locks    map[string]bool
}

type node struct {
	dir      bool
	live     []byte
	synced   []byte
	dirty    map[int64]bool // sectors written since the last sync
	modified time.Time
}

type change struct {
	dir   string
	apply func(map[string]*node)
}

var _ disk.FS = (*Memory)(nil)

// New is an empty disk.
func New() *Memory {
	return &Memory{names: map[string]*node{}, durable: map[string]*node{}, locks: map[string]bool{}}
}

// SetFault makes f be asked before each operation, by several goroutines at a time; an error makes the operation fail
// without effect.
func (m *Memory) SetFault(f func(op, name string) error) { m.faults.Store(&f) }

// SetCapacity limits the bytes of all files; 0 = unlimited.
func (m *Memory) SetCapacity(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = n
}

// Used is the sum of all files' sizes.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used()
}

func (m *Memory) used() (n int64) {
	for _, f := range m.names {
		n += int64(len(f.live))
	}
	return n
}

// Killed is the disk as the next process finds it after kill -9: everything written is there, locks are free.
func (m *Memory) Killed() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := New()
	c.capacity = m.capacity
	copies := map[*node]*node{}
	dup := func(n *node) *node {
		if copies[n] == nil {
			copies[n] = &node{n.dir, slices.Clone(n.live), slices.Clone(n.synced), maps.Clone(n.dirty), n.modified}
		}
		return copies[n]
	}
	for k, n := range m.names {
		c.names[k], c.durable[k] = dup(n), dup(n)
	}
	return c
}

// PowerCut is the disk after a power cut: what was synced is there; of everything else any part may be, down to single
// sectors of a write, and name changes in their order up to any point.
func (m *Memory) PowerCut(r *rand.Rand) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := maps.Clone(m.durable)
	for _, c := range m.pending[:r.Intn(len(m.pending)+1)] {
		c.apply(names)
	}
	c := New()
	c.capacity = m.capacity
	for _, k := range slices.Sorted(maps.Keys(names)) {
		n := names[k]
		size := len(n.synced)
		if r.Intn(2) == 0 {
			size = len(n.live)
		}
		b := make([]byte, size)
		copy(b, n.synced)
		dirty := slices.Sorted(maps.Keys(n.dirty))
		for _, s := range dirty {
			from, to := s*sector, min((s+1)*sector, int64(len(n.live)))
			if r.Intn(3) > 0 && from < int64(size) && from < to {
				copy(b[from:], n.live[from:min(to, int64(size))])
			}
		}
		f := &node{dir: n.dir, live: b, synced: slices.Clone(b), dirty: map[int64]bool{}, modified: n.modified}
		c.names[k], c.durable[k] = f, f
	}
	return c
}

// Files are the paths of all files below dir with their content.
func (m *Memory) Files(dir string) map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]byte{}
	for k, n := range m.names {
		if !n.dir && strings.HasPrefix(k, dir+"/") {
			out[k] = slices.Clone(n.live)
		}
	}
	return out
}

// Edit changes a file's bytes behind everybody's back.
func (m *Memory) Edit(name string, f func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[name]
	n.live = f(n.live)
	n.synced = slices.Clone(n.live)
}

func (m *Memory) fault(op, name string) error {
	f := m.faults.Load()
	if f == nil || *f == nil {
		return nil
	}
	err := (*f)(op, name)
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (m *Memory) change(dir string, apply func(map[string]*node)) {
	apply(m.names)
	m.pending = append(m.pending, change{dir, apply})
}

// MkdirAll implements disk.FS. Directories are durable at once.
func (m *Memory) MkdirAll(op, dir string) error {
	if err := m.fault(op, dir); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := dir; d != "." && d != "/"; d = filepath.Dir(d) {
		if m.names[d] == nil {
			n := &node{dir: true}
			m.names[d], m.durable[d] = n, n
		}
	}
	return nil
}

// Create implements disk.FS.
func (m *Memory) Create(op, name string) (disk.File, error) {
	if err := m.fault(op, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names[name] != nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrExist}
	}
	n := &node{dirty: map[int64]bool{}, modified: time.Now()}
	m.change(filepath.Dir(name), func(t map[string]*node) { t[name] = n })
	return &file{m, n, name}, nil
}

// Open implements disk.FS.
func (m *Memory) Open(op, name string) (disk.File, error) {
	n, err := m.find(op, name)
	if err != nil {
		return nil, err
	}
	return &file{m, n, name}, nil
}

func (m *Memory) find(op, name string) (*node, error) {
	if err := m.fault(op, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[name]
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

// ReadFile implements disk.FS.
func (m *Memory) ReadFile(op, name string) ([]byte, error) {
	n, err := m.find(op, name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(n.live), nil
}

// ReadDir implements disk.FS.
func (m *Memory) ReadDir(op, dir string) ([]fs.DirEntry, error) {
	if _, err := m.find(op, dir); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []fs.DirEntry
	for k, n := range m.names {
		if filepath.Dir(k) == dir {
			list = append(list, fs.FileInfoToDirEntry(info{filepath.Base(k), n.dir, int64(len(n.live)), n.modified}))
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name() < list[j].Name() })
	return list, nil
}

// Rename implements disk.FS, also for directories.
func (m *Memory) Rename(op, from, to string) error {
	if _, err := m.find(op, from); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change(filepath.Dir(to), func(t map[string]*node) {
		for _, k := range slices.Collect(maps.Keys(t)) {
			if k == from || strings.HasPrefix(k, from+"/") {
				t[to+strings.TrimPrefix(k, from)] = t[k]
				delete(t, k)
			}
		}
	})
	return nil
}

// Remove implements disk.FS.
func (m *Memory) Remove(op, name string) error {
	if _, err := m.find(op, name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change(filepath.Dir(name), func(t map[string]*node) { delete(t, name) })
	return nil
}

// SyncDir implements disk.FS.
func (m *Memory) SyncDir(op, dir string) error {
	if err := m.fault(op, dir); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var rest []change
	for _, c := range m.pending {
		if c.dir == dir {
			c.apply(m.durable)
		} else {
			rest = append(rest, c)
		}
	}
	m.pending = rest
	return nil
}

// Lock implements disk.FS.
func (m *Memory) Lock(op, name string) (io.Closer, error) {
	if err := m.fault(op, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[name] {
		return nil, disk.ErrLocked
	}
	m.locks[name] = true
	return closer(func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.locks, name)
		return nil
	}), nil
}

type closer func() error

func (c closer) Close() error { return c() }
