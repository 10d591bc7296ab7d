//go:build unix && !linux

package disk

import "os"

func allocate(f *os.File, size int64) error { return f.Truncate(size) }

func datasync(f *os.File) error { return f.Sync() }

// Ephemeral reports whether dir lies on a file system that does not survive the machine; here that is not known.
func Ephemeral(string) bool { return false }
