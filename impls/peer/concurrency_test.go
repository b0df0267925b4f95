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

// A key whose release did not arrive is free once the time of its session is up,
// though its Locker lives on.
func TestConcurrencyReleaseUnheard(t *testing.T) {
	list := peer.Variants()
	v := list[slices.IndexFunc(list, func(v lock.Variant) bool { return v.Algo == "peer-etcd-concurrency" })]
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(t.Context(), v.Needs, o)
	if errors.Is(err, server.ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "etcd") {
		t.Skipf("NOT RUN: there is no %s", v.Needs)
	}
	if err != nil {
		t.Fatal(err)
	}
	key := "lb:" + rand.Text()
	defer func() {
		_, err := s.Remove(context.Background(), v.Names(key)...)
		if err := errors.Join(err, s.Close()); err != nil {
			t.Error(err)
		}
	}()
	proxies, through, err := fault.Before(s.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := proxies.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := lock.Config{TTL: 3 * time.Second, Timeout: 500 * time.Millisecond}
	l, err := v.Open(t.Context(), through, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	lease, err := l.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	proxies.SetBoth(fault.Reset)
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrUncertain) {
		t.Errorf("Release that does not arrive: %v, want ErrUncertain", err)
	}
	proxies.SetBoth(fault.Pass) // with it the session would be renewed again
	other, err := v.Open(t.Context(), s.Deployment, lock.Config{TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	next, err := other.Acquire(ctx, key)
	if err != nil {
		t.Fatalf("the key is kept: %v", err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
