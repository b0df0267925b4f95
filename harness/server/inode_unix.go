//go:build unix

package server

import (
	"io/fs"
	"syscall"
)

// inodeOf is what tells a file from another that has had its name.
func inodeOf(f fs.FileInfo) (inode uint64, ok bool) {
	at, ok := f.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return uint64(at.Ino), true //nolint:unconvert // some systems have another type
}
