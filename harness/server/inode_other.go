//go:build !unix

package server

import "io/fs"

func inodeOf(fs.FileInfo) (inode uint64, ok bool) { return 0, false }
