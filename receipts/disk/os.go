//go:build unix

package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// OS is the real file system.
type OS struct{}

var _ FS = OS{}

func (OS) MkdirAll(_, dir string) error { return os.MkdirAll(dir, 0o700) }

func (OS) Create(_, name string) (File, error) { return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL) }

func (OS) Open(_, name string) (File, error) { return open(name, os.O_RDWR) }

func (OS) ReadFile(_, name string) ([]byte, error) { return os.ReadFile(name) }

func (OS) ReadDir(_, dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }

func (OS) Rename(_, from, to string) error { return os.Rename(from, to) }

func (OS) Remove(_, name string) error { return os.Remove(name) }

func (OS) View(dir string) fs.FS { return os.DirFS(dir) }

func (OS) SyncDir(_, dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

func (OS) Lock(_, name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, fmt.Errorf("%s: %w", name, err)
}

type osFile struct{ *os.File }

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) WriteAt(_ string, p []byte, off int64) error {
	_, err := f.File.WriteAt(p, off)
	return err
}

func (f osFile) Truncate(_ string, size int64) error { return f.File.Truncate(size) }

func (f osFile) Allocate(_ string, size int64) error { return allocate(f.File, size) }

func (f osFile) Sync(string) error { return datasync(f.File) }

func (f osFile) Linked(_, name string) (bool, error) {
	at, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	own, err := f.File.Stat()
	if err != nil {
		return false, err
	}
	return os.SameFile(at, own), nil
}

func (f osFile) Size() (int64, error) {
	i, err := f.File.Stat()
	if err != nil {
		return 0, err
	}
	return i.Size(), nil
}
