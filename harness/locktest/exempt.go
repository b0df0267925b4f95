package locktest

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/lockbench/lockbench/impls/lock"
)

// excused is the T of a case that a variant is exempt from: what it reports fails
// nothing.
type excused struct {
	T
	mu       sync.Mutex
	problems []string
}

func (x *excused) Errorf(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.problems = append(x.problems, fmt.Sprintf(format, args...))
}

func (x *excused) Fatalf(format string, args ...any) {
	x.Errorf(format, args...)
	runtime.Goexit()
}

// excuse runs c on v, which is exempt from it, and tells how that ended. A case
// that passes says aloud that it did, and does not fail: what a library leaves to
// luck may pass once.
func (c Case) excuse(t T, v lock.Variant, d lock.Deployment, o Options) {
	t.Helper()
	x := &excused{T: t}
	t.Cleanup(func() { // after those of the case, which may report, too
		x.mu.Lock()
		defer x.mu.Unlock()
		if len(x.problems) == 0 {
			t.Logf("EXEMPT FOR NOTHING: %s is exempt from %s and has passed it", v.Name(), c.Name)
			return
		}
		t.Logf("%s fails %s, from which it is exempt: %s", v.Name(), c.Name, x.problems[0])
	})
	o = o.filled()
	o.Patience = min(o.Patience, 10*o.TTL) // it is expected to run out
	done := make(chan struct{})
	go func() { // which the first problem may end
		defer close(done)
		c.check(x, v, d, o)
	}()
	<-done
}
