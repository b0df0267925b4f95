package harness

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/impls/local"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// inBubble is a run of v on fake time, where nothing is late and nothing takes
// time but what waits.
func inBubble(t *testing.T, v lock.Variant, l results.Load) *conductor {
	t.Helper()
	trial := Trial{Variant: v, Load: l.Filled(), Config: lock.Config{}.Filled(), Seed: 3}
	c := newConductor(trial, lock.Deployment{}, "test", 1)
	c.board = testBoard(t, trial.Load)
	c.members = []member{&inside{variant: v, board: c.board, clock: c.clock, config: trial.Config, timers: runtimeTimers}}
	if _, err := c.prepare(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.members[0].leave(false) })
	return c
}

func testBoard(t *testing.T, l results.Load) *board {
	t.Helper()
	b, err := ownBoard(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// filled is the record of c, which has run in a bubble. What the machine did meanwhile is
// left out: it is counted in true time, of which a window of the bubble's time has no share.
func filled(t *testing.T, c *conductor, parts []Part) results.Run {
	t.Helper()
	run := results.Run{Metrics: results.Metrics{}}
	o := c.outcome(parts)
	o.others, o.stolen = math.NaN(), math.NaN()
	o.before.Runnable, o.after.Runnable = nil, nil
	if err := o.fill(&run); err != nil {
		t.Fatal(err)
	}
	run.Valid = judge(run, o)
	return run
}

// lindley is the sum of what the arrivals of the window wait for one server that
// takes them in their order (D. V. Lindley, 1952), and the number of those that do
// not wait.
func lindley(s *conductor) (sum int64, served int64) {
	free := int64(0)
	from := int64(s.t.Load.Warmup)
	for _, a := range planArrivals(s.t.Load, s.t.Seed) {
		begin := max(a.due, free)
		free = begin + a.hold
		if a.due >= from {
			sum += begin - a.due
			served++
		}
	}
	return sum, served
}

// backlogs is how many arrivals have come and are not served at the end of each of n equal
// parts of the window, of the same server.
func backlogs(s *conductor, n int) []int64 {
	list := make([]int64, n)
	free := int64(0)
	for _, a := range planArrivals(s.t.Load, s.t.Seed) {
		begin := max(a.due, free)
		free = begin + a.hold
		for i := range list {
			if at := int64(s.t.Load.Warmup) + int64(i+1)*int64(s.t.Load.For)/int64(n); a.due < at && begin >= at {
				list[i]++
			}
		}
	}
	return list
}

// One owner that finds its key free, and many owners of one key, are the same
// queue: what the one has in front of itself the others have in the lock.
func TestOpenLoopIsAQueue(t *testing.T) {
	for name, c := range map[string]struct {
		variant lock.Variant
		owners  int
		queued  bool
	}{
		"before the owner": {nobody(), 1, true},
		"in the lock":      {local.Variants()[0], 50, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inBubble(t, c.variant, results.Load{
					Owners: c.owners, Rate: 500, Hold: results.Dist{Mean: time.Millisecond}, Warmup: 100 * time.Millisecond, For: time.Second,
				})
				parts, err := s.run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				run := filled(t, s, parts)
				want, n := lindley(s)
				e := run.Exact
				if n == 0 || want == 0 {
					t.Fatal("the plan has nobody wait")
				}
				if e["wait"].Count != n || e["wait"].Sum != want || run.Metrics[results.Unserved] != 0 {
					t.Errorf("wait %+v, want %d with a sum of %d; %v unserved", e["wait"], n, want, run.Metrics[results.Unserved])
				}
				if got, want := run.Series.Backlog, backlogs(s, len(run.Series.Grants)); !slices.Equal(got, want) {
					t.Errorf("backlog %v, want %v", got, want)
				}
				part, none := e["acquire"], e["queue"]
				if c.queued {
					part, none = none, part
				}
				if part.Sum != want || none.Sum != 0 || e["lag"].Sum != 0 || e["response"].Sum != want {
					t.Errorf("queue %+v, acquire %+v, lag %+v, response %+v", e["queue"], e["acquire"], e["lag"], e["response"])
				}
				if !run.Valid.OK {
					t.Errorf("not valid: %q", run.Valid.Reasons)
				}
			})
		})
	}
}

// Arrivals that nobody served are counted.
func TestUnservedArrivalsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, nobody(), results.Load{Owners: 1, Rate: 100, Hold: results.Dist{Mean: time.Second}, For: time.Second})
		parts, err := s.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run := filled(t, s, parts)
		served, planned := run.Exact["response"].Count, int64(len(planArrivals(s.t.Load, s.t.Seed)))
		if lost := int64(run.Metrics[results.Unserved]); lost == 0 || served == 0 || served+lost != planned {
			t.Errorf("%d served and %d not, of %d", served, lost, planned)
		}
		if run.Valid.OK {
			t.Error("valid, though most were not served")
		}
	})
}

// What an owner waits for ends with the run, and with Ctrl-C.
func TestWaitsEndWithTheRun(t *testing.T) {
	const warmup = 100 * time.Millisecond // on fake time the clock is at 0 before, which stands for no window
	think := results.Load{Owners: 2, Think: results.Dist{Mean: time.Minute}, Warmup: warmup, For: time.Second}
	byOps := think
	byOps.For, byOps.Ops, byOps.Think = 0, 1, results.Dist{Kind: "exp", Mean: time.Hour}
	seldom := results.Load{Owners: 2, Rate: 0.001, For: time.Hour}
	for name, c := range map[string]struct {
		load   results.Load
		cancel time.Duration // 0 is never
	}{
		"the window":             {think, 0},
		"the operations":         {byOps, 0},
		"Ctrl-C in a think time": {think, 100 * time.Millisecond},
		"Ctrl-C in an open loop": {seldom, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inBubble(t, nobody(), c.load)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ends := s.clock.now() + int64(c.load.Warmup+c.load.For)
				if c.cancel > 0 {
					ends = s.clock.now() + int64(c.cancel)
					time.AfterFunc(c.cancel, cancel)
				}
				_, err := s.run(ctx)
				if want := ctx.Err(); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				now := s.clock.now()
				if c.load.Ops > 0 {
					// The other thinks until it is told.
					ends = s.board.window.end.Load()
				}
				if now != ends {
					t.Errorf("the run ended at %v, want %v", time.Duration(now), time.Duration(ends))
				}
			})
		})
	}
}
