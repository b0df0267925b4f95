package capacity

import (
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// sharing is a lock that takes no time and that readers have been seen to share.
func sharing(o Order) *Model {
	m := ideal(o)
	m.Domain.Shared = 1
	m.retry = retry{Delay: time.Millisecond, Max: 8 * time.Millisecond}
	return m
}

// Readers alone never wait: as many grants as they ask for, on a single key.
func TestReadersAloneNeverWait(t *testing.T) {
	for _, o := range []Order{FIFO, Polling, Waking} {
		l := results.Load{Owners: 8, Shared: 1, Hold: results.Dist{Mean: time.Millisecond}, For: 5 * time.Second, Warmup: time.Second}
		p := predict(t, sharing(o), l, Options{Plans: 2})
		near(t, string(o)+": rate of 8 readers", p.Rate.Mid, 8000, 0.01)
		if p.SharedP99.High != 0 || p.P99.High != 0 {
			t.Errorf("%s: %+v", o, p)
		}
		near(t, string(o)+": use of the key", p.Hottest, 1, 0.01)
	}
}

// In order one writer and seven readers take turns: the writer, then all readers at once.
func TestReadersAndWritersTakeTurnsInOrder(t *testing.T) {
	const hold = time.Millisecond
	l := results.Load{Owners: 8, Shared: 7. / 8, Hold: results.Dist{Mean: hold}, For: 5 * time.Second, Warmup: time.Second}
	p := predict(t, sharing(FIFO), l, Options{Plans: 2})
	near(t, "rate", p.Rate.Mid, 8/(2*hold.Seconds()), 0.01)
	near(t, "wait of the writer", p.P50.Mid, 1e6, 0.01)
	near(t, "wait of readers", p.SharedP50.Mid, 1e6, 0.01)
}

// Where nobody queues on the server readers get in beside one another, and the writer waits
// for an instant without any.
func TestReadersPassAWriterThatPolls(t *testing.T) {
	l := results.Load{Owners: 64, Rate: 1000, Shared: 0.9, Hold: results.Dist{Mean: 2 * time.Millisecond}, For: 30 * time.Second, Warmup: time.Second}
	in := predict(t, sharing(FIFO), l, Options{Plans: 3})
	polls := predict(t, sharing(Polling), l, Options{Plans: 3})
	if polls.P50.Low < 2*in.P50.High {
		t.Errorf("p50 of writers is %.0f by polling and %.0f in order", polls.P50.Low, in.P50.High)
	}
	if polls.SharedP50.High >= polls.P50.Low {
		t.Errorf("readers wait %.0f, writers %.0f", polls.SharedP50.High, polls.P50.Low)
	}
}

// A writer is alone: with writers only, a lock that can share is a lock.
func TestWritersOfASharedLockExclude(t *testing.T) {
	l := results.Load{Owners: 8, Hold: results.Dist{Mean: time.Millisecond}, For: 5 * time.Second}
	for _, o := range []Order{FIFO, Polling, Waking} {
		if p := predict(t, sharing(o), l, Options{Plans: 2}); p.Rate.High > 1000.5 || p.Hottest > 1+1e-9 {
			t.Errorf("%s: %+v", o, p)
		}
	}
}

// The domain knows the share of readers, and the parts stay those of writers.
func TestCalibrateWithReaders(t *testing.T) {
	shared := measured(t, 200, func(r *results.Run) {
		r.ID, r.Load.Shared = "run-2", 0.4
		delete(r.Hist, results.Free)
		delete(r.Hist, results.Handoff)
	})
	m := calibrate(t, measured(t, 200), shared)
	if m.Domain.Shared != 0.4 || m.parts[1].free.n() == 0 || m.parts[1].handoff.n() == 0 {
		t.Errorf("%+v", m.Domain)
	}
	if m.like(results.Load{Owners: 8, Keys: 1, Rate: 100, Shared: 0.5}) != &m.parts[1] {
		t.Error("the parts of the run without readers were taken")
	}
	if _, err := Calibrate([]*results.Run{shared}); err == nil {
		t.Error("a model of a run in which no acquire of a free key can be told")
	}
}
