package harness

import "testing"

func TestTogetherCountsWithinTheWindow(t *testing.T) {
	var (
		g together
		w window
	)
	g.at(10, &w, +1) // before the window
	w.start.Store(20)
	g.at(30, &w, +1)  // 1 inside from 20
	g.at(40, &w, -1)  // 2 from 30
	g.at(50, &w, -1)  // 1 from 40
	g.at(100, &w, +1) // nobody from 50
	w.end.Store(110)
	g.at(200, &w, -1) // 1 from 100, to the end
	if g.sum != 10+20+10+10 || g.busy != 10+10+10+10 || g.inside != 0 {
		t.Errorf("sum %d, busy %d, %d inside; want 50, 40, 0", g.sum, g.busy, g.inside)
	}
}

func TestWriterWaitIsCutAtTheEnd(t *testing.T) {
	rec := &recording{shards: make([]recorder, 1)}
	wait := func(called, granted int64) int64 {
		rec.writerWaited(op{called: called, granted: granted})
		return rec.longestWrite()
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
