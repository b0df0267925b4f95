//go:build !linux

package fault

import (
	"sync"
	"time"
)

// An alarm wakes one goroutine at a set time, within a timer's grain.
type alarm struct {
	timer *time.Timer
	done  chan struct{}
	once  sync.Once
}

func newAlarm() (*alarm, error) {
	a := &alarm{timer: time.NewTimer(0), done: make(chan struct{})}
	return a, nil
}

// set has wait return once, d from now; what was set before is forgotten.
func (a *alarm) set(d time.Duration) { a.timer.Reset(d) }

// wait returns true when the alarm rings, and false once it is closed.
func (a *alarm) wait() bool {
	select {
	case <-a.timer.C:
		return true
	case <-a.done:
		return false
	}
}

func (a *alarm) close() {
	a.once.Do(func() {
		a.timer.Stop()
		close(a.done)
	})
}
