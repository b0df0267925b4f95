package redis_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// A crowd is a Locker under test that has found several waiting before it, holds the
// key, and has two others behind it.
type crowd struct {
	*server
	t      *testing.T
	others lock.Locker
	behind []<-chan result
	l      lock.Locker
	held   lock.Lease
}

func newCrowd(t *testing.T, s *server, l lock.Locker) *crowd {
	t.Helper()
	c := &crowd{server: s, t: t, others: s.open(t, "redis-handoff", nil), l: l}
	first := mustTry(t, c.others, "k")
	c.join()
	c.join()
	mine := enqueue(t.Context(), t, s, l, 3)
	release(t, first)
	for range 2 {
		c.next()
		c.join()
	}
	r := wait(t, "the grant behind the crowd", mine)
	if r.err != nil {
		t.Fatal(r.err)
	}
	c.held = r.lease
	return c
}

// join puts one of the others into the queue.
func (c *crowd) join() {
	c.t.Helper()
	n, _ := c.do(c.t, "LLEN", queued).(int64)
	c.behind = append(c.behind, enqueue(c.t.Context(), c.t, c.server, c.others, n+1))
}

// next lets the first of the others have the key and give it back.
func (c *crowd) next() {
	c.t.Helper()
	r := wait(c.t, "the grant to the next", c.behind[0])
	if r.err != nil {
		c.t.Fatal(r.err)
	}
	c.behind = c.behind[1:]
	release(c.t, r.lease)
}

// Who was granted the key in a crowd joins the next queue by RPUSHX, as the last of
// it; where there is none any more the script has the word, at once and from then on.
func TestHandoffJoinsACrowd(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		var mu sync.Mutex
		var sent []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, what)
		}
		// Not all commands: a check may come at any time on a slow machine.
		w := &wire{before: func(args []any) error {
			if args[0] == "RPUSHX" {
				note("RPUSHX")
			}
			return nil
		}}
		hook := func(_ context.Context, step string) error {
			if step == "before-acquire" {
				note("acquire")
			}
			return nil
		}
		all := func() []string {
			mu.Lock()
			defer mu.Unlock()
			defer func() { sent = nil }()
			return sent
		}
		c := newCrowd(t, s, openVariant(t, find(t, redis.Variants(s.name, w.dial(s.dial)), "redis-handoff"), s.at, lock.Config{Hook: hook}))
		release(t, c.held)
		all()
		mine := enqueue(t.Context(), t, s, c.l, 2) // one of the others holds, one waits
		if got := all(); !slices.Equal(got, []string{"acquire", "RPUSHX"}) {
			t.Errorf("Acquire in a crowd sent %v", got)
		}
		if last, _ := s.do(t, "LINDEX", queued, -1).(string); strings.HasPrefix(last, strings.SplitN(s.do(t, "LINDEX", queued, 0).(string), ":", 2)[0]) {
			t.Errorf("the last in the queue is %s, of the same process as the first", last)
		}
		c.next()
		c.next()
		r := wait(t, "the grant after RPUSHX", mine)
		if r.err != nil {
			t.Fatal(r.err)
		}
		release(t, r.lease)

		for _, want := range [][]string{{"acquire", "RPUSHX", "acquire"}, {"acquire"}} {
			if s.do(t, "EXISTS", "k", queued) != int64(0) {
				t.Fatal("the key is not free")
			}
			all()
			lease, err := c.l.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if got := all(); !slices.Equal(got, want) {
				t.Errorf("Acquire of a free key sent %v, want %v", got, want)
			}
			release(t, lease)
		}
	})
}

// When RPUSHX fails the waiter leaves the queue, whether it stands there or not.
func TestHandoffJoinsACrowdInVain(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, how := range []fails{lostAnswer, lostCommand, notSent, refused} {
			w := newCut(how)
			c := newCrowd(t, s, s.openCut(t, "redis-handoff", w))
			release(t, c.held)
			w.arm(1)
			lease, err := c.l.Acquire(t.Context(), "k")
			if err == nil || lease != nil {
				t.Fatalf("%v: Acquire: %v, %v; want an error", how, lease, err)
			}
			if got, want := errors.Is(err, lock.ErrUncertain), how == lostAnswer || how == lostCommand; got != want {
				t.Errorf("%v: ErrUncertain: %v, want %v: %v", how, got, want, err)
			}
			if n := s.do(t, "LLEN", queued); n != int64(1) {
				t.Errorf("%v: %v in the queue, want the other one alone", how, n)
			}
			c.next()
			c.next()
			if s.do(t, "EXISTS", "k", queued) != int64(0) {
				t.Errorf("%v: something is left", how)
			}
		}
	})
}

// A process that has not waited in a crowd for a while forgets it.
func TestHandoffForgetsACrowd(t *testing.T) {
	s := newServer(t, adapters()[0], startRedis(t), true)
	l := s.open(t, "redis-handoff", nil)
	c := newCrowd(t, s, l)
	release(t, c.held)
	c.next()
	c.next()
	if redis.Crowds(l) != 1 {
		t.Fatalf("%d crowds are known, want 1", redis.Crowds(l))
	}
	until(t, "the crowd is forgotten", func() bool { return redis.Crowds(l) == 0 })
}
