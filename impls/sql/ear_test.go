package sql

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// wire stands for connections to a server: what is sent on say is heard, and what is
// sent on cut ends the connection.
type wire struct {
	refuse atomic.Bool
	dials  atomic.Int64
	say    chan string
	cut    chan struct{}
}

type fakeFeed struct {
	*wire
	heard func(string)
}

func (w *wire) dial(_ context.Context, heard func(string)) (listening, error) {
	w.dials.Add(1)
	if w.refuse.Load() {
		return nil, errors.New("refused")
	}
	return fakeFeed{w, heard}, nil
}

func (f fakeFeed) wait(ctx context.Context) error {
	select {
	case text := <-f.say:
		f.heard(text)
		return nil
	case <-f.cut:
		return errors.New("cut")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f fakeFeed) close() {}

func rung(s *seat) bool {
	select {
	case <-s.bell:
		return true
	default:
		return false
	}
}

// listen is an ear in a bubble of synctest, and its wire.
func listen(t *testing.T, f func(t *testing.T, e *ear, w *wire, count *lock.Counters)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		count := new(lock.Counters)
		w := &wire{say: make(chan string), cut: make(chan struct{})}
		e := newEar(lock.Config{Count: count}.Filled(), w.dial)
		defer e.close()
		f(t, e, w, count)
	})
}

// Each message wakes the waiter of that key that has waited longest, and no other.
func TestEarRings(t *testing.T) {
	listen(t, func(t *testing.T, e *ear, w *wire, count *lock.Counters) {
		first, hears := e.join("k")
		if hears {
			t.Error("it hears before it has a connection")
		}
		synctest.Wait()
		if !rung(first) {
			t.Error("who came before the connection was not woken by it")
		}
		second, hears := e.join("k")
		other, _ := e.join("other")
		if !hears {
			t.Error("it does not hear")
		}
		w.say <- "of a key that nobody waits for"
		w.say <- first.name
		synctest.Wait()
		if rung(second) || rung(other) || !rung(first) {
			t.Error("the message woke another than the first")
		}
		// The first has tried in vain, and waits on before the second.
		w.say <- first.name
		w.say <- first.name
		w.say <- first.name // for nobody: both will try after it
		synctest.Wait()
		if _, _, n := count.Read(); n != 3 {
			t.Errorf("counted %d wake-ups, want 3", n)
		}
		if !rung(first) || !rung(second) || rung(other) {
			t.Error("two messages did not wake two")
		}
	})
}

// A ring that a waiter did not answer, because its wait ended, goes to the next; one
// that came while it took the key does not.
func TestEarPassesOn(t *testing.T) {
	for _, c := range []struct{ gaveUp, heard bool }{{true, false}, {true, true}, {false, false}, {false, true}} {
		listen(t, func(t *testing.T, e *ear, w *wire, _ *lock.Counters) {
			first, _ := e.join("k")
			synctest.Wait()
			rung(first)
			second, _ := e.join("k")
			w.say <- first.name
			synctest.Wait()
			if c.heard { // but it was its time to go
				first.told = rung(first)
			}
			e.leave(first, c.gaveUp)
			if got := rung(second); got != c.gaveUp {
				t.Errorf("%+v: the second was rung: %t", c, got)
			}
			e.leave(second, c.gaveUp)
			if len(e.seats) != 0 {
				t.Errorf("%d keys are kept without waiters", len(e.seats))
			}
		})
	}
}

// Who comes behind others waits for them, as long as they can be told; the first of
// them to give up leaves it to the next to look after the key.
func TestEarFollows(t *testing.T) {
	listen(t, func(t *testing.T, e *ear, w *wire, _ *lock.Counters) {
		if e.follow("k") != nil {
			t.Error("it follows nobody")
		}
		w.refuse.Store(true) // or it may hear before the next line
		first, _ := e.join("k")
		synctest.Wait()
		if e.follow("k") != nil {
			t.Error("it follows one that cannot be told yet")
		}
		w.refuse.Store(false)
		time.Sleep(e.c.Timeout) // longer than it rests before it dials again
		synctest.Wait()
		rung(first)
		second, third, fourth := e.follow("k"), e.follow("k"), e.follow("k")
		if second == nil || third == nil || fourth == nil || e.follow("other") != nil {
			t.Fatal("it does not follow whoever waits for the same key")
		}
		e.leave(third, true)
		if rung(first) || rung(second) || rung(fourth) {
			t.Error("one was woken because another behind the first gave up")
		}
		e.leave(first, true)
		if !rung(second) || rung(fourth) {
			t.Error("the first gave up, and the second is not woken alone")
		}
		e.leave(second, false)
		if rung(fourth) {
			t.Error("one was woken because another has the key")
		}
	})
}

// A lost connection is made again, and everybody is woken by its loss and its return.
func TestEarComesBack(t *testing.T) {
	listen(t, func(t *testing.T, e *ear, w *wire, count *lock.Counters) {
		a, _ := e.join("a")
		b, _ := e.join("b")
		synctest.Wait()
		for range 2 {
			if !rung(a) || !rung(b) {
				t.Error("not all were woken by the connection")
			}
			w.refuse.Store(true)
			w.cut <- struct{}{}
			synctest.Wait()
			if !rung(a) || !rung(b) {
				t.Error("not all were woken by the loss of the connection")
			}
			if e.hears() {
				t.Error("it hears without a connection")
			}
			time.Sleep(time.Minute)
			w.refuse.Store(false)
			time.Sleep(time.Minute)
			if !e.hears() {
				t.Error("it has not come back")
			}
		}
		if n := w.dials.Load(); n < 4 || n > 2*100 {
			t.Errorf("it dialled %d times", n)
		}
		if _, _, n := count.Read(); n != 0 {
			t.Errorf("%d wake-ups were counted without a message", n)
		}
	})
}

// Who does not wait needs no connection, nor does a Locker that is closed.
func TestEarAsleep(t *testing.T) {
	listen(t, func(t *testing.T, e *ear, w *wire, _ *lock.Counters) {
		synctest.Wait()
		e.close()
		e.join("k")
		synctest.Wait()
		if n := w.dials.Load(); n != 0 {
			t.Errorf("it dialled %d times", n)
		}
	})
}

// Whoever cannot be told polls, at the pace of Config.Retry.
func TestWokenPollsWhileDeaf(t *testing.T) {
	listen(t, func(t *testing.T, e *ear, w *wire, _ *lock.Counters) {
		w.refuse.Store(true)
		c := lock.Config{Retry: lock.Retry{Delay: 50 * time.Millisecond, Fixed: true, Max: 50 * time.Millisecond}}.Filled()
		free := time.Now().Add(400 * time.Millisecond)
		tries := 0
		p := &polling{store: &store{c: c, closed: make(chan struct{})}, take: func(context.Context, string, string) (lock.Lease, error) {
			tries++
			if time.Now().Before(free) {
				return nil, nil
			}
			return &row{}, nil
		}}
		if _, err := (&woken{p, e}).Acquire(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if tries != 9 {
			t.Errorf("it tried %d times in 400 ms, want each 50 ms", tries)
		}
	})
}

// A release is missed in no order of it and of what a waiter does, although nobody
// asks again by himself. What is told while nobody listens is lost.
func TestWokenMissesNoRelease(t *testing.T) {
	for _, c := range []struct {
		name string
		// hears says that the ear has heard before the waiter comes.
		hears bool
		// after is the attempt, counted from 1, that has found the key held just before
		// it is freed. 0 frees it while the waiter sleeps.
		after int
		// cut loses the connection before that, and with it the message.
		cut bool
	}{
		{"after the first attempt, before anybody listens", false, 1, false},
		{"after the attempt that the beginning of LISTEN asks for", false, 2, false},
		{"after the first attempt, before the waiter is known", true, 1, false},
		{"after the attempt of a waiter that is known", true, 2, false},
		{"in the sleep", true, 0, false},
		{"in the sleep of the first to wait", false, 0, false},
		{"in the sleep, unheard", true, 0, true},
		{"after an attempt, unheard", true, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			listen(t, func(t *testing.T, e *ear, w *wire, _ *lock.Counters) {
				if c.hears {
					other, _ := e.join("other")
					synctest.Wait()
					defer e.leave(other, true)
				}
				held, tries := true, 0
				release := func() {
					held = false
					if c.cut {
						w.cut <- struct{}{}
						return
					}
					select {
					case w.say <- newSeat("k").name:
					default: // nobody listens
					}
				}
				const never = 24 * time.Hour
				conf := lock.Config{TTL: never, Retry: lock.Retry{Delay: never, Max: never, Fixed: true}}.Filled()
				p := &polling{store: &store{c: conf, closed: make(chan struct{})}, take: func(context.Context, string, string) (lock.Lease, error) {
					tries++
					if !held {
						return &row{}, nil
					}
					if tries == c.after {
						synctest.Wait() // the ear is as far as it gets
						release()
						synctest.Wait()
					}
					return nil, nil
				}}
				began := time.Now()
				done := make(chan error, 1)
				go func() {
					_, err := (&woken{p, e}).Acquire(t.Context(), "k")
					done <- err
				}()
				if c.after == 0 {
					synctest.Wait()
					release()
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				// A connection that was lost is made again after a pause.
				if took := time.Since(began); took >= never || took > 0 && !c.cut {
					t.Errorf("it got in after %v and %d attempts", took, tries)
				}
			})
		})
	}
}

// A wake-up that its waiter has no use for any more goes to the next: it comes while
// an attempt of that waiter fails, and its wait ends before the next attempt.
func TestWokenPassesOn(t *testing.T) {
	for range 20 { // the end of a wait and a wake-up are seen in any order
		listen(t, func(t *testing.T, e *ear, w *wire, _ *lock.Counters) {
			const never = 24 * time.Hour
			conf := lock.Config{TTL: never, Retry: lock.Retry{Delay: never, Max: never, Fixed: true}}.Filled()
			ctx, leave := context.WithCancel(t.Context())
			held, rung := true, false
			p := &polling{store: &store{c: conf, closed: make(chan struct{})}, take: func(_ context.Context, _, owner string) (lock.Lease, error) {
				if !held {
					return &row{}, nil
				}
				if owner == ":1" && rung { // it has lost the key to another, who frees it now
					leave()
					held = false
					w.say <- newSeat("k").name
					synctest.Wait()
				}
				return nil, nil
			}}
			l := &woken{p, e}
			acquire := func(ctx context.Context) <-chan error {
				done := make(chan error, 1)
				go func() {
					_, err := l.Acquire(ctx, "k")
					done <- err
				}()
				synctest.Wait() // it sleeps
				return done
			}
			first, second := acquire(ctx), acquire(t.Context())
			rung = true
			w.say <- newSeat("k").name
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Fatalf("the first: %v", err)
			}
			synctest.Wait()
			select {
			case err := <-second:
				if err != nil {
					t.Fatalf("the second: %v", err)
				}
			default:
				t.Fatal("the second waits on for a key that is free")
			}
		})
	}
}
