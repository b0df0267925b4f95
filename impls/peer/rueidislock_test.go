package peer_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/peer"
)

// eventually polls f, for at most 30 s.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after 30 s", what)
		}
	}
}

// started is a server that v can use until the test ends, and a key of its own.
func started(t *testing.T, v lock.Variant) (lock.Deployment, string) {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(t.Context(), v.Needs, o)
	if errors.Is(err, server.ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), v.Needs.Kind) {
		t.Skipf("NOT RUN: there is no %s; get it with scripts/servers %s", v.Needs, v.Needs.Kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	key := "lb:" + rand.Text()
	t.Cleanup(func() {
		_, err := s.Remove(context.Background(), v.Names(key)...)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s.Deployment, key
}

// tracked calls f for each variant on rueidis, with a server that it can use and
// a key of its own.
func tracked(t *testing.T, f func(t *testing.T, v lock.Variant, d lock.Deployment, key string)) {
	t.Helper()
	for _, v := range peer.Variants() {
		if v.Client != "rueidis" {
			continue
		}
		t.Run(v.Algo, func(t *testing.T) {
			d, key := started(t, v)
			f(t, v, d, key)
		})
	}
}

// A connection that the library is making while it is closed is closed as well.
// By itself the library would keep it, with its goroutines.
func TestCloseWhileConnecting(t *testing.T) {
	tracked(t, func(t *testing.T, v lock.Variant, d lock.Deployment, key string) {
		proxies, through, err := fault.Before(d)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := proxies.Close(); err != nil {
				t.Error(err)
			}
		}()
		l, err := v.Open(t.Context(), through, lock.Config{TTL: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		eventually(t, "a grant, for which the library allows 20 ms a key", func() bool {
			// Not Acquire, which after a missed deadline may wait for ever.
			_, err := l.(lock.Tryer).TryAcquire(t.Context(), key)
			return err == nil
		})
		// Without its connection the library tries to free what it holds, over a
		// new one, again and again.
		proxies.Set(fault.Down, fault.Hold)
		proxies.Set(fault.Up, fault.Reset)
		eventually(t, "the end of the connections", func() bool { return proxies.Traffic().Open == 0 })
		proxies.Set(fault.Up, fault.Pass)
		eventually(t, "a new connection, whose first answer is held back", func() bool { return proxies.Traffic().Kept[fault.Down] > 0 })
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		proxies.Set(fault.Down, fault.Pass)
		eventually(t, "the end of the connection that was made during Close", func() bool { return proxies.Traffic().Open == 0 })
	})
}

// A wait that Close ends may have been asking, and the library does not say so.
func TestCloseLeavesWaitsUncertain(t *testing.T) {
	tracked(t, func(t *testing.T, v lock.Variant, d lock.Deployment, key string) {
		holder, err := v.Open(t.Context(), d, lock.Config{TTL: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = holder.Close() }()
		lease, err := holder.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var count lock.Counters
		waiter, err := v.Open(t.Context(), d, lock.Config{TTL: 10 * time.Minute, Count: &count})
		if err != nil {
			t.Fatal(err)
		}
		opened, _, _ := count.Read()
		ended := make(chan error, 1)
		go func() {
			_, err := waiter.Acquire(t.Context(), key)
			ended <- err
		}()
		eventually(t, "a command of the waiter", func() bool {
			cmds, _, _ := count.Read()
			return cmds > opened
		})
		if err := waiter.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, lock.ErrUncertain) {
			t.Errorf("a wait whose Locker was closed: %v, want %v", err, lock.ErrUncertain)
		}
		if _, err := waiter.Acquire(t.Context(), key); err == nil || errors.Is(err, lock.ErrUncertain) {
			t.Errorf("a wait on a closed Locker: %v, want an error that is certain", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What is released after Close has begun stays held for its TTL, and the library's
// release returns nothing that could say so.
func TestReleaseAfterClose(t *testing.T) {
	tracked(t, func(t *testing.T, v lock.Variant, d lock.Deployment, key string) {
		l, err := v.Open(t.Context(), d, lock.Config{TTL: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := l.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := lease.Release(t.Context()); err == nil {
			t.Error("Release after Close returned no error, and the key is still held")
		}
	})
}
