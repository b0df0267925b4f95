package redistest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// patience is how long a test waits for what must come, on however busy a machine: a
// sentinel that was kept from running for two seconds does nothing for thirty.
const patience = 2 * time.Minute

// Wait fails the test if ready is not closed or sent to in good time.
func Wait[T any](t *testing.T, what string, ready <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ready:
	case <-time.After(patience):
		t.Fatalf("%s: nothing happened for %v", what, patience)
	}
	return v
}

// Until polls for what must come.
func Until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v without: %s", patience, what)
		}
	}
}

// A Result is what an acquiring call returned.
type Result struct {
	Lease lock.Lease
	Err   error
}

// Call runs an acquiring call in a goroutine.
func Call(acquire func() (lock.Lease, error)) <-chan Result {
	done := make(chan Result, 1)
	go func() {
		lease, err := acquire()
		done <- Result{lease, err}
	}()
	return done
}

// Acquire calls Acquire in a goroutine.
func Acquire(ctx context.Context, l lock.Locker, key string) <-chan Result {
	return Call(func() (lock.Lease, error) { return l.Acquire(ctx, key) })
}

// Try calls TryAcquire in a goroutine.
func Try(t *testing.T, l lock.Locker, key string) <-chan Result {
	t.Helper()
	ctx := t.Context()
	return Call(func() (lock.Lease, error) { return l.(lock.Tryer).TryAcquire(ctx, key) })
}

// MustTry takes key or fails the test.
func MustTry(t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	return Granted(t, "TryAcquire of a free key", Try(t, l, key))
}

// AcquireAs takes key for a named owner, who must get it at once.
func AcquireAs(t *testing.T, l lock.Locker, key, owner string) lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return Granted(t, fmt.Sprintf("AcquireAs %q", owner), Call(func() (lock.Lease, error) {
		return l.(lock.Owned).AcquireAs(ctx, key, owner)
	}))
}

// Granted is the lease that a call must get.
func Granted(t *testing.T, who string, done <-chan Result) lock.Lease {
	t.Helper()
	r := Wait(t, who, done)
	if r.Err != nil {
		t.Fatalf("%s: %v", who, r.Err)
	}
	return r.Lease
}

// Release gives l back or fails the test.
func Release(t *testing.T, l lock.Lease) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// A Gate stops the first goroutine that comes to a step until it is opened.
type Gate struct {
	Step    string
	Reached chan struct{} // closed when the goroutine is there
	Open    chan struct{} // for the test to close
}

// NewGate makes a closed Gate.
func NewGate(step string) *Gate {
	return &Gate{Step: step, Reached: make(chan struct{}), Open: make(chan struct{})}
}

// Hook is the Config.Hook of one client that passes the step once.
func (g *Gate) Hook(_ context.Context, step string) error {
	if step == g.Step {
		close(g.Reached)
		<-g.Open
	}
	return nil
}
