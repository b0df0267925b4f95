package redis_test

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// What is known when a command fails, and what is then left on the server.

// fails says how a command fails.
type fails int

const (
	lostAnswer  fails = iota // it ran, its answer was lost
	lostCommand              // it was lost itself, which looks the same
	notSent                  // it never left
	refused                  // the server said no
)

// cut is a wire on which the n-th command after arm fails.
type cut struct {
	redistest.Lossy
	how  fails
	left atomic.Int64
}

func newCut(how fails) *cut {
	c := &cut{how: how}
	c.Before = func(args []any) error {
		if c.how == lostAnswer || !c.strikes(-1) {
			return nil
		}
		switch c.how {
		case lostCommand:
			return io.EOF
		case notSent:
			return errors.Join(wire.ErrUnsent, errors.New("connection refused"))
		}
		return wire.Error("OOM command not allowed when used memory > 'maxmemory'.")
	}
	c.After = func(args []any, reply any, err error) (any, error) {
		var e wire.Error
		if c.how != lostAnswer || errors.As(err, &e) && e.Code() == "NOSCRIPT" || !c.strikes(-1) {
			return reply, err
		}
		return nil, io.EOF
	}
	return c
}

func (c *cut) strikes(by int64) bool { return c.left.Add(by) == 0 }

// arm lets the n-th command from now fail, counted from 1.
func (c *cut) arm(n int64) { c.left.Store(n) }

func (s *server) openCut(t *testing.T, algo string, c *cut) lock.Locker {
	t.Helper()
	return s.OpenOver(t, algo, c.Dial(s.Dial), lock.Config{})
}

func TestAcquireFails(t *testing.T) {
	owned := []string{"redis-token", "redis-watchdog", "redis-fenced", "redis-multi"}
	nobodys := []string{"redis-setnx", "redis-setnx-lua", "redis-timestamp-del", "redis-getset", "redis-set-ex", "redis-get-del"}
	type want struct{ uncertain, left bool }
	eachServer(t, func(t *testing.T, s *server) {
		check := func(name, algo string, how fails, nth int64, w want) {
			t.Run(algo+" "+name, func(t *testing.T) {
				key := algo + name
				c := newCut(how)
				l := s.openCut(t, algo, c)
				c.arm(nth)
				lease, err := l.Acquire(t.Context(), key)
				if err == nil || lease != nil {
					t.Fatalf("Acquire: %v, %v; want an error", lease, err)
				}
				if got := errors.Is(err, lock.ErrUncertain); got != w.uncertain {
					t.Errorf("ErrUncertain: %v, want %v: %v", got, w.uncertain, err)
				}
				if got := s.Do(t, "EXISTS", key) == int64(1); got != w.left {
					t.Errorf("the key is there: %v, want %v", got, w.left)
				}
			})
		}
		for _, algo := range owned {
			check("lost answer", algo, lostAnswer, 1, want{uncertain: false, left: false})
			check("lost command", algo, lostCommand, 1, want{uncertain: true, left: false})
			check("not sent", algo, notSent, 1, want{})
			check("refused", algo, refused, 1, want{})
		}
		for _, algo := range nobodys {
			check("lost answer", algo, lostAnswer, 1, want{uncertain: true, left: true})
			check("lost command", algo, lostCommand, 1, want{uncertain: true, left: false})
			check("not sent", algo, notSent, 1, want{})
			check("refused", algo, refused, 1, want{})
		}
		// Once SETNX has answered, the key is held whatever befalls EXPIRE.
		check("lost answer of setnx", "redis-setnx-expire", lostAnswer, 1, want{true, true})
		check("refused setnx", "redis-setnx-expire", refused, 1, want{})
		for _, how := range []fails{lostAnswer, lostCommand, notSent, refused} {
			check("expire "+string(rune('0'+how)), "redis-setnx-expire", how, 2, want{true, true})
		}
	})
}

// A take-over fails at each of its commands.
func TestTakeoverFails(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, c := range []struct {
			algo      string
			nth       int64
			uncertain bool
		}{
			{"redis-timestamp-del", 2, false}, // GET
			{"redis-timestamp-del", 3, false}, // DEL of the dead lock: nothing is held
			{"redis-timestamp-del", 4, true},  // SETNX
			{"redis-getset", 2, false},        // GET
			{"redis-getset", 3, true},         // GETSET
		} {
			s.Do(t, "SET", c.algo, 1000)
			w := newCut(lostAnswer)
			l := s.openCut(t, c.algo, w)
			w.arm(c.nth)
			_, err := l.Acquire(t.Context(), c.algo)
			if !errors.Is(err, io.EOF) || errors.Is(err, lock.ErrUncertain) != c.uncertain {
				t.Errorf("%s, command %d: %v; want ErrUncertain: %v", c.algo, c.nth, err, c.uncertain)
			}
		}
	})
}

func TestReleaseFails(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range []string{
			"redis-setnx", "redis-setnx-expire", "redis-setnx-lua", "redis-timestamp-del", "redis-getset", "redis-set-ex",
			"redis-get-del", "redis-token", "redis-watchdog", "redis-fenced", "redis-blpop", "redis-multi",
		} {
			if algo == "redis-blpop" && s.Shared {
				continue
			}
			nth := int64(1)
			if algo == "redis-get-del" {
				nth = 2 // GET answers, DEL fails
			}
			// With an owner in the key a second Release is safe and finds out.
			// Without, it must not delete what may be the next owner's.
			var lost error
			ran := lock.ErrLost
			switch algo {
			case "redis-setnx", "redis-setnx-expire", "redis-setnx-lua", "redis-timestamp-del", "redis-getset", "redis-set-ex":
				ran, lost = lock.ErrUncertain, lock.ErrUncertain
			}
			for _, c := range []struct {
				name      string
				how       fails
				uncertain bool
				again     error // of a second Release
			}{
				{"lost answer", lostAnswer, true, ran},
				{"lost command", lostCommand, true, lost},
				{"not sent", notSent, false, nil},
				{"refused", refused, false, nil},
			} {
				t.Run(algo+" "+c.name, func(t *testing.T) {
					w := newCut(c.how)
					l := s.openCut(t, algo, w)
					key := algo + c.name
					lease := redistest.MustTry(t, l, key)
					w.arm(nth)
					err := lease.Release(t.Context())
					if err == nil || errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrUncertain) != c.uncertain {
						t.Errorf("Release: %v; want ErrUncertain: %v", err, c.uncertain)
					}
					if err := lease.Release(t.Context()); !errors.Is(err, c.again) {
						t.Errorf("second Release: %v, want %v", err, c.again)
					}
					// A third cannot hurt the next owner, whatever the first did.
					s.Do(t, "DEL", key)
					redistest.MustTry(t, s.Open(t, algo, nil), key)
					if err := lease.Release(t.Context()); err == nil || s.Do(t, "EXISTS", key) != int64(1) {
						t.Errorf("third Release: %v, and it freed the next owner's key or says that it freed something", err)
					}
				})
			}
		}
	})
}

// What the server refuses comes through with its own words.
func TestRefusal(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		s.Do(t, "RPUSH", "list{list}:fence", "x")
		_, err := s.Open(t, "redis-fenced", nil).Acquire(t.Context(), "list")
		var e wire.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "WRONGTYPE") || errors.Is(err, lock.ErrUncertain) {
			t.Errorf("a counter of the wrong type: %v", err)
		}
		if got := s.Do(t, "EXISTS", "list"); got != int64(0) {
			t.Error("the key was granted without a number")
		}
	})
}
