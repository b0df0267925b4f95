package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// Who cannot get back what it slept with does not hold the key, says so, and takes
// no signal from those that still sleep.
func TestCondWakeRefused(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		l, o := redistest.OpenVariant(t, s.Variant(t, "redis-handoff"), s.At, lock.Config{TTL: 2 * time.Second}), s.Open(t, "redis-handoff", nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first := sleep(ctx, t, s, redistest.MustTry(t, l, "k"), "c", 1)
		second := redistest.MustTry(t, o, "k")
		secondWoken := sleep(t.Context(), t, s, second, "c", 2)
		s.Do(t, "CONFIG", "SET", "min-replicas-to-write", 1) // a write is refused
		cancel()
		err := redistest.Wait(t, "the first", first)
		if !errors.Is(err, lock.ErrUncertain) || !errors.Is(err, context.Canceled) {
			t.Errorf("Wait returned %v, want ErrUncertain and why it ended", err)
		}
		s.Do(t, "CONFIG", "SET", "min-replicas-to-write", 0)
		redistest.Until(t, "the first to be out of the list", func() bool { return s.Do(t, "LLEN", sleeping) == int64(1) })
		third := redistest.MustTry(t, o, "k")
		signal(t, third, "c")
		redistest.Release(t, third)
		woken(t, "the second", secondWoken)
		redistest.Release(t, second)
	})
}

// A Wait that the server refuses leaves the lease as it was: held, and renewed.
func TestCondWaitRefused(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		held := redistest.MustTry(t, redistest.OpenVariant(t, s.Variant(t, "redis-handoff"), s.At, lock.Config{TTL: 6 * time.Second}), "k")
		s.Do(t, "CONFIG", "SET", "maxmemory", 1)
		err := held.(lock.Conder).Wait(t.Context(), "c")
		s.Do(t, "CONFIG", "SET", "maxmemory", 0)
		if err == nil || errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrUncertain) {
			t.Errorf("Wait returned %v, want an error that says that the key is held", err)
		}
		before, _ := s.Do(t, "PTTL", "k").(int64)
		redistest.Until(t, "the lease to be renewed", func() bool {
			left, _ := s.Do(t, "PTTL", "k").(int64)
			renewed := left > before
			before = left
			return renewed
		})
		redistest.Release(t, held)
	})
}

// TryAcquire takes a free key although the queue holds some that are gone.
func TestTryAfterAllHaveDied(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, algo := range []string{"redis-handoff", "redis-cohort"} {
			t.Run(algo, func(t *testing.T) {
				v := s.Variant(t, algo)
				d := lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{s.At}}
				var dying [2]lock.Locker
				for i := range dying {
					var err error
					if dying[i], err = v.Open(t.Context(), d, lock.Config{}); err != nil {
						t.Fatal(err)
					}
				}
				redistest.MustTry(t, dying[0], "k")
				enqueue(t.Context(), t, s, dying[1], 1)
				for _, l := range dying {
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
				}
				// Before it has seen the connections end the server may grant the key to
				// one of them once more, for a TTL that the imitation never ends.
				redistest.Until(t, "the inboxes to be gone", func() bool {
					return len(s.Do(t, "PUBSUB", "CHANNELS", "lockbench:inbox:*").([]any)) == 0
				})
				s.Do(t, "DEL", "k") // the lease has ended
				redistest.Release(t, redistest.MustTry(t, s.Open(t, algo, nil), "k"))
			})
		}
	})
}

// What is granted to a waiter whose connection for messages has just come back
// began after it did, however long that took.
func TestGrantAfterALongGap(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		const ttl = 3 * time.Second
		l, o := redistest.OpenVariant(t, s.Variant(t, "redis-handoff"), s.At, lock.Config{TTL: ttl, Timeout: 30 * time.Second}), s.Open(t, "redis-handoff", nil)
		redistest.Release(t, redistest.MustTry(t, l, "other")) // has the connection for commands made
		held := redistest.MustTry(t, o, "k")
		waits := enqueue(t.Context(), t, s, l, 1)
		s.Do(t, "CONFIG", "SET", "maxclients", 1)
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		time.Sleep(ttl + ttl/4)
		redistest.Release(t, held)
		s.Do(t, "CONFIG", "SET", "maxclients", 1000)
		lease := redistest.Granted(t, "the waiter", waits)
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
	eachReal(t, func(t *testing.T, s *server) {
		// One connection, or a check that is under way makes an Acquire dial another.
		c := lock.Config{Timeout: 2 * time.Second, Conns: 1}
		l, o := redistest.OpenVariant(t, s.Variant(t, "redis-handoff"), s.At, c), s.Open(t, "redis-handoff", nil)
		redistest.Release(t, redistest.MustTry(t, l, "other")) // has that made
		held := redistest.MustTry(t, o, "k")
		s.Do(t, "CONFIG", "SET", "maxclients", 1)
		s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		for range 2 {
			waits := make(chan error, 1)
			go func() { _, err := l.Acquire(t.Context(), "k"); waits <- err }()
			if err := redistest.Wait(t, "the waiter", waits); !errors.Is(err, lock.ErrUncertain) {
				t.Errorf("Acquire returned %v, want ErrUncertain", err)
			}
		}
		s.Do(t, "CONFIG", "SET", "maxclients", 1000)
		redistest.Release(t, held)
	})
}
