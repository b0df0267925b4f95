//go:build unix

package server

import (
	"os"
	"syscall"
)

// nobody is the user and the group without any rights.
const nobody = 65534

// credential is that of nobody for an unprivileged child of root, nil for every
// other: who is not root cannot change it and need not.
func credential(unprivileged bool) *syscall.Credential {
	if !unprivileged || os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: nobody, Gid: nobody}
}

// giveAway makes dir, which lies in d, that of an unprivileged child.
func (d *tempDir) giveAway(dir string) error {
	if credential(true) == nil {
		return nil
	}
	if err := os.Chmod(d.path, 0o711); err != nil { // it has to be passed through
		return err
	}
	return os.Chown(dir, nobody, nobody)
}
