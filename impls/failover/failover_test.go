package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// bubble runs test on a fake clock, which also sees that nothing goes on after Close.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { t.Helper(); synctest.Test(t, test) })
}

// detection is the longest that a client which asks for a lock takes to find out
// that an engine refuses it: Health.For, and the attempt after that.
const detection = 500*time.Millisecond + lastRetry

// A dead engine is left in a stated time. Waiting for the leases adds what they
// rest on, padded.
func TestResumes(t *testing.T) {
	for algo, bound := range map[string]time.Duration{
		"failover-naive": detection,
		"failover-epoch": detection,
		"failover-drain": detection + padded(rest),
	} {
		bubble(t, algo, func(t *testing.T) {
			s := newSite()
			l := s.open(t, algo, 1)
			first, took := mustAcquire(t, l)
			if took != 0 {
				t.Errorf("the first grant took %v", took)
			}
			mustRelease(t, first)
			s.a.set(errCut)
			next, took := mustAcquire(t, l)
			if took > bound {
				t.Errorf("the grant after the first engine had died took %v, want at most %v", took, bound)
			}
			t.Logf("resumed after %v of at most %v", took, bound)
			if algo != "failover-naive" && token(next) <= token(first) {
				t.Errorf("token %d after %d", token(next), token(first))
			}
			if s.b.last[key] != 1 {
				t.Errorf("the second engine has granted %d times", s.b.last[key])
			}
			mustRelease(t, next)
		})
	}
}

// A stalled engine costs its time-outs, three in a row.
func TestTimeouts(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.openWith(t, "failover-epoch", 1, Health{}, lock.Config{TTL: ttl, Timeout: time.Second})
		s.a.hang(time.Second)
		began := time.Now()
		for n := 1; ; n++ {
			lease, err := l.Acquire(t.Context(), key)
			if err == nil {
				mustRelease(t, lease)
				break
			}
			if !errors.Is(err, lock.ErrUncertain) {
				t.Fatalf("an engine that does not answer: %v", err)
			}
			if n > 3 {
				t.Fatalf("no switch after %d time-outs: %v", n, err)
			}
		}
		if took := time.Since(began); took > 3*time.Second+2*lastRetry {
			t.Errorf("it took %v", took)
		}
	})
}

// A short outage is ridden over: nothing is switched.
func TestShortOutage(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-drain", 1)
		s.a.set(errCut)
		time.AfterFunc(400*time.Millisecond, func() { s.a.set(nil) })
		lease, took := mustAcquire(t, l)
		if took < 400*time.Millisecond || took > 400*time.Millisecond+lastRetry {
			t.Errorf("granted after %v", took)
		}
		if v := l.current(); v.epoch != 1 || v.engine != "a" {
			t.Errorf("epoch %d on %s", v.epoch, v.engine)
		}
		mustRelease(t, lease)
	})
}

// Owners that have waited for long are no sign of a long outage.
func TestShortOutageUnderWaiters(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-drain", 1)
		held, _ := mustAcquire(t, l)
		got := make(chan error, 10)
		for range cap(got) {
			go func() {
				lease, err := l.Acquire(t.Context(), key)
				if err == nil {
					err = lease.Release(t.Context())
				}
				got <- err
			}()
		}
		time.Sleep(time.Minute)
		s.a.set(errCut)
		time.Sleep(400 * time.Millisecond)
		s.a.set(nil)
		time.Sleep(time.Second)
		mustRelease(t, held)
		for range cap(got) {
			if err := <-got; err != nil {
				t.Error(err)
			}
		}
		if v := l.current(); v.epoch != 1 {
			t.Errorf("epoch %d on %s", v.epoch, v.engine)
		}
	})
}

// Engines that come and go are left one after the other, and never come back by
// themselves.
func TestFlapping(t *testing.T) {
	for _, algo := range []string{"failover-naive", "failover-drain", "failover-epoch"} {
		bubble(t, algo, func(t *testing.T) {
			s := newSite()
			clients := []tryer{s.open(t, algo, 1), s.open(t, algo, 2)}
			down := false
			seen := []string{"a"}
			for range 600 {
				time.Sleep(2 * time.Second)
				down = !down
				for _, w := range []*world{s.a, s.b} {
					w.set(map[bool]error{true: errCut}[down])
				}
				for _, l := range clients {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					if lease, err := l.Acquire(ctx, key); err == nil {
						_ = lease.Release(ctx) // its engine may be down by now
					}
					cancel()
				}
				if e := clients[0].current().engine; e != seen[len(seen)-1] {
					seen = append(seen, e)
				}
			}
			// The first one fails for a second at a time; the second, too, if it is
			// there when that begins; the third never does.
			if got := strings.Join(seen, " "); got != "a c" && got != "a b c" {
				t.Errorf("in 20 minutes of flapping the active engines were %s", got)
			}
			if e := clients[0].current().epoch; e > 3 {
				t.Errorf("epoch %d", e)
			}
		})
	}
}

// The last engine of the list has nothing behind it, and the error says so.
func TestLastEngine(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-epoch", 1)
		if err := l.Switch(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		s.c.set(errCut)
		lease, err := l.Acquire(t.Context(), key)
		if lease != nil || !errors.Is(err, errCut) || !strings.Contains(err.Error(), "last in the list") {
			t.Errorf("lease %v, error %v", lease, err)
		}
	})
}

// An engine that cannot be reached is passed over.
func TestPassesOver(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-drain", 1)
		s.a.set(errCut)
		s.b.set(errCut)
		lease, _ := mustAcquire(t, l)
		if v := l.current(); v.engine != "c" || v.epoch != 2 {
			t.Errorf("epoch %d on %s", v.epoch, v.engine)
		}
		mustRelease(t, lease)
	})
}

// Manual health switches nothing.
func TestManual(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.openWith(t, "failover-drain", 1, Health{Manual: true}, lock.Config{TTL: ttl})
		s.a.set(errCut)
		began := time.Now()
		if _, err := l.Acquire(t.Context(), key); !errors.Is(err, errCut) {
			t.Errorf("Acquire: %v", err)
		}
		if took := time.Since(began); took < lock.DefaultTimeout || took > lock.DefaultTimeout+lastRetry {
			t.Errorf("it took %v", took)
		}
		if e := l.current().epoch; e != 1 {
			t.Errorf("epoch %d", e)
		}
	})
}

// With drain nobody is granted a key while a holder on the old engine may go on,
// whoever switches and whatever the holder hears of it.
func TestDrain(t *testing.T) {
	for _, name := range []string{"told", "told late", "cut off"} {
		bubble(t, name, func(t *testing.T) {
			s := newSite()
			holder, other := s.open(t, "failover-drain", 1), s.open(t, "failover-drain", 2)
			held, _ := mustAcquire(t, holder)
			time.Sleep(10 * ttl) // it is renewed
			if isLost(held) {
				t.Fatal("lost while nothing happened")
			}
			switch name {
			case "cut off":
				s.authority.cut(1) // and the engine still renews
			case "told late":
				// The switch comes while an answer that knows nothing of it is on its way.
				s.authority.mu.Lock()
				s.authority.slow = map[int]time.Duration{1: 2 * time.Second}
				s.authority.mu.Unlock()
				time.Sleep(interval(lock.Config{TTL: ttl}))
			}
			if err := other.Switch(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
			if _, err := other.TryAcquire(t.Context(), key); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("TryAcquire during the drain: %v", err)
			}
			promised := make(chan time.Time, 1)
			go func() {
				<-held.Lost()
				promised <- held.(lock.Deadliner).Deadline()
			}()
			next, took := mustAcquire(t, other)
			at := time.Now()
			if want := padded(rest); took < want || took > want+interval(lock.Config{TTL: ttl}) {
				t.Errorf("granted after %v, want %v", took, want)
			}
			if end := <-promised; !end.Before(at) {
				t.Errorf("granted %v before the end that the holder was promised", end.Sub(at))
			}
			if !isLost(held) {
				t.Error("the holder was not told")
			}
			if token(next) <= token(held) {
				t.Errorf("token %x after %x", token(next), token(held))
			}
			if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release of a lost lease: %v", err)
			}
			mustRelease(t, next)
		})
	}
}

// A process that does not know of the switch yet is not granted a key on the old
// engine while its holder, who knows, may go on.
func TestLateProcess(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		holder, other, late := s.open(t, "failover-drain", 1), s.open(t, "failover-drain", 2), s.open(t, "failover-drain", 3)
		held, _ := mustAcquire(t, holder)
		time.Sleep(10 * ttl)
		s.authority.cut(3)
		if err := other.Switch(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if _, err := late.TryAcquire(t.Context(), key); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("TryAcquire on the old engine: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
		defer cancel()
		_, err := late.Acquire(ctx, key)
		if end := held.(lock.Deadliner).Deadline(); err == nil && time.Now().Before(end) {
			t.Errorf("granted %v before the end that the holder was promised", time.Until(end))
		}
		if !isLost(held) {
			t.Error("the holder was not told")
		}
	})
}

// The longest lease of any process is waited for, once.
func TestDrainWaitsForTheLongest(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-drain", 1)
		long := s.openWith(t, "failover-drain", 2, Health{}, lock.Config{TTL: time.Minute})
		held, _ := mustAcquire(t, long)
		if err := l.Switch(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if err := long.Close(); err != nil {
			t.Fatal(err)
		}
		end := held.(lock.Deadliner).Deadline()
		next, took := mustAcquire(t, l)
		if took < 75*time.Second || took > 78*time.Second || !end.Before(time.Now()) {
			t.Errorf("granted after %v, %v after the deadline of the longest", took, time.Since(end))
		}
		mustRelease(t, next)
		// It has gone, so the next switch does not wait for it. (That of its own
		// epoch is remembered: who entered it may still be there.)
		for n, want := range []time.Duration{78 * time.Second, 7 * time.Second} {
			if err := l.Switch(t.Context(), []string{"a", "c"}[n]); err != nil {
				t.Fatal(err)
			}
			next, took = mustAcquire(t, l)
			if took > want {
				t.Errorf("switch %d: granted after %v, want at most %v", n, took, want)
			}
			mustRelease(t, next)
		}
	})
}

// Without a fence two hold the key; with tokens the old one is told from the new.
func TestOverlap(t *testing.T) {
	for _, algo := range []string{"failover-naive", "failover-epoch"} {
		bubble(t, algo, func(t *testing.T) {
			s := newSite()
			holder, other := s.open(t, algo, 1), s.open(t, algo, 2)
			for range 5 { // so that the first engine's tokens are the larger ones
				lease, _ := mustAcquire(t, holder)
				mustRelease(t, lease)
			}
			held, _ := mustAcquire(t, holder)
			if err := other.Switch(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
			next, took := mustAcquire(t, other)
			if took != 0 || isLost(held) {
				t.Errorf("granted after %v, and the holder knows: %t", took, isLost(held))
			}
			if grows, fenced := token(next) > token(held), algo == "failover-epoch"; grows != fenced {
				t.Errorf("token %x after %x", token(next), token(held))
			}
			time.Sleep(time.Second)
			if told := isLost(held); told != (algo == "failover-epoch") {
				t.Errorf("after a second the holder knows: %t", told)
			}
			mustRelease(t, next)
		})
	}
}

// A waiter on the old engine gets the key on the new one.
func TestWaitersMove(t *testing.T) {
	for _, algo := range []string{"failover-naive", "failover-drain", "failover-epoch"} {
		bubble(t, algo, func(t *testing.T) {
			s := newSite()
			l := s.open(t, algo, 1)
			held, _ := mustAcquire(t, l)
			got := make(chan error, 3)
			for range cap(got) {
				go func() {
					lease, err := l.Acquire(t.Context(), key)
					if err == nil {
						err = lease.Release(t.Context())
					}
					got <- err
				}()
			}
			time.Sleep(time.Second)
			if err := l.Switch(t.Context(), "c"); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for range cap(got) {
				if err := <-got; err != nil {
					t.Error(err)
				}
			}
			bound := time.Second
			if algo == "failover-drain" {
				bound += padded(rest)
			}
			if took := time.Since(began); took > bound {
				t.Errorf("it took the waiters %v", took)
			}
			if n := s.c.last[key]; n != 3 {
				t.Errorf("the new engine has granted %d times", n)
			}
			if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release: %v", err)
			}
			time.Sleep(time.Minute)
			s.a.mu.Lock()
			defer s.a.mu.Unlock()
			if len(s.a.held) > 0 {
				t.Error("the old engine still holds the key")
			}
		})
	}
}

// A grant of the old engine that comes after the switch is given back.
func TestLateGrant(t *testing.T) {
	for _, algo := range []string{"failover-drain", "failover-epoch"} {
		bubble(t, algo, func(t *testing.T) {
			s := newSite()
			l := s.open(t, algo, 1)
			s.a.mu.Lock()
			s.a.fails = func(int) error { time.Sleep(2 * time.Second); return nil }
			s.a.mu.Unlock()
			time.AfterFunc(time.Second, func() {
				if err := l.Switch(t.Context(), "b"); err != nil {
					t.Error(err)
				}
			})
			lease, _ := mustAcquire(t, l)
			if token(lease) != 2<<sequenceBits|1 {
				t.Errorf("token %x", token(lease))
			}
			mustRelease(t, lease)
			s.a.mu.Lock()
			defer s.a.mu.Unlock()
			if s.a.last[key] != 1 || len(s.a.held) > 0 {
				t.Errorf("the old engine has granted %d times and holds %v", s.a.last[key], s.a.held)
			}
		})
	}
}

// A lease whose holder does nothing is not renewed on the old engine for ever.
func TestAbandoned(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-epoch", 1)
		mustAcquire(t, l)
		for _, e := range []string{"b", "a"} {
			if err := l.Switch(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		lease, took := mustAcquire(t, l)
		if took > ttl+time.Second {
			t.Errorf("back on the first engine, a lease that was lost kept the key for %v", took)
		}
		mustRelease(t, lease)
	})
}

func TestSwitchRefuses(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-drain", 1)
		if err := l.Switch(t.Context(), "d"); err == nil || !strings.Contains(err.Error(), "want one of a, b, c") {
			t.Errorf("Switch to an engine that is not there: %v", err)
		}
		s.b.set(errCut)
		if err := l.Switch(t.Context(), "b"); !errors.Is(err, errCut) {
			t.Errorf("Switch to an engine that is down: %v", err)
		}
		if err := l.Switch(t.Context(), "a"); err != nil || l.current().epoch != 1 {
			t.Errorf("Switch to the active engine: %v", err)
		}
		s.authority.set(errCut)
		if err := l.Switch(t.Context(), "c"); !errors.Is(err, errCut) || l.current().engine != "a" {
			t.Errorf("Switch without the authority: %v", err)
		}
	})
}

func ExampleHealth() {
	fmt.Printf("%+v\n", Health{}.filled())
	// Output: {Row:3 Failures:10 Of:20 For:500ms Window:10s Manual:false}
}
