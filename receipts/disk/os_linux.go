package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EOPNOTSUPP):
			return f.Truncate(size)
		default:
			return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}

func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}

// Ephemeral reports whether dir lies on a file system that does not survive the machine or the container (tmpfs, ramfs,
// overlay), where durability is a word only.
func Ephemeral(dir string) bool {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	if err != nil {
		return false
	}
	switch int64(s.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}
