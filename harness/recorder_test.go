package harness

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// The recording path must not allocate: a collection that it causes would show
// up as latency of the lock.
func TestRecordingAllocatesNothing(t *testing.T) {
	for _, rate := range []float64{0, 100} {
		l := results.Load{Owners: 4, Rate: rate, For: time.Minute}.Filled()
		rec := newRecording(l, 4, new(window))
		rec.slots = testBoard(t, l).slots
		rec.window.start.Store(1)
		w := testWitness(t, 1)
		o := op{own: 1, owner: 1, handoff: 1, due: 2, free: 2, called: 3, granted: 4, freed: 5, done: 6, cycle: 4}
		if n := testing.AllocsPerRun(1000, func() {
			w.enter(0, 1, o.granted)
			w.write(0, 7)
			w.leave(0, 1)
			rec.granted(o)
		}); n != 0 {
			t.Errorf("rate %v: %v allocations an operation", rate, n)
		}
		if n := testing.AllocsPerRun(1000, func() { rec.empty(1, 1, 2, 2, 5, timedOut, nil) }); n != 0 {
			t.Errorf("rate %v: %v allocations a time-out", rate, n)
		}
	}
}

func TestWindowDecidesWhatIsRecorded(t *testing.T) {
	l := results.Load{Owners: 1, For: 1000}.Filled()
	rec := newRecording(l, 1, new(window))
	rec.window.start.Store(1000)
	rec.window.end.Store(2000)
	record := func(called, granted int64) {
		rec.granted(op{called: called, granted: granted, freed: granted + 1, done: granted + 2})
	}
	record(500, 900)   // before
	record(900, 1100)  // granted inside, called before
	record(1100, 1150) // inside
	record(1900, 2500) // called inside, granted in the grace
	record(2100, 2200) // after
	// Inside, but the window was published after its end, and who bounds the number of
	// operations has not counted it.
	rec.granted(op{called: 1200, granted: 1210, freed: 1211, done: 1212, early: true})
	r := &rec.shards[0]
	if got := r.acquire.Exact; got.Count != 2 || got.Max != 600 {
		t.Errorf("acquire latencies %+v, want 2 up to 600", got)
	}
	if r.owners[0] != 2 {
		t.Errorf("%d grants in the window, want 2", r.owners[0])
	}
	if r.windows[1] != 2 {
		t.Errorf("series %v, want 2 in the second interval", r.windows)
	}
	if done, won := rec.total(); done != 6 || won != 6 {
		t.Errorf("total %d, %d, want 6", done, won)
	}
}

// Between due and called lie the wait for a free owner and our own lateness.
func TestQueueAndLag(t *testing.T) {
	for _, c := range []struct{ due, free, called, queue, lag int64 }{
		{due: 100, free: 40, called: 100},                     // somebody waited for it
		{due: 100, free: 40, called: 107, lag: 7},             // and woke late
		{due: 100, free: 130, called: 130, queue: 30},         // all were busy
		{due: 100, free: 130, called: 134, queue: 30, lag: 4}, // and who got free was late
		{due: 100, free: 100, called: 101, lag: 1},
	} {
		o := op{due: c.due, free: c.free, called: c.called, granted: c.called + 50, freed: 1000, done: 1000}
		if o.queue() != c.queue || o.lag() != c.lag {
			t.Errorf("%+v: queue %d, lag %d", c, o.queue(), o.lag())
		}
		rec := newRecording(results.Load{Owners: 1, Rate: 1, For: time.Second}.Filled(), 1, new(window))
		rec.window.start.Store(1)
		rec.granted(o)
		r := &rec.shards[0]
		for name, h := range map[string]*results.Histogram{"queue": r.queue, "lag": r.lag, "wait": r.wait, "response": r.response} {
			want := map[string]int64{"queue": c.queue, "lag": c.lag, "wait": c.queue + 50, "response": c.queue + c.lag + 50}[name]
			if h.Exact.Count != 1 || h.Exact.Sum != want {
				t.Errorf("%+v: %s is %+v, want one of %d", c, name, h.Exact, want)
			}
		}
	}
}

func TestEmptyEndings(t *testing.T) {
	l := results.Load{Owners: 1, For: time.Second}.Filled()
	rec := newRecording(l, 1, new(window))
	rec.window.start.Store(1000)
	boom := errors.New("boom")
	rec.empty(0, 0, 1100, 1100, 1200, timedOut, nil)
	rec.empty(0, 0, 1100, 1100, 1200, abandoned, nil)
	rec.empty(0, 0, 500, 500, 600, broken, boom) // an error in the warm-up counts
	r := &rec.shards[0]
	if r.timeouts != 1 || r.waiting != 1 || r.errors != 1 || !errors.Is(r.firstErr, boom) {
		t.Errorf("timeouts %d, waiting %d, errors %d (%v), want 1 each", r.timeouts, r.waiting, r.errors, r.firstErr)
	}
	if rec.failed.Exact.Count != 2 {
		t.Errorf("%d failed waits in the window, want 2", rec.failed.Exact.Count)
	}
}

func TestShardsCoverAllOwners(t *testing.T) {
	for _, owners := range []int{1, 63, 64, 65, 200} {
		l := results.Load{Owners: owners, For: time.Second}.Filled()
		rec := newRecording(l, owners, new(window))
		rec.window.start.Store(1)
		for i := range owners {
			rec.granted(op{own: i, owner: i, called: 2, granted: 3, freed: 4, done: 5})
		}
		n := 0
		for i := range rec.shards {
			n += len(rec.shards[i].owners)
		}
		if n != owners {
			t.Errorf("%d owners have %d places", owners, n)
		}
	}
}

func testWitness(t *testing.T, keys int) *witness {
	t.Helper()
	return &witness{board: testBoard(t, results.Load{Keys: keys, Ops: 1}.Filled()), procs: 1}
}

func TestWitness(t *testing.T) {
	w := testWitness(t, 2)
	if !w.enter(0, 5, 10) || !w.enter(1, 6, 11) {
		t.Fatal("two keys exclude each other")
	}
	if w.enter(0, 7, 20) {
		t.Fatal("a second holder went unseen")
	}
	if v := w.board.seen[0]; v != (overlap{0, 5, 7, 10, 20}) {
		t.Errorf("violation %+v", v)
	}
	w.leave(0, 7) // the intruder's leaving must not end the holder's stay
	if w.enter(0, 8, 30) {
		t.Error("the holder was forgotten")
	}
	w.leave(0, 5)
	if !w.enter(0, 9, 40) {
		t.Error("a key that was left is still claimed")
	}
	if n := w.board.violations.Load(); n != 2 {
		t.Errorf("%d violations, want 2", n)
	}
	for i, c := range []struct {
		token uint64
		want  bool
	}{{3, true}, {3, true}, {4, true}, {3, false}} {
		if got := w.write(1, c.token); got != c.want {
			t.Errorf("write %d under token %d: accepted %v, want %v", i, c.token, got, c.want)
		}
	}
	if w.board.stale.Load() != 1 {
		t.Errorf("%d stale writes, want 1", w.board.stale.Load())
	}
}

func TestWitnessCountsEveryOverlap(t *testing.T) {
	w := testWitness(t, 1)
	w.enter(0, 0, 0)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 1000 {
				w.enter(0, i+1, 1)
			}
		})
	}
	wg.Wait()
	if n := w.board.violations.Load(); n != 8000 {
		t.Errorf("%d of 8000 overlaps counted", n)
	}
	if last := w.board.seen[maxSeen-1]; last.at != 1 {
		t.Errorf("the last that is described: %+v", last)
	}
}

func TestAcquireByOwner(t *testing.T) {
	for _, c := range []struct {
		owners, idle int // idle: the last of them
		told         bool
	}{{1, 0, true}, {4, 0, true}, {64, 0, true}, {4, 1, false}, {65, 0, false}} {
		rec := newRecording(results.Load{Owners: c.owners, For: time.Minute}.Filled(), c.owners, new(window))
		rec.window.start.Store(1)
		for i := range c.owners - c.idle {
			waits := []int64{int64(30 * time.Second)}
			if i == 0 && c.owners > 1 { // has nearly all grants
				waits = make([]int64, 10_000)
			}
			for _, w := range waits {
				rec.granted(op{own: i, owner: i, called: 2, granted: 2 + w, freed: 2 + w, done: 2 + w})
			}
		}
		got, ok := results.QuantileByOwner(rec.part().Acquire, 99)
		if ok != c.told || ok && got != int64(30*time.Second) {
			t.Errorf("%d owners, %d of them without a grant: %v, %v", c.owners, c.idle, time.Duration(got), ok)
		}
	}
}
