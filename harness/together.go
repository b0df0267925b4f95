package harness

import "sync"

// together adds up how many readers are inside at once, and for how long there
// is any, within a window. It reads the clock itself, under its mutex, so that
// its instants are in order. The zero value is ready to use.
type together struct {
	mu        sync.Mutex
	inside    int64
	since     int64 // when inside changed last
	sum, busy int64 // ns: ∫inside dt, and while inside > 0
}

func (g *together) enter(c clock, w *window) { g.change(c, w, +1) }

func (g *together) leave(c clock, w *window) { g.change(c, w, -1) }

func (g *together) change(c clock, w *window, by int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at(c.now(), w, by)
}

// at counts the time up to now, as far as it lies in w, and then by more readers.
func (g *together) at(now int64, w *window, by int64) {
	start, end := w.start.Load(), w.end.Load()
	to := now
	if end != 0 {
		to = min(to, end)
	}
	if d := to - max(g.since, start); start != 0 && g.inside > 0 && d > 0 {
		g.sum += g.inside * d
		g.busy += d
	}
	g.inside, g.since = g.inside+by, now
}
