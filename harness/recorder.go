package harness

import (
	"sync"
	"sync/atomic"

	"github.com/lockbench/lockbench/results"
)

// maxShards is how many recorders a run has at most. Up to so many owners each
// record alone; beyond, owners share, because a histogram of three digits takes
// a quarter of a megabyte. The mutex costs some 12 ns where nobody shares.
const maxShards = 64

// window is the part of a run that is measured, as readings of the clock. Start
// is 0 until warm-up has ended, end is 0 until it is known.
type window struct{ start, end atomic.Int64 }

// holds reports whether instant at lies in the window.
func (w *window) holds(at int64) bool {
	start, end := w.start.Load(), w.end.Load()
	return start != 0 && at >= start && (end == 0 || at < end)
}

// A recorder takes down what some owners do. Nothing on its path allocates.
type recorder struct {
	mu   sync.Mutex
	done int64 // operations that ended, with or without a grant, since the load began
	won  int64 // those with a grant, for warm-up and cost

	// A value beyond the range is counted by the histogram itself, so the errors of
	// Record are not looked at.
	acquireShared              *results.Histogram // nil without readers
	acquire, release, hold     *results.Histogram
	response, queue, lag, wait *results.Histogram // nil in a closed loop

	cycles, cycleSum int64   // closed loop: completed rounds in the window, and the sum of their lengths
	windows          []int64 // grants in each interval of the series
	owners           []int64 // grants in the window, of each owner of this shard

	longestWrite             int64 // see results.WriterWait
	longestWait, longestOpen int64 // see Part

	lost, timeouts, refused, errors, waiting int64
	firstErr                                 error

	_ [64]byte // keeps the next recorder off this one's cache line
}

// recording is all recorders of one worker and what they share.
type recording struct {
	window   *window // of the whole run
	interval int64   // of the series, ns; 0 for a run bounded by Ops
	shards   []recorder

	slots []slot // of the board, for who watches the run; nil where nobody can
	heat  int64  // see heatOf
	open  bool   // the loop
	whole bool   // see logs

	mu     sync.Mutex
	failed *results.Histogram // of acquires that ended without a grant
}

// newRecording makes the recorders of as many owners, under l.
func newRecording(l results.Load, owners int, w *window) *recording {
	n := min(owners, maxShards)
	longest := longestOf(l)
	interval, intervals := seriesOf(l)
	rec := &recording{
		window: w, interval: int64(interval), shards: make([]recorder, n), failed: results.NewHistogram(longest),
		heat: int64(heatOf(l)), open: l.Open(), whole: l.Open() || l.Shared > 0,
	}
	for i := range rec.shards {
		r := &rec.shards[i]
		r.acquire = results.NewHistogram(longest)
		if l.Shared > 0 {
			r.acquireShared = results.NewHistogram(longest)
		}
		r.release = results.NewHistogram(longest)
		r.hold = results.NewHistogram(longest)
		if l.Open() {
			r.response = results.NewHistogram(longest)
			r.queue = results.NewHistogram(longest)
			r.lag = results.NewHistogram(longest)
			r.wait = results.NewHistogram(longest)
		}
		r.windows = make([]int64, intervals)
		r.owners = make([]int64, (owners-i+n-1)/n)
	}
	return rec
}

// logs reports whether the log takes a grant at the instant: one in the window. Two loads
// need those around it, too: readers who came before are still inside, and arrivals that
// were served before or after are no backlog.
func (rec *recording) logs(granted int64) bool { return rec.whole || rec.window.holds(granted) }

// shard is the recorder of this worker's owner.
func (rec *recording) shard(own int) *recorder { return &rec.shards[own%len(rec.shards)] }

// op is one finished acquire, hold and release.
type op struct {
	own, owner, key                   int // owner is counted among all owners of the run, own among this worker's
	due, called, granted, freed, done int64
	free                              int64 // open loop: since when its owner could have taken it
	cycle                             int64 // closed loop: since the owner's previous round ended
	handoff                           int64 // since the Release for which it waited; 0 if it did not
	shared, lost                      bool
	early                             bool  // it ended before the window was seen to begin
	err                               error // of Release, other than lost
	entry                             *entry
}

// queue is how long an arrival found all owners busy: from due until one was free
// to take it, 0 if one waited for it.
func (o *op) queue() int64 { return max(0, o.free-o.due) }

// lag is the rest of the time between due and called: the harness was late.
func (o *op) lag() int64 { return o.called - max(o.due, o.free) }

// granted records o. An operation belongs to the measured window by the instant
// that begins what is measured: latencies by their call (open loop: by their due
// time), throughput by the grant; none that is early does.
func (rec *recording) granted(o op) {
	r := rec.shard(o.own)
	began := o.called
	if r.response != nil {
		began = o.due
	}
	in := func(at int64) bool { return !o.early && rec.window.holds(at) }
	inGrants, inLatency := in(o.granted), in(began)
	rec.live(&o, inGrants)

	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.won++
	r.waited(rec.window, o.called, o.granted)
	if inLatency {
		if o.shared {
			_ = r.acquireShared.Record(o.granted - o.called)
		} else {
			_ = r.acquire.Record(o.granted - o.called)
		}
		_ = r.release.Record(o.done - o.freed)
		_ = r.hold.Record(o.freed - o.granted)
		if r.response != nil {
			_ = r.response.Record(o.granted - o.due)
			_ = r.queue.Record(o.queue())
			_ = r.lag.Record(o.lag())
			_ = r.wait.Record(o.queue() + o.granted - o.called)
		}
	}
	if inGrants {
		rec.counted(r, o)
		if o.lost {
			r.lost++
		}
	}
	if in(o.done) {
		r.cycles++
		r.cycleSum += o.cycle
	}
	if o.err != nil {
		r.fail(o.err)
	}
}

// inherited records o, of an owner that has died since, without what its log does not
// tell: since when its round was under way, and in an open loop since when it was free.
// Released is false if o was inside when it died.
func (rec *recording) inherited(o op, released bool) {
	r := rec.shard(o.own)
	r.won++
	r.done++
	if rec.window.holds(o.called) && !o.shared && r.response == nil {
		_ = r.acquire.Record(o.granted - o.called)
		if released {
			_ = r.hold.Record(o.freed - o.granted)
			_ = r.release.Record(o.done - o.freed)
		}
	}
	if rec.window.holds(o.granted) {
		rec.counted(r, o)
	}
}

// counted counts o, granted in the window, for its owner and in the series.
func (rec *recording) counted(r *recorder, o op) {
	r.owners[o.own/len(rec.shards)]++
	if rec.interval > 0 {
		if i := int((o.granted - rec.window.start.Load()) / rec.interval); i < len(r.windows) {
			r.windows[i]++
		}
	}
}

// waited takes down that somebody waited for the lock from called to to.
func (r *recorder) waited(w *window, called, to int64) {
	start, end := w.start.Load(), w.end.Load()
	open := end != 0 && to > end
	if open {
		to = end
	}
	if start == 0 || to <= start || called >= to {
		return
	}
	r.longestWait = max(r.longestWait, to-called)
	if open {
		r.longestOpen = max(r.longestOpen, to-called)
	}
}

// writerWaited takes down that o, a writer's, waited from called to granted or,
// if it was not granted, to when it gave up.
func (rec *recording) writerWaited(o op) {
	to := o.granted
	start, end := rec.window.start.Load(), rec.window.end.Load()
	if end != 0 {
		to = min(to, end)
	}
	if start == 0 || to <= start || o.called >= to {
		return
	}
	r := rec.shard(o.own)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longestWrite = max(r.longestWrite, to-o.called)
}

// ended says how an acquire without a grant came to its end.
type ended int

const (
	timedOut  ended = iota // its own bound passed
	abandoned              // the run was over
	refused                // a try found the key held
	broken                 // anything else
)

// empty records an acquire of owner, who is own among this worker's, that was called, and
// before in an open loop due at began, and gave up at now.
func (rec *recording) empty(own, owner int, began, called, now int64, how ended, err error) {
	rec.liveEmpty(owner, how)
	r := rec.shard(own)
	in := rec.window.holds(began)
	if in && how != refused {
		rec.mu.Lock()
		_ = rec.failed.Record(now - began)
		rec.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if how != refused {
		r.waited(rec.window, called, now)
	}
	switch {
	case how == abandoned:
		r.waiting++
	case how == timedOut && in:
		r.timeouts++
	case how == refused && in:
		r.refused++
	case how == broken:
		r.fail(err)
	}
}

// fail counts errors even outside the window: a lock that fails while it warms
// up has failed.
func (r *recorder) fail(err error) {
	r.errors++
	if r.firstErr == nil {
		r.firstErr = err
	}
}

// total is the number of operations that have ended since the load began, and
// of those that had a grant.
func (rec *recording) total() (done, won int64) {
	for i := range rec.shards {
		r := &rec.shards[i]
		r.mu.Lock()
		done += r.done
		won += r.won
		r.mu.Unlock()
	}
	return done, won
}

// part is what was recorded, of an operation that began in the window or was granted in
// it. Nobody may be recording.
func (rec *recording) part() Part {
	p := Part{Hist: map[string]*results.Histogram{results.Failed: rec.failed}}
	add := func(name string, h *results.Histogram) {
		if h == nil {
			return
		}
		if p.Hist[name] == nil {
			p.Hist[name] = &results.Histogram{}
		}
		p.Hist[name].Merge(h)
	}
	alone := true
	for i := range rec.shards {
		r := &rec.shards[i]
		add(results.Acquire, r.acquire)
		add(results.AcquireShared, r.acquireShared)
		add(results.Release, r.release)
		add(results.Hold, r.hold)
		add(results.Response, r.response)
		add(results.Queue, r.queue)
		add(results.Lag, r.lag)
		add(results.Wait, r.wait)
		p.Cycles, p.CycleSum = p.Cycles+r.cycles, p.CycleSum+r.cycleSum
		p.Lost, p.Timeouts, p.Refused = p.Lost+r.lost, p.Timeouts+r.timeouts, p.Refused+r.refused
		p.Errors, p.Waiting = p.Errors+r.errors, p.Waiting+r.waiting
		p.LongestWrite = max(p.LongestWrite, r.longestWrite)
		p.LongestWait, p.LongestOpen = max(p.LongestWait, r.longestWait), max(p.LongestOpen, r.longestOpen)
		if p.FirstError == "" && r.firstErr != nil {
			p.FirstError = r.firstErr.Error()
		}
		if p.Windows == nil {
			p.Windows = make([]int64, len(r.windows))
		}
		for k, n := range r.windows {
			p.Windows[k] += n
		}
		alone = alone && len(r.owners) == 1
	}
	for own := range rec.owners() {
		p.Owners = append(p.Owners, rec.shards[own%len(rec.shards)].owners[own/len(rec.shards)])
		if alone {
			p.Acquire = append(p.Acquire, rec.shards[own].acquire)
		}
	}
	return p
}

// owners is how many there are.
func (rec *recording) owners() (n int) {
	for i := range rec.shards {
		n += len(rec.shards[i].owners)
	}
	return n
}
