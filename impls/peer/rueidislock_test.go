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

// tracked calls f for each variant on rueidis, with a server that it can use and
// a key of its own.
func tracked(t *testing.T, f func(t *testing.T, v lock.Variant, d lock.Deployment, key string)) {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range peer.Variants() {
		if v.Client != "rueidis" {
			continue
		}
		t.Run(v.Algo, func(t *testing.T) {
			s, err := server.Start(t.Context(), v.Needs, o)
			if errors.Is(err, server.ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "redis") {
				t.Skipf("NOT RUN: there is no %s", v.Needs)
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
			f(t, v, s.Deployment, key)
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
