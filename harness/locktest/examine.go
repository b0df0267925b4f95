package locktest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/lockbench/lockbench/impls/lock"
)

// Examine carries out the case of that name on v as Run does, and returns what it
// reports: for a test of a variant that is broken on purpose.
func Examine(ctx context.Context, name string, v lock.Variant, d lock.Deployment, o Options) []string {
	i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == name })
	if i < 0 {
		return []string{fmt.Sprintf("there is no case %q", name)}
	}
	return examine(ctx, Cases()[i], v, d, o).problems
}

// recorder is a T that keeps what a case reports.
type recorder struct {
	ctx      context.Context //nolint:containedctx // a T hands out the context of its test
	mu       sync.Mutex
	logs     []string
	problems []string
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// examine runs one case on v as Run would, without a *testing.T.
func examine(ctx context.Context, c Case, v lock.Variant, d lock.Deployment, o Options) *recorder {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &recorder{ctx: ctx}
	alone := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
		}()
		<-done
	}
	alone(func() { c.runOn(r, v, d, o) })
	cancel() // as the context of a test ends before its cleanups
	for _, f := range slices.Backward(r.cleanups) {
		alone(f)
	}
	return r
}
