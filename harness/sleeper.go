package harness

import (
	"sync"
	"time"
)

// A sleeper is what one goroutine waits with. Only interrupt may be called by
// others.
type sleeper struct {
	clock clock
	timer timer
	err   error // the first of the timer's

	mu    sync.Mutex
	waits bool // inside reached
	ended bool // interrupted
}

// newSleepers makes n sleepers, and says what they wait on.
func newSleepers(n int, c clock, timers timersOf) (list []*sleeper, kind string, err error) {
	all, kind, err := timers(n, c)
	if err != nil {
		return nil, "", err
	}
	for _, t := range all {
		list = append(list, &sleeper{clock: c, timer: t})
	}
	return list, kind, nil
}

// until returns at the instant or, as little as the timer can, later.
func (s *sleeper) until(at int64) {
	for s.clock.now() < at {
		err := s.timer.arm(at)
		if err == nil {
			err = s.timer.wait()
		}
		s.check(err, at)
	}
}

// reached waits as until does, but no longer than to an interrupt. It reports
// whether the instant has come.
func (s *sleeper) reached(at int64) bool {
	for s.clock.now() < at {
		armed, err := s.begin(at)
		if armed {
			err = s.timer.wait()
			s.mu.Lock()
			s.waits = false
			s.mu.Unlock()
		} else if err == nil {
			return false
		}
		s.check(err, at)
	}
	return true
}

// begin arms the timer for reached, unless there has been an interrupt.
func (s *sleeper) begin(at int64) (armed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false, nil
	}
	err = s.timer.arm(at)
	s.waits = err == nil
	return s.waits, err
}

// interrupt ends the wait of reached, this one and all to come.
func (s *sleeper) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.waits {
		_ = s.timer.arm(s.clock.now()) // it could be armed a moment ago
	}
}

// check keeps err, the timer's. A timer that fails makes the run fail; until then
// the runtime's stands in, so that nothing spins.
func (s *sleeper) check(err error, at int64) {
	if err == nil {
		return
	}
	if s.err == nil {
		s.err = err
	}
	time.Sleep(time.Duration(at - s.clock.now()))
}

// close ends the timer, which nobody may be using, and returns what failed.
func (s *sleeper) close() error {
	if err := s.timer.close(); s.err == nil {
		s.err = err
	}
	return s.err
}
