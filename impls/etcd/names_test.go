package etcd

import (
	"errors"
	"testing"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
)

// Owners that come one after the other use the same names, of which etcd would keep
// each in its index; and who releases twice does not free who has the name now.
func TestNames(t *testing.T) {
	l := client(t, start(t), lock.Config{})
	const key = "lb:{names}:k"
	ctx := within(t)
	for range 20 {
		old, err := l.Acquire(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		switch _, err := l.TryAcquire(ctx, key); {
		case err == nil:
			locktest.Violation(t, "a try beside the holder was granted the key")
			t.FailNow()
		case !errors.Is(err, lock.ErrHeld):
			t.Fatalf("a try beside the holder: %v", err)
		}
		if err := old.Release(ctx); err != nil {
			t.Fatal(err)
		}
		next, err := l.Acquire(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := next.(*lease).p.name, old.(*lease).p.name; got != want {
			t.Fatalf("the next owner has the name %s after %s", got, want)
		}
		if err := old.Release(ctx); !errors.Is(err, lock.ErrLost) {
			t.Fatalf("the second release: %v", err)
		}
		line(t, l, key, 1)
		if err := next.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.current.numbers; n > 2 {
		t.Errorf("%d names for two owners at once", n)
	}
}
