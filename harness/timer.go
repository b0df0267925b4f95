package harness

import "time"

// What owners wait on, as Env.Timer tells it.
const (
	TimerFD      = "timerfd" // timerfd_create(2), read through the runtime's poller
	TimerRuntime = "runtime" // a time.Timer, where there is no timerfd
)

// A timer wakes one goroutine at an instant of the run's clock. Who waits for it
// takes neither a thread nor a P of the scheduler: a sleep on a locked thread keeps
// its P until sysmon takes it back, up to 10 ms later, and with as many sleepers as
// there are Ps nothing else runs.
type timer interface {
	// arm sets the timer to ring at the instant, at once if that has passed. It
	// takes the place of what was set before, and of a ring that nobody waited
	// for. It may be called while another goroutine waits.
	arm(at int64) error
	// wait returns when the timer rings.
	wait() error
	close() error
}

// timersOf makes n timers on c and tells their kind.
type timersOf func(n int, c clock) (list []timer, kind string, err error)

// runtimeTimer is a timer of the runtime. On Linux it may ring a millisecond late,
// because the runtime's poller counts in whole ones (golang/go#44343).
type runtimeTimer struct {
	clock clock
	timer *time.Timer
}

func newRuntimeTimer(c clock) timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return runtimeTimer{c, t}
}

func (t runtimeTimer) arm(at int64) error {
	t.timer.Reset(max(0, time.Duration(at-t.clock.now())))
	return nil
}

func (t runtimeTimer) wait() error  { <-t.timer.C; return nil }
func (t runtimeTimer) close() error { t.timer.Stop(); return nil }

// runtimeTimers are n of them.
func runtimeTimers(n int, c clock) (list []timer, kind string, err error) {
	for range n {
		list = append(list, newRuntimeTimer(c))
	}
	return list, TimerRuntime, nil
}
