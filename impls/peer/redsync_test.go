package peer

import (
	"errors"
	"io"
	"os"
	"testing"

	"github.com/go-redsync/redsync/v4"

	"github.com/lockbench/lockbench/impls/lock"
)

// What some of redsync's servers say of a key does not stand for what those say
// that are silent, unless they are a majority.
func TestRedsyncAnswers(t *testing.T) {
	taken := func(node int) error { return &redsync.ErrNodeTaken{Node: node} }
	silent := func(node int) error { return &redsync.RedisError{Node: node, Err: os.ErrDeadlineExceeded} }
	broken := func(node int) error { return &redsync.RedisError{Node: node, Err: io.ErrUnexpectedEOF} }
	for name, c := range map[string]struct {
		err             error
		refused, silent int
		released        error // by five servers
	}{
		"a majority":          {&redsync.ErrTaken{Nodes: []int{1, 2, 3}}, 3, 0, lock.ErrLost},
		"all that are known":  {errors.Join(errors.Join(nil, taken(1)), taken(2)), 2, 0, lock.ErrLost},
		"one of the answers":  {errors.Join(errors.Join(errors.Join(nil, silent(0)), taken(1)), broken(2)), 1, 2, lock.ErrUncertain},
		"nobody answers":      {errors.Join(silent(0), silent(1), silent(2)), 0, 3, lock.ErrUncertain},
		"expired on three":    {errors.Join(redsync.ErrLockAlreadyExpired, redsync.ErrLockAlreadyExpired, taken(2), silent(3), silent(4)), 3, 2, lock.ErrLost},
		"expired on a server": {errors.Join(redsync.ErrLockAlreadyExpired, silent(3), silent(4)), 1, 2, lock.ErrUncertain},
	} {
		if refused, quiet := answers(c.err); refused != c.refused || quiet != c.silent {
			t.Errorf("%s: %d refused and %d silent, want %d and %d", name, refused, quiet, c.refused, c.silent)
		}
		if err := settled(false, c.err, 5); !errors.Is(err, c.released) {
			t.Errorf("%s: a release is %v, want %v", name, err, c.released)
		}
	}
	if !short(silent(0)) || short(broken(0)) {
		t.Error("its own time-out is not known by the name that the network gives it")
	}
	if err := settled(true, silent(0), 5); err != nil {
		t.Errorf("a release that a majority has confirmed is %v", err)
	}
}
