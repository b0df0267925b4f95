package harness

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// What lies in the slots adds up to what was recorded, in the window and before it.
func TestLook(t *testing.T) {
	l := results.Load{Owners: 3, Rate: 100, For: 6 * time.Second}.Filled()
	b := testBoard(t, l)
	rec := newRecording(l, 3, &b.window)
	rec.slots = b.slots
	const ms, start = int64(time.Millisecond), int64(time.Second)
	record := func(owner int, due int64, lag, wait time.Duration, handoff int64) {
		called := due + int64(lag)
		granted := called + int64(wait)
		rec.granted(op{
			own: owner, owner: owner, due: due, called: called, granted: granted, freed: granted + 2*ms, done: granted + 3*ms, handoff: handoff,
		})
	}
	record(0, 10*ms, 0, 5*time.Millisecond, 0) // in the warm-up
	b.window.start.Store(start)
	record(0, start+50*ms, 10*time.Millisecond, 30*time.Millisecond, ms) // at 90 ms, the first window
	record(1, start+60*ms, 3*time.Millisecond, 30*time.Millisecond, 0)   // likewise
	record(2, start+5900*ms, time.Millisecond, 90*time.Millisecond, 0)   // the last window
	record(2, start+6000*ms, time.Millisecond, 90*time.Millisecond, 0)   // beyond it
	rec.granted(op{own: 1, owner: 1, due: start, called: start, granted: start + ms, freed: start + ms, done: start + ms, lost: true})
	rec.empty(1, 1, start, start, start+ms, timedOut, nil)
	rec.empty(1, 1, start, start, start+ms, broken, context.DeadlineExceeded)
	rec.empty(1, 1, start, start, start+ms, refused, nil)
	b.violations.Store(4)

	c := &conductor{spec: Spec{Run: "r", Algo: "a", Client: "c", Kind: "k"}, board: b, clock: clockFrom(newClock().monotonic - 10*start), members: make([]member, 3), dead: []bool{false, false, true}}
	b.waits[1].at.Store(c.clock.now() - 70*ms)
	b.waits[2].at.Store(c.clock.now() - 1000*ms) // was killed meanwhile
	got := c.look(0)
	if got.Run != "r" || got.Algo != "a" || got.Client != "c" || got.Kind != "k" || !got.Measuring || got.Done {
		t.Errorf("it is run %q of %q, measuring=%t", got.Run, got.Algo, got.Measuring)
	}
	if got.Owners != 2 || got.Waiting != 1 || got.LongestWait < 70*time.Millisecond || got.LongestWait > time.Second {
		t.Errorf("%d of %d owners wait, %v", got.Waiting, got.Owners, got.LongestWait)
	}
	if got.Violations != 4 || got.Lost != 1 || got.Timeouts != 1 || got.Errors != 1 {
		t.Errorf("%d violations, %d lost, %d timeouts, %d errors", got.Violations, got.Lost, got.Timeouts, got.Errors)
	}
	for name, c := range map[string]struct {
		tally *Tally
		n     int64
		sum   int64
	}{
		"acquire":  {&got.Acquire, 6, 246 * ms},
		"response": {&got.Response, 6, (246 + 15) * ms},
		"hold":     {&got.Hold, 6, 10 * ms},
		"release":  {&got.Release, 6, 5 * ms},
		"handoff":  {&got.Handoff, 1, ms},
	} {
		if c.tally.Count() != c.n || c.tally.Sum != c.sum {
			t.Errorf("%s: %d of %v, want %d of %v", name, c.tally.Count(), time.Duration(c.tally.Sum), c.n, time.Duration(c.sum))
		}
	}
	if p := got.Acquire.Quantile(100); p < 90*time.Millisecond || p > 100*time.Millisecond {
		t.Errorf("the longest acquire is %v", p)
	}
	var before Tally
	before.Add(&got.Acquire)
	if more := got.Acquire.Since(&before); more != (Tally{}) {
		t.Errorf("nothing has happened since, and there is more: %v", more.Sum)
	}

	h := b.heat(l)
	total := func(w int) (n int64) {
		for _, k := range h.Counts[w] {
			n += k
		}
		return n
	}
	if h.Of != results.Response || h.Window != 100*time.Millisecond || total(0) != 3 || total(59) != 1 {
		t.Errorf("heat %+v", h)
	}
	for w := 1; w < 59; w++ {
		if total(w) != 0 {
			t.Errorf("%d grants in window %d, where nothing was granted", total(w), w)
		}
	}
	if h.Lag[0] != 10*ms || h.Lag[59] != ms || slices.Max(h.Lag[1:59]) != 0 {
		t.Errorf("lags %v", h.Lag)
	}
	at := h.First + slices.IndexFunc(h.Counts[59], func(n int64) bool { return n > 0 })
	if end := results.BucketEnd(at, results.HeatScale); float64(91*ms) > end || float64(91*ms)*1.42 < end {
		t.Errorf("91 ms are in the bucket to %v", time.Duration(end))
	}
}

// All owners and keys have room of their own on the board.
func TestBoardLayout(t *testing.T) {
	for _, l := range []results.Load{{Owners: 1, Ops: 1}, {Owners: 200, Keys: 3, For: time.Second}, {Keys: 2, Ops: 5}} {
		l = l.Filled()
		b := testBoard(t, l)
		if len(b.slots) != slotsOf(l) || len(b.waits) != l.Owners || len(b.words) != l.Keys || len(b.log) != logSize(l) {
			t.Errorf("%+v: %d slots, %d waits, %d words, %d entries", l, len(b.slots), len(b.waits), len(b.words), len(b.log))
		}
		b.slots[len(b.slots)-1].heat[results.MaxHeatWindows-1][heatBuckets-1].Store(1<<32 - 1)
		if l.Owners > 0 {
			b.waits[l.Owners-1].at.Store(-1)
		}
		b.words[l.Keys-1].freed.Store(-1)
		for i := range b.words {
			if w := &b.words[i]; w.holder.Load() != 0 || w.stock.Load() != 0 {
				t.Errorf("%+v: something lies over word %d", l, i)
			}
		}
		if b.log[0].state.Load() != 0 || b.dead[results.MaxProcs-1].Load() != 0 {
			t.Errorf("%+v: something lies over the log or the header", l)
		}
	}
	// The last bucket of all lies in the last of the heat.
	if got := results.Coarser(results.MaxBucket) - results.Coarser(results.MinBucket); got >= heatBuckets {
		t.Errorf("heat has %d buckets, and %d are needed", heatBuckets, got+1)
	}
	if slotSize%64 != 0 {
		t.Logf("a slot of %d bytes may share a cache line with the next", slotSize)
	}
}

// Who watches a run sees it end with all that was recorded, and its waits with it.
func TestRunIsWatched(t *testing.T) {
	var seen []*Live
	r := Rig{Live: func(l *Live) { seen = append(seen, l) }}
	v := mutexVariant()
	run, err := r.Run(t.Context(), Trial{Variant: v, Load: results.Load{Owners: 4, Ops: 400}})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) == 0 {
		t.Fatal("nobody was told")
	}
	last := seen[len(seen)-1]
	if !last.Done || last.Run != run.ID || last.Algo != v.Algo || last.Owners != 4 || last.Waiting != 0 {
		t.Errorf("at the end it is %v", last.Run)
	}
	// What ended before the window was seen to begin is counted here, too.
	if n := last.Acquire.Count(); n < 400 || n != last.Hold.Count() || n != last.Release.Count() {
		t.Errorf("%d grants, %d holds and %d releases of 400", n, last.Hold.Count(), last.Release.Count())
	}
	if last.Response.Count() != 0 {
		t.Error("a closed loop has a response")
	}
	if n, all := last.Handoff.Count(), last.Acquire.Count(); n > all {
		t.Errorf("%d hand-offs of %d grants", n, all)
	}
	for _, l := range seen[:len(seen)-1] {
		if l.Done {
			t.Error("it was done more than once")
		}
	}
}

// A lock that the owner has waited for is handed off; one that was free is not.
func TestLiveHandoff(t *testing.T) {
	handed := func(owners int) int64 {
		var last *Live
		r := Rig{Live: func(l *Live) { last = l }}
		if _, err := r.Run(t.Context(), Trial{Variant: mutexVariant(), Load: results.Load{
			Owners: owners, Ops: 50, Hold: results.Dist{Mean: 200 * time.Microsecond},
		}}); err != nil {
			t.Fatal(err)
		}
		return last.Handoff.Count()
	}
	if n := handed(1); n != 0 {
		t.Errorf("%d hand-offs to one owner", n)
	}
	if n := handed(8); n == 0 {
		t.Error("no hand-off among eight owners of one key")
	}
}

func mutexVariant() lock.Variant {
	return lock.Variant{Algo: "test-mutex", Open: func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
		return &testMutex{held: make(chan struct{}, 1)}, nil
	}}
}

// testMutex is a mutex in memory: floors keep impls/local out of these tests.
type testMutex struct{ held chan struct{} }

func (m *testMutex) Acquire(ctx context.Context, _ string) (lock.Lease, error) {
	select {
	case m.held <- struct{}{}:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *testMutex) Release(context.Context) error {
	<-m.held
	return nil
}

func (m *testMutex) Lost() <-chan struct{} { return nil }
func (m *testMutex) Close() error          { return nil }
