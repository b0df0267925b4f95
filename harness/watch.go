package harness

import (
	"time"

	"github.com/lockbench/lockbench/results"
)

// Live is a run that goes on, as far as it has come. Counts are since its owners started,
// warm-up included; what they are at the end may differ from the metrics of the run, which
// are of its window alone.
type Live struct {
	Run          string // as results.Run.ID
	Algo, Client string // the variant
	Kind         string // of its server, as lock.Needs.Kind; "" is memory

	At        time.Duration // since the run was set up
	Measuring bool          // warm-up is over
	Done      bool          // the last look at the run, which has ended or failed

	// Owners is how many there are, without those that were killed as planned, and Waiting
	// how many of them are waiting for the lock now, the longest of them for LongestWait.
	// Owners in other languages do not tell, and do not count as waiting.
	Owners, Waiting int
	LongestWait     time.Duration

	Violations             int64 // overlapping holds that the witness has seen
	Lost, Timeouts, Errors int64

	// Acquire has one duration for each grant. Response is empty in a closed loop. Handoff
	// is from the call of Release to the next grant of the key, where the next holder was
	// waiting already.
	Acquire, Response, Hold, Release, Handoff Tally
}

// A Tally is a coarse histogram of durations in ns, see [results.BucketOf]. The zero value
// is empty.
type Tally struct {
	Sum     int64              // of all durations, ns
	Buckets [liveBuckets]int64 // by bucket, from results.MinBucket
}

// Count is how many durations t has.
func (t *Tally) Count() (n int64) {
	for _, k := range t.Buckets {
		n += k
	}
	return n
}

// Quantile is about the p-th percentile (p from 0 to 100), 0 if t is empty; see
// [results.BucketQuantile].
func (t *Tally) Quantile(p float64) time.Duration {
	return time.Duration(results.BucketQuantile(p, func(i int) int64 { return t.Buckets[i-results.MinBucket] }))
}

// Add pools what o has into t.
func (t *Tally) Add(o *Tally) {
	t.Sum += o.Sum
	for i, n := range o.Buckets {
		t.Buckets[i] += n
	}
}

// Since is what t has more than before, an earlier state of it.
func (t *Tally) Since(before *Tally) (more Tally) {
	more.Sum = t.Sum - before.Sum
	for i, n := range t.Buckets {
		more.Buckets[i] = n - before.Buckets[i]
	}
	return more
}

func (t *tally) addTo(into *Tally) {
	into.Sum += t.sum.Load()
	for i := range t.buckets {
		into.Buckets[i] += t.buckets[i].Load()
	}
}

// lookEvery is how often a run is looked at.
const lookEvery = time.Second

// report calls each for what it sees of the run now and then, in one goroutine, and a last
// time when stop is called, which waits for it. Each may be nil.
func (c *conductor) report(each func(*Live)) (stop func()) {
	if each == nil {
		return func() {}
	}
	began := c.clock.now()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				each(c.look(began))
			case <-quit:
				last := c.look(began)
				last.Done = true
				each(last)
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// look is what there is to see now of a run that began then.
func (c *conductor) look(began int64) *Live {
	b, now := c.board, c.clock.now()
	l := &Live{
		Run: c.spec.Run, Algo: c.spec.Algo, Client: c.spec.Client, Kind: c.spec.Kind,
		At: time.Duration(now - began), Violations: b.violations.Load(),
	}
	start := b.window.start.Load()
	l.Measuring = start != 0 && now >= start
	for i := range b.waits {
		if c.isDead(i % len(c.members)) {
			continue
		}
		l.Owners++
		if at := b.waits[i].at.Load(); at != 0 {
			l.Waiting++
			l.LongestWait = max(l.LongestWait, time.Duration(now-at))
		}
	}
	for i := range b.slots {
		s := &b.slots[i]
		l.Lost, l.Timeouts, l.Errors = l.Lost+s.lost.Load(), l.Timeouts+s.timeouts.Load(), l.Errors+s.errors.Load()
		for k, into := range []*Tally{&l.Acquire, &l.Response, &l.Hold, &l.Release, &l.Handoff} {
			s.tallies[k].addTo(into)
		}
	}
	return l
}
