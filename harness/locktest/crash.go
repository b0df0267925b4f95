package locktest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

func crashCases() []Case {
	return []Case{
		{
			Name: "crash-midway", Breaks: lock.CrashMidway, Moot: lock.Crash | lock.NoExclusion, run: crashMidway,
			Sentence: "Until the TTL has passed the key must be taken as held.",
		},
		{
			Name: "hook", run: hook,
			Sentence: "An error from it stands for a process that died at that step: the variant returns the error at once and cleans up nothing.",
		},
	}
}

var errDied = errors.New("locktest: the process died here")

// dieAt is a Hook that reports the death of the process at one step.
func dieAt(step string) func(context.Context, string) error {
	return func(_ context.Context, s string) error {
		if s == step {
			return errDied
		}
		return nil
	}
}

// crashMidway lets a holder die at each step of its Acquire. The key must come
// free when a lease would have ended.
func crashMidway(e *env) {
	steps, _ := e.path()
	var keys []string
	for _, step := range steps {
		c := e.config(e.ttl)
		c.Hook = dieAt(step)
		l := e.openAs(e.d, c)
		key := e.key("died-" + step)
		keys = append(keys, key)
		if g := e.end(e.start(e.Context(), l, key), "Acquire of a process that died"); g.err == nil {
			e.Fatalf("Acquire succeeded, although its Hook returned an error at %q", step)
		}
		e.close(l)
	}
	// All at once: each may have to wait for its lease to end.
	other := e.open(long)
	ctx, cancel := context.WithTimeout(e.Context(), e.bound)
	defer cancel()
	var next []<-chan grant
	for _, key := range keys {
		next = append(next, e.start(ctx, other, key))
	}
	var held []string
	for i, c := range next {
		if g := e.end(c, "Acquire, whose context has ended,"); g.err != nil {
			held = append(held, steps[i])
		}
	}
	if len(held) > 0 {
		e.Broken("a holder of a lease of %v died at %s, and %v later its key is still held", e.ttl, strings.Join(held, ", "), e.bound)
	}
}

// hook returns an error from each step of an Acquire and of a Release.
func hook(e *env) {
	acquire, release := e.path()
	for _, step := range acquire {
		c := e.config(e.ttl)
		c.Hook = dieAt(step)
		g := e.end(e.start(e.Context(), e.openAs(e.d, c), e.key("acquire-"+step)), "Acquire, whose Hook returned an error,")
		if !errors.Is(g.err, errDied) || g.lease != nil {
			e.Broken("the Hook returned an error at %q: lease %v, error %v", step, g.lease, g.err)
		}
	}
	for _, step := range release {
		if slices.Contains(acquire, step) {
			continue // one name for both: Acquire would not come through
		}
		c := e.config(long)
		c.Hook = dieAt(step)
		lease := e.take(e.openAs(e.d, c), e.key("release-"+step))
		if err := e.release(lease); !errors.Is(err, errDied) {
			e.Broken("the Hook returned an error at %q, and Release returned %v", step, err)
		}
	}
}
