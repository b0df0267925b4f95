package harness

import (
	"testing"

	"github.com/lockbench/lockbench/results"
)

func TestTogetherCountsWithinTheWindow(t *testing.T) {
	b := testBoard(t, results.Load{Owners: 1, Ops: 10}.Filled())
	for _, o := range []op{
		{granted: 10, freed: 40, shared: true},   // since before the window
		{granted: 30, freed: 50, shared: true},   // 2 inside from 30 to 40
		{granted: 60, freed: 70},                 // a writer
		{granted: 100, freed: 200, shared: true}, // to the end
		{granted: 5, freed: 8, shared: true},
		{granted: 300, freed: 310, shared: true},
	} {
		b.grant(&o, 1, 0).complete(&o, 2)
	}
	if sum, busy, length := together(b.entries(), 20, 110); sum != 20+20+10 || busy != 30+10 || length != 90 {
		t.Errorf("sum %d, busy %d of %d; want 50, 40 of 90", sum, busy, length)
	}
}

func TestWriterWaitIsCutAtTheEnd(t *testing.T) {
	rec := &recording{window: new(window), shards: make([]recorder, 1)}
	wait := func(called, granted int64) int64 {
		rec.writerWaited(op{called: called, granted: granted})
		return rec.shards[0].longestWrite
	}
	if n := wait(1, 90); n != 0 {
		t.Errorf("before the window: %d", n)
	}
	rec.window.start.Store(100)
	if n := wait(40, 90); n != 0 {
		t.Errorf("a wait that ended before the window: %d", n)
	}
	if n := wait(40, 110); n != 70 {
		t.Errorf("a wait that began before the window: %d, want 70", n)
	}
	rec.window.end.Store(200)
	if n := wait(50, 900); n != 150 {
		t.Errorf("a wait that outlasted the window: %d, want 150", n)
	}
	if n := wait(210, 900); n != 150 {
		t.Errorf("a wait after the window: %d, want 150", n)
	}
}
