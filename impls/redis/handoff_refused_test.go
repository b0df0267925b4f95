package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// realServers runs test on a server of its own for each client, since miniredis
// neither refuses commands nor drops connections when it is told to.
func realServers(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	for _, a := range adapters() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			test(t, newServer(t, a, startRedis(t), true))
		})
	}
}

// Who cannot get back what it slept with does not hold the key, says so, and takes
// no signal from those that still sleep.
func TestCondWakeRefused(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		l, o := openVariant(t, s.variant(t, "redis-handoff"), s.at, lock.Config{TTL: 2 * time.Second}), s.open(t, "redis-handoff", nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := sleep(ctx, t, s, mustTry(t, l, "k"), "c", 1)
		second := mustTry(t, o, "k")
		secondWoken := sleep(t.Context(), t, s, second, "c", 2)
		s.do(t, "CONFIG", "SET", "min-replicas-to-write", 1) // a write is refused
		cancel()
		err := wait(t, "the first", first)
		if !errors.Is(err, lock.ErrUncertain) || !errors.Is(err, context.Canceled) {
			t.Errorf("Wait returned %v, want ErrUncertain and why it ended", err)
		}
		s.do(t, "CONFIG", "SET", "min-replicas-to-write", 0)
		until(t, "the first to be out of the list", func() bool { return s.do(t, "LLEN", sleeping) == int64(1) })
		third := mustTry(t, o, "k")
		signal(t, third, "c")
		release(t, third)
		woken(t, "the second", secondWoken)
		release(t, second)
	})
}

// A Wait that the server refuses leaves the lease as it was: held, and renewed.
func TestCondWaitRefused(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		held := mustTry(t, openVariant(t, s.variant(t, "redis-handoff"), s.at, lock.Config{TTL: 6 * time.Second}), "k")
		s.do(t, "CONFIG", "SET", "maxmemory", 1)
		err := held.(lock.Conder).Wait(t.Context(), "c")
		s.do(t, "CONFIG", "SET", "maxmemory", 0)
		if err == nil || errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrUncertain) {
			t.Errorf("Wait returned %v, want an error that says that the key is held", err)
		}
		before, _ := s.do(t, "PTTL", "k").(int64)
		until(t, "the lease to be renewed", func() bool {
			left, _ := s.do(t, "PTTL", "k").(int64)
			renewed := left > before
			before = left
			return renewed
		})
		release(t, held)
	})
}

// TryAcquire takes a free key although the queue holds some that are gone.
func TestTryAfterAllHaveDied(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range []string{"redis-handoff", "redis-cohort"} {
			t.Run(algo, func(t *testing.T) {
				v := s.variant(t, algo)
				d := lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{s.at}}
				var dying [2]lock.Locker
				for i := range dying {
					var err error
					if dying[i], err = v.Open(t.Context(), d, lock.Config{}); err != nil {
						t.Fatal(err)
					}
				}
				mustTry(t, dying[0], "k")
				enqueue(t.Context(), t, s, dying[1], 1)
				for _, l := range dying {
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
				}
				// Before it has seen the connections end the server may grant the key to
				// one of them once more, for a TTL that the imitation never ends.
				until(t, "the inboxes to be gone", func() bool {
					return len(s.do(t, "PUBSUB", "CHANNELS", "lockbench:inbox:*").([]any)) == 0
				})
				s.do(t, "DEL", "k") // the lease has ended
				release(t, mustTry(t, s.open(t, algo, nil), "k"))
			})
		}
	})
}

// What is granted to a waiter whose connection for messages has just come back
// began after it did, however long that took.
func TestGrantAfterALongGap(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		const ttl = 3 * time.Second
		l, o := openVariant(t, s.variant(t, "redis-handoff"), s.at, lock.Config{TTL: ttl, Timeout: 30 * time.Second}), s.open(t, "redis-handoff", nil)
		release(t, mustTry(t, l, "other")) // has the connection for commands made
		held := mustTry(t, o, "k")
		waits := enqueue(t.Context(), t, s, l, 1)
		s.do(t, "CONFIG", "SET", "maxclients", 1)
		s.do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		time.Sleep(ttl + ttl/4)
		release(t, held)
		s.do(t, "CONFIG", "SET", "maxclients", 1000)
		lease := granted(t, "the waiter", waits)
		if left := time.Until(lease.(lock.Deadliner).Deadline()); left <= 0 {
			t.Errorf("the lease had ended %v before it was granted", -left)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	})
}

// Who waits while no connection for messages can be made learns it, also after
// others have.
func TestWaitWithoutMessages(t *testing.T) {
	realServers(t, func(t *testing.T, s *server) {
		// One connection, or a check that is under way makes an Acquire dial another.
		c := lock.Config{Timeout: 2 * time.Second, Conns: 1}
		l, o := openVariant(t, s.variant(t, "redis-handoff"), s.at, c), s.open(t, "redis-handoff", nil)
		release(t, mustTry(t, l, "other")) // has that made
		held := mustTry(t, o, "k")
		s.do(t, "CONFIG", "SET", "maxclients", 1)
		s.do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		for range 2 {
			waits := make(chan error, 1)
			go func() { _, err := l.Acquire(t.Context(), "k"); waits <- err }()
			if err := wait(t, "the waiter", waits); !errors.Is(err, lock.ErrUncertain) {
				t.Errorf("Acquire returned %v, want ErrUncertain", err)
			}
		}
		s.do(t, "CONFIG", "SET", "maxclients", 1000)
		release(t, held)
	})
}
