package harness

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// each runs f with the timers that this machine has.
func each[T testing.TB](t T, run func(string, func(T)), f func(t T, timers timersOf)) {
	run("here", func(t T) { f(t, newTimers) })
	run("runtime", func(t T) { f(t, runtimeTimers) })
}

func subtests(t *testing.T) func(string, func(*testing.T)) {
	return func(name string, f func(*testing.T)) { t.Run(name, f) }
}

func sleeperOf(t testing.TB, timers timersOf) *sleeper {
	t.Helper()
	list, _, err := newSleepers(1, newClock(), timers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := list[0].close(); err != nil {
			t.Error(err)
		}
	})
	return list[0]
}

// No wait ends before its instant, and one that has passed is none.
func TestSleeperIsNeverEarly(t *testing.T) {
	each(t, subtests(t), func(t *testing.T, timers timersOf) {
		s := sleeperOf(t, timers)
		for _, d := range []time.Duration{-time.Hour, 0, 1, time.Microsecond, 300 * time.Microsecond, 3 * time.Millisecond} {
			at := s.clock.now() + int64(d)
			s.until(at)
			if now := s.clock.now(); now < at {
				t.Errorf("until %v: %d ns early", d, at-now)
			}
			at = s.clock.now() + int64(d)
			if ok := s.reached(at); !ok || s.clock.now() < at {
				t.Errorf("reached %v: %t, %d ns early", d, ok, at-s.clock.now())
			}
		}
	})
}

// waiting returns once s waits in reached.
func waiting(s *sleeper) {
	for {
		s.mu.Lock()
		waits := s.waits
		s.mu.Unlock()
		if waits {
			return
		}
		runtime.Gosched()
	}
}

// An interrupt ends the wait that goes on and those to come, but no hold.
func TestInterrupt(t *testing.T) {
	each(t, subtests(t), func(t *testing.T, timers timersOf) {
		s := sleeperOf(t, timers)
		ended := make(chan bool)
		go func() { ended <- s.reached(s.clock.now() + int64(time.Hour)) }()
		waiting(s)
		s.interrupt()
		if <-ended {
			t.Error("an interrupted wait says that its instant has come")
		}
		if s.reached(s.clock.now() + int64(time.Hour)) {
			t.Error("a wait after the interrupt says that its instant has come")
		}
		if !s.reached(s.clock.now()) {
			t.Error("an instant that has passed is not reached")
		}
		at := s.clock.now() + int64(time.Millisecond)
		s.until(at) // the ring of the interrupt is not this one's
		if s.clock.now() < at {
			t.Error("the interrupt has ended a hold")
		}
	})
}

// Waiting is on the path of every operation.
func TestSleeperAllocatesNothing(t *testing.T) {
	each(t, subtests(t), func(t *testing.T, timers timersOf) {
		s := sleeperOf(t, timers)
		if n := testing.AllocsPerRun(20, func() {
			s.until(s.clock.now() + 1000)
			s.reached(s.clock.now() + 1000)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// spy is a timer of the runtime that tells when it was armed for.
type spy struct {
	timer
	mu    sync.Mutex
	armed []time.Duration
}

func (s *spy) arm(at int64) error {
	s.mu.Lock()
	s.armed = append(s.armed, time.Duration(at))
	s.mu.Unlock()
	return s.timer.arm(at)
}

// The process wakes every 250 µs while somebody holds: by the slices of one holder,
// by one tick for several.
func TestWaking(t *testing.T) {
	us := func(list ...int) (all []time.Duration) {
		for _, n := range list {
			all = append(all, time.Duration(n)*time.Microsecond)
		}
		return all
	}
	for _, c := range []struct {
		name  string
		begin []time.Duration   // of holds that last to 1 ms
		armed [][]time.Duration // of each holder, and of the tick at last; nil is left to chance
	}{
		{"one", us(0), [][]time.Duration{us(250, 500, 750, 1000), {}}},
		{"two", us(0, 100), [][]time.Duration{us(250, 1000), us(1000), us(350, 600, 850, 1100)}},
		{"three", us(10, 10, 400), [][]time.Duration{nil, nil, us(1000), us(260, 510, 760, 1010)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := newClock()
				var spies []*spy
				var all []*sleeper
				for range len(c.begin) + 1 {
					spies = append(spies, &spy{timer: newRuntimeTimer(clock)})
					all = append(all, &sleeper{clock: clock, timer: spies[len(spies)-1]})
				}
				w := newWaking(clock, all[len(c.begin)])
				var holders sync.WaitGroup
				for i, at := range c.begin {
					holders.Go(func() {
						time.Sleep(at)
						w.hold(all[i], int64(time.Millisecond))
						if now := clock.now(); now != int64(time.Millisecond) {
							t.Errorf("holder %d left at %v", i, time.Duration(now))
						}
					})
				}
				holders.Wait()
				time.Sleep(time.Second) // a tick that went on would show
				w.close()
				for i, want := range c.armed {
					if got := spies[i].armed; want != nil && !slices.Equal(got, want) {
						t.Errorf("timer %d was armed for %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

// A run is refused in one line, which says what to do, where files are short.
func TestEnoughFiles(t *testing.T) {
	if err := enoughFiles(2, 1); err != nil {
		t.Errorf("two timers and a connection: %v", err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	err := enoughFiles(1<<31, 7)
	if err == nil {
		t.Fatal("2³¹ timers are found possible")
	}
	t.Log(err)
}

// BenchmarkTimers measures how late timers ring, and at what rate sleepers get
// through waits of the same length.
func BenchmarkTimers(b *testing.B) {
	for _, c := range []struct {
		wait     time.Duration
		sleepers int
	}{{time.Millisecond, 1}, {time.Millisecond, 64}, {100 * time.Microsecond, 8}} {
		b.Run(fmt.Sprintf("wait=%v/sleepers=%d", c.wait, c.sleepers), func(b *testing.B) {
			each(b, func(name string, f func(*testing.B)) { b.Run("timer="+name, f) },
				func(b *testing.B, timers timersOf) {
					clock := newClock()
					list, _, err := newSleepers(c.sleepers, clock, timers)
					if err != nil {
						b.Fatal(err)
					}
					rounds := max(1, b.N/c.sleepers)
					late := make([][]int64, c.sleepers)
					for i := range late {
						late[i] = make([]int64, rounds)
					}
					var all sync.WaitGroup
					b.ResetTimer()
					start := time.Now()
					for i, s := range list {
						all.Go(func() {
							for k := range rounds {
								at := clock.now() + int64(c.wait)
								s.until(at)
								late[i][k] = clock.now() - at
							}
						})
					}
					all.Wait()
					took := time.Since(start)
					b.StopTimer()
					for _, s := range list {
						if err := s.close(); err != nil {
							b.Error(err)
						}
					}
					sorted := slices.Sorted(slices.Values(slices.Concat(late...)))
					b.ReportMetric(0, "ns/op") // of a wait, it would mean nothing
					b.ReportMetric(float64(sorted[len(sorted)/2]), "late-p50-ns")
					b.ReportMetric(float64(sorted[len(sorted)*99/100]), "late-p99-ns")
					b.ReportMetric(float64(len(sorted))/took.Seconds(), "waits/s")
				})
		})
	}
}
