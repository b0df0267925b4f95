package failover

import (
	"sync"
	"time"
)

// Health says when an engine counts as down: when it has failed Row times in a row,
// or Failures times among its last Of answers, and for at least For since the first
// of them. A failure is an error or a time-out of the service; that a key is held is
// an answer. The zero value of each field means its default.
//
// That is one half of the hysteresis: a short outage switches nothing. The other
// half is that nothing but Switch leads back.
type Health struct {
	Row      int           // 0 is 3
	Failures int           // 0 is 10
	Of       int           // 0 is 20, at least Failures
	For      time.Duration // 0 is 500 ms
	// Window is how long an outcome counts; 0 is 10 s.
	Window time.Duration
	// Manual leaves all switching to Switch.
	Manual bool
}

func (h Health) filled() Health {
	or := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	or(&h.Row, 3)
	or(&h.Failures, 10)
	or(&h.Of, max(20, h.Failures))
	if h.For <= 0 {
		h.For = 500 * time.Millisecond
	}
	if h.Window <= 0 {
		h.Window = 10 * time.Second
	}
	return h
}

// A monitor keeps the last outcomes of one engine in one epoch: each switch begins
// with an empty one.
type monitor struct {
	mu   sync.Mutex
	h    Health    // filled
	list []outcome // the last h.Of or h.Row, by their ends
}

type outcome struct {
	began, ended time.Time
	ok           bool
}

// note adds how a command that began then has ended now, and reports whether the
// engine is down.
func (m *monitor) note(began, now time.Time, ok bool) (down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, outcome{began, now, ok})
	first := max(0, len(m.list)-max(m.h.Of, m.h.Row))
	for now.Sub(m.list[first].ended) > m.h.Window { // the newest is not that old
		first++
	}
	m.list = append(m.list[:0], m.list[first:]...)

	row, failures := 0, 0
	since := now     // when the first failure among the last m.h.Of began
	rowSince := now  // when the first of the row began
	unbroken := true // so far, from the newest back
	for i := len(m.list) - 1; i >= 0; i-- {
		o := m.list[i]
		unbroken = unbroken && !o.ok
		if o.ok {
			continue
		}
		if unbroken {
			row++
			rowSince = earlier(rowSince, o.began)
		}
		if len(m.list)-i <= m.h.Of {
			failures++
			since = earlier(since, o.began)
		}
	}
	return row >= m.h.Row && now.Sub(rowSince) >= m.h.For ||
		!ok && failures >= m.h.Failures && now.Sub(since) >= m.h.For
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
