package server

import (
	"context"
	_ "embed" // the source of the shim
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// shim is what gives a server a clock and a disk that can be disturbed, in C.
//
//go:embed shim/shim.c
var shim []byte

// errClockless says that a server was started as usual.
var errClockless = errors.New("server: it goes by the clock of the system: it was started without Options.Clocks")

// buildShim compiles shim into dir and returns its path.
func buildShim(ctx context.Context, dir string) (string, error) {
	if runtime.GOOS != "linux" {
		return "", missing("a clock or a disk of its own can be given to a server on Linux only")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", missing("a server is given a clock or a disk of its own by a C compiler, and cc is not on PATH; get it with: scripts/servers cc")
	}
	source, path := filepath.Join(dir, "shim.c"), filepath.Join(dir, "shim.so")
	if err := os.WriteFile(source, shim, 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, cc, "-O2", "-shared", "-fPIC", "-o", path, source, "-ldl").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s does not compile what gives a server a clock or a disk: %w: %s", cc, err, lastLine(out))
	}
	return path, os.Chmod(path, 0o755) // a server may run as another user
}

// A wall is the wall clock of one server, in a file that it has mapped: how many ns it is
// ahead.
type wall struct {
	path string
	env  []string
}

// newWall makes a clock that goes right, for a server that is started under d.
func newWall(d *tempDir) (*wall, error) {
	f, err := os.CreateTemp(d.path, "clock-")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(make([]byte, 8))
	err = errors.Join(err, f.Chmod(0o644), f.Close()) // a server may run as another user
	return &wall{f.Name(), []string{"LD_PRELOAD=" + d.shim, "LOCKBENCH_CLOCK=" + f.Name()}}, err
}

// jump moves the clock.
func (w *wall) jump(by time.Duration) error {
	f, err := os.OpenFile(w.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, 8)
	if _, err = f.ReadAt(b, 0); err == nil {
		binary.NativeEndian.PutUint64(b, binary.NativeEndian.Uint64(b)+uint64(by))
		_, err = f.WriteAt(b, 0)
	}
	return errors.Join(err, f.Close())
}

// clocked is the server of number i, from 0 in the order of ByServer, if its clock can be
// set.
func (s *Server) clocked(i int) (*running, error) {
	r, ok := s.placed()[i].host.(*running)
	switch {
	case s.clockless != nil:
		return nil, s.clockless
	case !ok || r.wall == nil:
		return nil, fmt.Errorf("server: a %s like this goes by no clock that can be set", s.Kind)
	}
	return r, nil
}

// Clocked says in one line why the clock of the server of number i, from 0 in the order of
// ByServer, cannot be set, or returns nil. The error wraps ErrMissing if this machine lacks
// what it takes.
func (s *Server) Clocked(i int) error {
	_, err := s.clocked(i)
	return err
}

// Jump moves the wall clock of server i by d, ahead or back. It takes effect when the server
// reads it next. A server that is started again keeps its clock.
func (s *Server) Jump(i int, d time.Duration) error {
	r, err := s.clocked(i)
	if err != nil {
		return err
	}
	return r.wall.jump(d)
}

// Clock asks server i for its wall clock.
func (s *Server) Clock(ctx context.Context, i int) (time.Time, error) {
	r, err := s.clocked(i)
	if err != nil {
		return time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.clock(ctx, r.addr)
}
