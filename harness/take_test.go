package harness

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// able is a sound lock in memory with every way to take a key, first come, first
// served; lax lets readers in beside writers.
type able struct {
	mu      sync.Mutex
	freed   *sync.Cond
	held    map[string]*able1
	last    int   // the number of the owner that began to wait last
	waiting []int // those that wait, in their order
	lax     bool
}

type able1 struct {
	owner   string
	depth   int
	readers int
}

func newAble() *able {
	a := &able{held: map[string]*able1{}}
	a.freed = sync.NewCond(&a.mu)
	return a
}

func (a *able) Close() error { return nil }

func (a *able) at(key string) *able1 {
	if a.held[key] == nil {
		a.held[key] = &able1{}
	}
	return a.held[key]
}

// enter waits until all that came before have entered and taken is false. The next
// may be able to enter then as well. A.mu is held.
func (a *able) enter(taken func() bool) {
	a.last++
	mine := a.last
	a.waiting = append(a.waiting, mine)
	for a.waiting[0] != mine || taken() {
		a.freed.Wait()
	}
	a.waiting = a.waiting[1:]
	a.freed.Broadcast()
}

type ableLease func()

func (l ableLease) Release(context.Context) error { l(); return nil }
func (ableLease) Lost() <-chan struct{}           { return nil }

func (a *able) write(owner string, try bool, keys []string) (lock.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := func(key string) bool {
		e := a.at(key)
		return e.readers > 0 && !a.lax || e.depth > 0 && (owner == "" || e.owner != owner)
	}
	again := owner != "" && a.at(keys[0]).depth > 0 && a.at(keys[0]).owner == owner
	switch {
	case try && slices.ContainsFunc(keys, taken):
		return nil, lock.ErrHeld
	case !try && !again:
		a.enter(func() bool { return slices.ContainsFunc(keys, taken) })
	}
	for _, key := range keys {
		a.at(key).owner = owner
		a.at(key).depth++
	}
	return ableLease(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, key := range keys {
			a.at(key).depth--
		}
		a.freed.Broadcast()
	}), nil
}

func (a *able) Acquire(_ context.Context, key string) (lock.Lease, error) {
	return a.write("", false, []string{key})
}

func (a *able) TryAcquire(_ context.Context, key string) (lock.Lease, error) {
	return a.write("", true, []string{key})
}

func (a *able) AcquireAs(_ context.Context, key, owner string) (lock.Lease, error) {
	return a.write(owner, false, []string{key})
}

func (a *able) AcquireMulti(_ context.Context, keys []string) (lock.Lease, error) {
	return a.write("", false, keys)
}

func (a *able) AcquireShared(_ context.Context, key string) (lock.Lease, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.enter(func() bool { return a.at(key).depth > 0 && !a.lax })
	a.at(key).readers++
	return ableLease(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.at(key).readers--
		a.freed.Broadcast()
	}), nil
}

func TestModesOfTaking(t *testing.T) {
	all := lock.Try | lock.Shared | lock.Reentrant | lock.Multi
	for _, c := range []struct {
		name  string
		load  results.Load
		lax   bool
		check func(results.Metrics) bool
	}{
		{"shared=0.9", results.Load{Shared: 0.9}, false, func(m results.Metrics) bool {
			return m[results.Readers] > 0 && m["acquire-shared-p50-ns"] > 0 && m[results.Overlap] > 0 && m[results.WriterWait] > 0
		}},
		{"shared=1", results.Load{Shared: 1}, false, func(m results.Metrics) bool {
			_, writes := m[results.WriterWait]
			return m[results.Readers] > 1.5 && m[results.Readers] <= 6 && // none waits, so they overlap
				m[results.Overlap] > 1.0/6 && m[results.Overlap] <= 1 && !writes
		}},
		{"shared=0.5", results.Load{Shared: 0.5}, true, func(m results.Metrics) bool { return m[results.Violations] > 0 }},
		{"depth=3", results.Load{Depth: 3}, false, func(m results.Metrics) bool { return true }},
		{"try=true", results.Load{Try: true}, false, func(m results.Metrics) bool { return m[results.Refused] > 0 }},
		{"together=2", results.Load{Together: 2, Keys: 3}, false, func(m results.Metrics) bool {
			_, ok := m["handoff-p50-ns"]
			return !ok
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAble()
			a.lax = c.lax
			v := lock.Variant{Algo: "able", Caps: all, Open: func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) { return a, nil }}
			c.load.Owners, c.load.Hold.Mean, c.load.For = 6, time.Millisecond, 300*time.Millisecond
			run, err := new(Rig).Run(t.Context(), Trial{Variant: v, Load: c.load})
			if err != nil {
				t.Fatal(err)
			}
			m := run.Metrics
			if m[results.AcqRate] == 0 || m[results.Errors] != 0 || !c.check(m) {
				t.Errorf("metrics %v, valid %+v", m, run.Valid)
			}
			if n := m[results.Violations]; n != 0 && !c.lax {
				locktest.Violation(t, "%v by a sound lock: %+v", n, run.Violations)
			}
			for key, e := range a.held {
				if e.depth != 0 || e.readers != 0 {
					t.Errorf("%s is left with %+v", key, e)
				}
			}
			if c.name != "shared=0.9" && !strings.Contains(run.Trial, c.name) {
				t.Errorf("the trial is called %s, without %s", run.Trial, c.name)
			}
			v.Caps = 0
			if _, err := new(Rig).Run(t.Context(), Trial{Variant: v, Load: c.load}); !errors.Is(err, ErrTrial) {
				t.Errorf("without the capability: %v, want ErrTrial", err)
			}
		})
	}
}

// numbered is a lock that excludes nobody, with fencing tokens.
type numbered struct{ last atomic.Uint64 }

type numberedLease uint64

func (n *numbered) Acquire(context.Context, string) (lock.Lease, error) {
	return numberedLease(n.last.Add(1)), nil
}
func (n *numbered) Close() error                    { return nil }
func (l numberedLease) Token() uint64               { return uint64(l) }
func (numberedLease) Release(context.Context) error { return nil }
func (numberedLease) Lost() <-chan struct{}         { return nil }

// Who writes at the end of a hold beside which the next one began is refused.
func TestStaleTokens(t *testing.T) {
	v := lock.Variant{Algo: "numbered", Caps: lock.Fencing, Open: func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
		return new(numbered), nil
	}}
	l := results.Load{Owners: 4, Hold: results.Dist{Mean: time.Millisecond}, For: 100 * time.Millisecond}
	run, err := new(Rig).Run(t.Context(), Trial{Variant: v, Load: l})
	if err != nil {
		t.Fatal(err)
	}
	if m := run.Metrics; m[results.StaleTokens] == 0 || m[results.Violations] == 0 {
		t.Errorf("%v stale tokens, %v violations, want some of each", m[results.StaleTokens], m[results.Violations])
	}
}

func TestWitnessOfReaders(t *testing.T) {
	w := testWitness(t, 1)
	if !w.enterShared(0, 1, 10) || !w.enterShared(0, 2, 11) {
		t.Fatal("readers exclude each other")
	}
	if w.enter(0, 3, 12) {
		t.Fatal("a writer among readers went unseen")
	}
	if v := w.board.seen[0]; v.holder != 2 || v.intruder != 3 {
		t.Errorf("violation %+v, want holder 2 and intruder 3", v)
	}
	w.leaveShared(0)
	w.leaveShared(0)
	if !w.enter(0, 3, 13) {
		t.Fatal("readers that left are still counted")
	}
	if w.enterShared(0, 4, 14) {
		t.Fatal("a reader beside a writer went unseen")
	}
	w.leave(0, 3)
	if !w.enterShared(0, 4, 15) || w.board.violations.Load() != 2 {
		t.Errorf("%d violations, want 2", w.board.violations.Load())
	}
	if n := testing.AllocsPerRun(100, func() { w.enterShared(0, 5, 1); w.leaveShared(0) }); n != 0 {
		t.Errorf("%v allocations a reader", n)
	}
}
