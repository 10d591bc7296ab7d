package disktest

import (
	"io"
	"io/fs"
	"path/filepath"
	"time"
)

// View implements disk.FS.
func (m *Memory) View(dir string) fs.FS { return view{m, dir} }

type view struct {
	m   *Memory
	dir string
}

var (
	_ fs.ReadDirFS  = view{}
	_ fs.StatFS     = view{}
	_ fs.ReadFileFS = view{}
)

func (v view) Open(name string) (fs.File, error) {
	n, err := v.m.find("view.open", filepath.Join(v.dir, name))
	if err != nil {
		return nil, err
	}
	return &viewed{file: file{v.m, n, name}}, nil
}

func (v view) ReadDir(name string) ([]fs.DirEntry, error) {
	return v.m.ReadDir("view.list", filepath.Join(v.dir, name))
}

func (v view) ReadFile(name string) ([]byte, error) {
	return v.m.ReadFile("view.read", filepath.Join(v.dir, name))
}

func (v view) Stat(name string) (fs.FileInfo, error) {
	f, err := v.Open(name)
	if err != nil {
		return nil, err
	}
	return f.Stat()
}

type viewed struct {
	file
	off int64
}

var _ io.ReaderAt = (*viewed)(nil)

func (v *viewed) Read(p []byte) (int, error) {
	n, err := v.ReadAt(p, v.off)
	v.off += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (v *viewed) Stat() (fs.FileInfo, error) {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	return info{filepath.Base(v.name), v.n.dir, int64(len(v.n.live)), v.n.modified}, nil
}

type info struct {
	name string
	dir  bool
	size int64
	at   time.Time
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return i.at }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
