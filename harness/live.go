package harness

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lockbench/lockbench/results"
)

// What a run has seen so far lies on the board, where the conductor reads it while owners
// go on: nobody has to be asked, so that watching a run costs its owners nothing that an
// unwatched run would not. The counts of each owner are in a slot, which few owners share,
// and those mostly of one process: an addition seldom waits for another CPU.

// maxSlots is how many slots a board has at most. Owner i has the slot i mod their number.
const maxSlots = 64

// slotsOf is how many slots the board of a run under l has.
func slotsOf(l results.Load) int { return max(1, min(l.Owners, maxSlots)) }

// heatOf divides the window of a run under l for its results.Heat; 0 is not at all.
func heatOf(l results.Load) time.Duration {
	if l.Ops > 0 {
		return 0
	}
	return l.For / results.MaxHeatWindows
}

// What is counted live. All but hand-offs are of every grant.
const (
	liveAcquire = iota
	liveResponse
	liveHold
	liveRelease
	liveHandoff
	liveKinds
)

const (
	liveBuckets = results.MaxBucket - results.MinBucket + 1
	heatBuckets = (liveBuckets+3)/4 + 1 // see results.Coarser
)

// slot is what some owners have seen since they began, warm-up included. All of it only
// grows.
type slot struct {
	tallies                [liveKinds]tally
	lost, timeouts, errors atomic.Int64

	// In the window alone.
	lag  [results.MaxHeatWindows]atomic.Int64 // the longest, ns; open loop
	heat [results.MaxHeatWindows][heatBuckets]atomic.Uint32

	_ [64]byte // keeps the next slot off this one's cache line
}

// tally is a histogram of durations in ns.
type tally struct {
	sum     atomic.Int64
	buckets [liveBuckets]atomic.Int64
}

func (t *tally) add(ns int64) {
	t.buckets[results.BucketOf(ns)-results.MinBucket].Add(1)
	t.sum.Add(ns)
}

// since is when an owner began the wait in which it is, a reading of the clock; 0 while it
// does not wait. It has a cache line of its own.
type since struct {
	at atomic.Int64
	_  [56]byte
}

const (
	slotSize  = int(unsafe.Sizeof(slot{}))
	sinceSize = int(unsafe.Sizeof(since{}))
)

// live records o, which was granted. Began is when what its caller waited for began.
func (rec *recording) live(o *op, inWindow bool) {
	if rec.slots == nil {
		return
	}
	s := &rec.slots[o.owner%len(rec.slots)]
	wait := o.granted - o.called
	s.tallies[liveAcquire].add(wait)
	s.tallies[liveHold].add(o.freed - o.granted)
	s.tallies[liveRelease].add(o.done - o.freed)
	if rec.open {
		wait = o.granted - o.due
		s.tallies[liveResponse].add(wait)
	}
	if o.handoff > 0 {
		s.tallies[liveHandoff].add(o.handoff)
	}
	if o.lost {
		s.lost.Add(1)
	}
	if o.err != nil {
		s.errors.Add(1)
	}
	if !inWindow || rec.heat == 0 {
		return
	}
	w := int((o.granted - rec.window.start.Load()) / rec.heat)
	if w >= results.MaxHeatWindows { // what a division leaves over at the end
		return
	}
	s.heat[w][results.Coarser(results.BucketOf(wait))-results.Coarser(results.MinBucket)].Add(1)
	if rec.open {
		for lag := o.lag(); ; {
			most := s.lag[w].Load()
			if lag <= most || s.lag[w].CompareAndSwap(most, lag) {
				break
			}
		}
	}
}

// liveEmpty records an acquire of owner without a grant.
func (rec *recording) liveEmpty(owner int, how ended) {
	if rec.slots == nil {
		return
	}
	s := &rec.slots[owner%len(rec.slots)]
	switch how {
	case timedOut:
		s.timeouts.Add(1)
	case broken:
		s.errors.Add(1)
	}
}

// heat is how long the grants of a run under l took, over time; nil if that is not known.
func (b *board) heat(l results.Load) *results.Heat {
	window := heatOf(l)
	if window == 0 {
		return nil
	}
	counts := make([][]int64, results.MaxHeatWindows)
	lag := make([]int64, results.MaxHeatWindows)
	for w := range counts {
		counts[w] = make([]int64, heatBuckets)
		for i := range b.slots {
			s := &b.slots[i]
			lag[w] = max(lag[w], s.lag[w].Load())
			for k := range counts[w] {
				counts[w][k] += int64(s.heat[w][k].Load())
			}
		}
	}
	of := results.Acquire
	if l.Open() {
		of = results.Response
	}
	h := results.NewHeat(window, of, results.Coarser(results.MinBucket), counts)
	if h != nil && l.Open() {
		h.Lag = lag
	}
	return h
}
