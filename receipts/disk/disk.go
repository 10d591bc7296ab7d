// Package disk is the part of the operating system that the log and the vault need, as a seam: each call carries the name
// of the operation first ("segment.write", "vault.sync"), so that a test can make exactly that one fail.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"time"
)

// FS creates, finds and replaces files. Files are 0600 and directories 0700.
type FS interface {
	MkdirAll(op, dir string) error
	// Create makes a new file for reading and writing; one that exists is an error (fs.ErrExist).
	Create(op, name string) (File, error)
	// Open opens a file for reading and writing.
	Open(op, name string) (File, error)
	ReadFile(op, name string) ([]byte, error)
	ReadDir(op, dir string) ([]fs.DirEntry, error)
	Rename(op, from, to string) error
	Remove(op, name string) error
	// SyncDir makes the names in dir durable.
	SyncDir(op, dir string) error
	// Lock takes the exclusive lock of a file that it creates if needed. It does not wait: a taken lock is ErrLocked.
	Lock(op, name string) (io.Closer, error)
	// View is dir for readers.
	View(dir string) fs.FS
}

// File is an open file.
type File interface {
	io.ReaderAt
	WriteAt(op string, p []byte, off int64) error
	Truncate(op string, size int64) error
	// Allocate makes sure that writes below size need no further space, and grows the file to it. Where the file system
	// cannot promise that, it grows the file and returns nil.
	Allocate(op string, size int64) error
	// Sync makes the content (not the name) durable.
	Sync(op string) error
	// Linked reports whether name still leads to this file.
	Linked(op, name string) (bool, error)
	Size() (int64, error)
	Close() error
}

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("locked by another process")

// Durability is what must be true when Replace returns.
type Durability uint8

const (
	Lazy    Durability = iota // a power cut may leave the old file or a damaged one
	Content                   // a power cut leaves the old file or the new one
	Full                      // the new file is there
)

// Replace writes a file as a whole: readers see the old content or the new one.
func Replace(fsys FS, op, name string, data []byte, d Durability) error {
	tmp := name + ".tmp"
	f, err := fsys.Create(op, tmp)
	if errors.Is(err, fs.ErrExist) { // left by a crash
		err = fsys.Remove(op, tmp)
		if err != nil {
			return err
		}
		f, err = fsys.Create(op, tmp)
	}
	if err != nil {
		return err
	}
	err = f.WriteAt(op, data, 0)
	if err == nil && d >= Content {
		err = f.Sync(op)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = fsys.Rename(op, tmp, name)
	}
	if err != nil {
		_ = fsys.Remove(op, tmp)
		return err
	}
	if d < Full {
		return nil
	}
	return fsys.SyncDir(op, filepath.Dir(name))
}

// Age is how long ago a directory entry was last written.
func Age(e fs.DirEntry, now time.Time) time.Duration {
	i, err := e.Info()
	if err != nil {
		return 0
	}
	return now.Sub(i.ModTime())
}
