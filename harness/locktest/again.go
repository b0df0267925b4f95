package locktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// goes is how often a case is carried out at most.
const goes = 3

// calm is how long the second go at a case waits, and the third twice that: goes
// that follow at once meet the same other tests at work, and are late as well.
const calm = 5 * time.Second

// An attempt is the T of one go at a case. What it reports is kept until it is known
// whether it counts: a step that ran into a time-out, because the machine was too
// busy to answer, says nothing of the promise, so that the case is carried out
// anew. A promise that was seen broken counts at once, whatever else went wrong.
type attempt struct {
	T
	ctx context.Context //nolint:containedctx // a T hands out the context of its test

	mu       sync.Mutex
	problems []string
	cleanups []func()
	slow     bool // a step ran into a time-out
}

func (a *attempt) Context() context.Context { return a.ctx }

func (a *attempt) Cleanup(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cleanups = append(a.cleanups, f)
}

func (a *attempt) Errorf(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

// undone ends a go at a case that could not be carried out, for the reasons
// among args.
func (a *attempt) undone(msg string, args []any) {
	a.mu.Lock()
	a.slow = a.slow || slices.ContainsFunc(args, timedOut)
	a.mu.Unlock()
	a.Fatalf("%s", msg)
}

// tooSlow is an error that comes of a short time-out, whatever it says.
type tooSlow struct{ error }

func (tooSlow) Timeout() bool   { return true }
func (tooSlow) Temporary() bool { return true }

// timedOut reports whether arg is an error that says so.
func timedOut(arg any) bool {
	err, ok := arg.(error)
	var late net.Error
	return ok && errors.As(err, &late) && late.Timeout()
}

// run calls f, then the cleanups, as testing does: in goroutines that Fatalf may
// end, and with a context that has ended before the cleanups.
func (a *attempt) run(f func()) {
	alone := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
	ctx, cancel := context.WithCancel(a.T.Context())
	defer cancel()
	a.ctx = ctx
	alone(f)
	cancel()
	for _, f := range slices.Backward(a.cleanups) {
		alone(f)
	}
}

// check runs c on v and reports to t. A case that could not be carried out is
// carried out again, which the log says aloud.
func (c Case) check(t T, v lock.Variant, d lock.Deployment, o Options) {
	t.Helper()
	for n := 1; ; n++ {
		a := &attempt{T: t}
		a.run(func() { c.once(a, v, d, o) })
		if a.slow && len(a.problems) == 1 && n < goes {
			t.Logf("AGAIN: go %d of %d at %s ran into a time-out: %s", n, goes, c.Name, a.problems[0])
			select {
			case <-time.After(time.Duration(n) * calm):
				continue
			case <-t.Context().Done():
			}
		}
		for _, p := range a.problems {
			t.Errorf("%s", p)
		}
		return
	}
}
