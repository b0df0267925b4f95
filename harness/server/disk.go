package server

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// errDiskless says that a server was started as usual.
var errDiskless = errors.New("server: its disk is that of the system: it was started without Options.Disks")

// A disk is what one server has had synced, in a list to which it adds by itself, and the
// switch by which its syncs hang, in a file that it has mapped.
type disk struct {
	path string // of the switch
	env  []string
}

// newDisk makes a disk that works, for a server that is started under d.
func newDisk(d *tempDir) (*disk, error) {
	f, err := os.CreateTemp(d.path, "disk-")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(make([]byte, 8))
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	k := &disk{path: f.Name()}
	k.env = []string{"LD_PRELOAD=" + d.shim, "LOCKBENCH_DISK=" + k.path, "LOCKBENCH_SYNCS=" + k.list()}
	return k, err
}

func (k *disk) list() string { return k.path + ".syncs" }

// begin starts the list anew, with the files that are in dir: what a server finds when it
// starts is on disk.
func (k *disk) begin(dir string) error {
	var b strings.Builder
	err := files(dir, func(_ string, inode uint64, size int64) error {
		_, err := fmt.Fprintf(&b, "%d %d\n", inode, size)
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(k.list(), []byte(b.String()), 0o666)
}

// stick has the syncs of the server hang, or go on.
func (k *disk) stick(on bool) error {
	b := make([]byte, 8)
	if on {
		binary.NativeEndian.PutUint64(b, 1)
	}
	f, err := os.OpenFile(k.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	return errors.Join(err, f.Close())
}

// synced reads how much of each file, by its inode, was synced last.
func (k *disk) synced() (map[uint64]int64, error) {
	f, err := os.Open(k.list())
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	sizes := map[uint64]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var inode uint64
		var size int64
		if _, err := fmt.Sscan(lines.Text(), &inode, &size); err != nil {
			return nil, fmt.Errorf("server: %s: %q is no inode and size", k.list(), lines.Text())
		}
		sizes[inode] = size
	}
	return sizes, lines.Err()
}

// lose cuts from each file in dir what was not synced, and returns how many bytes that were.
func (k *disk) lose(dir string) (cut int64, err error) {
	sizes, err := k.synced()
	if err != nil {
		return 0, err
	}
	err = files(dir, func(path string, inode uint64, size int64) error {
		kept := min(sizes[inode], size)
		cut += size - kept
		if kept == size {
			return nil
		}
		return os.Truncate(path, kept)
	})
	return cut, err
}

// files calls each for every file of the server's data below dir. Its log is ours.
func files(dir string, each func(path string, inode uint64, size int64) error) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || path == filepath.Join(dir, logName) {
			return err
		}
		at, err := e.Info()
		if err != nil {
			return err
		}
		inode, ok := inodeOf(at)
		if !ok {
			return fmt.Errorf("server: this system does not tell the inode of %s", path)
		}
		return each(path, inode, at.Size())
	})
}

// disked is the server of number i, from 0 in the order of ByServer, if its disk can be
// disturbed.
func (s *Server) disked(i int) (*running, error) {
	if s.diskless != nil {
		return nil, s.diskless
	}
	r, ok := s.placed()[i].host.(*running)
	if !ok || r.disk == nil {
		return nil, fmt.Errorf("server: the disk of a %s like this cannot be disturbed", s.Kind)
	}
	return r, nil
}

// Stick has the syncs of server i, from 0 in the order of ByServer, hang if on is true, as a
// disk does that does not answer, until it is called with false. What the server has written
// stays in the memory of the system, and is lost with the power, not with the process.
func (s *Server) Stick(i int, on bool) error {
	r, err := s.disked(i)
	if err != nil {
		return err
	}
	return r.disk.stick(on)
}

// LosePower takes from the servers what they had not synced, as if the machine had stopped
// when they were killed, and returns how many bytes that were. It comes before Start.
func (k *Killed) LosePower() (cut int64, err error) {
	var errs []error
	for _, p := range k.list {
		r, ok := p.host.(*running)
		if !ok || r.disk == nil {
			errs = append(errs, errors.Join(k.s.diskless, fmt.Errorf("server: it is not known what a %s like this has synced", k.s.Kind)))
			continue
		}
		n, err := r.disk.lose(r.dir)
		cut += n
		errs = append(errs, err)
	}
	return cut, errors.Join(errs...)
}
