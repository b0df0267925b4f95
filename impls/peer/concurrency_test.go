package peer_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/peer"
)

// A key whose release did not arrive is free once the time of its session is up,
// though its Locker lives on.
func TestConcurrencyReleaseUnheard(t *testing.T) {
	list := peer.Variants()
	v := list[slices.IndexFunc(list, func(v lock.Variant) bool { return v.Algo == "peer-etcd-concurrency" })]
	d, key := started(t, v)
	proxies, through, err := fault.Before(d)
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
	other, err := v.Open(t.Context(), d, lock.Config{TTL: 3 * time.Second})
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
