package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

func TestNext(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		r    lock.Retry
		want []time.Duration // the bounds of the delays 0, 1, 2, …
	}{
		{"doubles", lock.Retry{Delay: 2 * ms, Max: 32 * ms}, []time.Duration{2 * ms, 4 * ms, 8 * ms, 16 * ms, 32 * ms, 32 * ms, 32 * ms}},
		{"odd maximum", lock.Retry{Delay: 2 * ms, Max: 5 * ms}, []time.Duration{2 * ms, 4 * ms, 5 * ms, 5 * ms}},
		{"steady", lock.Retry{Delay: 3 * ms, Max: 3 * ms}, []time.Duration{3 * ms, 3 * ms, 3 * ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for n, bound := range c.want {
				fixed := c.r
				fixed.Fixed = true
				if got := fixed.Next(n); got != bound {
					t.Errorf("fixed delay %d is %v, want %v", n, got, bound)
				}
				// Full jitter: evenly from 0 to the bound. The mean of 4000 is
				// within a twentieth of the half, a chance of 1e-9 otherwise.
				const draws = 4000
				var sum time.Duration
				low, high := bound, time.Duration(0)
				for range draws {
					d := c.r.Next(n)
					if d < 0 || d >= bound {
						t.Fatalf("delay %d is %v, want less than %v", n, d, bound)
					}
					sum, low, high = sum+d, min(low, d), max(high, d)
				}
				if mean := sum / draws; mean < bound*19/40 || mean > bound*21/40 {
					t.Errorf("the mean of delay %d is %v, want about %v", n, mean, bound/2)
				}
				if low > bound/10 || high < bound*9/10 {
					t.Errorf("delay %d ranges from %v to %v, want 0 to %v", n, low, high, bound)
				}
			}
		})
	}
	// No number of attempts overflows.
	for _, n := range []int{1, 22, 29, 30, 31, 62, 63, 64, 1 << 30} {
		if d := (lock.Retry{Delay: 2 * ms, Max: time.Minute, Fixed: true}).Next(n); d <= 0 || d > time.Minute {
			t.Errorf("delay %d is %v", n, d)
		}
	}
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var count lock.Counters
		c := lock.Config{Count: &count, Retry: lock.Retry{Delay: time.Second, Max: 4 * time.Second, Fixed: true}}.Filled()
		begin := time.Now()
		var at []time.Duration
		err := lock.Poll(t.Context(), c, func(context.Context) (bool, error) {
			at = append(at, time.Since(begin))
			return len(at) == 5, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{0, 1, 3, 7, 11} {
			if at[i] != want*time.Second {
				t.Errorf("attempt %d after %v, want %v", i, at[i], want*time.Second)
			}
		}
		if _, n, _ := count.Read(); n != 5 {
			t.Errorf("%d attempts counted, want 5", n)
		}
	})
}

func TestPollLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lock.Config{Retry: lock.Retry{Delay: time.Second, Max: time.Second, Fixed: true, Limit: 3}}.Filled()
		begin, n := time.Now(), 0
		err := lock.Poll(t.Context(), c, func(context.Context) (bool, error) { n++; return false, nil })
		if !errors.Is(err, lock.ErrHeld) || n != 3 {
			t.Errorf("%v after %d attempts, want ErrHeld after 3", err, n)
		}
		if d := time.Since(begin); d != 2*time.Second {
			t.Errorf("gave up after %v, want 2 s: no wait follows the last attempt", d)
		}
	})
}

func TestPollError(t *testing.T) {
	boom := errors.New("boom")
	n := 0
	err := lock.Poll(t.Context(), lock.Config{}.Filled(), func(context.Context) (bool, error) { n++; return false, boom })
	if !errors.Is(err, boom) || n != 1 {
		t.Errorf("%v after %d attempts, want the error of the first", err, n)
	}
}

func TestPollContext(t *testing.T) {
	t.Run("over before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := lock.Poll(ctx, lock.Config{}.Filled(), func(context.Context) (bool, error) {
			t.Error("tried although the caller's time was up")
			return true, nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want the error of ctx", err)
		}
	})
	t.Run("over while it sleeps", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := lock.Config{Retry: lock.Retry{Delay: time.Hour, Fixed: true}}.Filled()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begin := time.Now()
			err := lock.Poll(ctx, c, func(context.Context) (bool, error) { return false, nil })
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrHeld) {
				t.Errorf("%v, want the error of ctx", err)
			}
			if d := time.Since(begin); d != time.Minute {
				t.Errorf("returned after %v, want a minute", d)
			}
		})
	})
	t.Run("over while it tries", func(t *testing.T) {
		type valueKey struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "v"))
		err := lock.Poll(ctx, lock.Config{}.Filled(), func(try context.Context) (bool, error) {
			cancel()
			if try.Err() != nil || try.Done() != nil {
				t.Error("an attempt can be cut by the caller's ctx")
			}
			if try.Value(valueKey{}) != "v" {
				t.Error("an attempt does not see the values of ctx")
			}
			return true, nil
		})
		if err != nil {
			t.Errorf("%v; what was granted has to be reported", err)
		}
	})
}

func TestRetryNextNeverOverflows(t *testing.T) {
	r := lock.Retry{Delay: 20 * time.Second, Max: time.Hour, Fixed: true}
	for n := range 100 {
		if d := r.Next(n); d < r.Delay || d > r.Max {
			t.Fatalf("delay %d is %v, outside %v … %v", n, d, r.Delay, r.Max)
		}
	}
}

func TestEndedAnswersBothQuestions(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := lock.Ended(ctx); err != nil {
		t.Errorf("before the end: %v", err)
	}
	cancel(why)
	if err := lock.Ended(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
		t.Errorf("got %v, want the context's error and its cause", err)
	}
}

func TestWait(t *testing.T) {
	boom := errors.New("boom")
	none := func(context.Context, int) error { return nil }
	for _, c := range []struct {
		name   string
		sleep  func(end, shut func()) func(context.Context, int) error
		tries  int // that find the key held
		late   bool
		want   error
		tried  int
		gaveUp int // leases given back
	}{
		{"granted at once", nil, 0, false, nil, 1, 0},
		{"granted in the end", func(_, _ func()) func(context.Context, int) error { return none }, 2, false, nil, 3, 0},
		{"granted too late", nil, 0, true, context.Canceled, 1, 1},
		{"the sleep fails", func(_, _ func()) func(context.Context, int) error {
			return func(_ context.Context, n int) error {
				if n == 1 {
					return boom
				}
				return nil
			}
		}, 5, false, boom, 2, 0},
		{"ended while it sleeps", func(end, _ func()) func(context.Context, int) error {
			return func(context.Context, int) error { end(); return nil }
		}, 5, false, context.Canceled, 1, 0},
		{"closed while it sleeps", func(_, shut func()) func(context.Context, int) error {
			return func(context.Context, int) error { shut(); return nil }
		}, 5, false, lock.ErrClosed, 1, 0},
		{"one too many", func(_, _ func()) func(context.Context, int) error { return none }, 5, false, lock.ErrHeld, 4, 0},
	} {
		ctx, end := context.WithCancel(t.Context())
		closed := make(chan struct{})
		w := lock.Wait{Config: lock.Config{Retry: lock.Retry{Limit: 4}}.Filled(), Closed: closed}
		if c.sleep != nil {
			w.Sleep = c.sleep(end, func() { close(closed) })
		}
		tried, g := 0, &given{}
		lease, err := w.Acquire(ctx, func(context.Context) (lock.Lease, error) {
			if tried++; tried <= c.tries {
				return nil, nil
			}
			if c.late {
				end()
			}
			return g, nil
		})
		end()
		if !errors.Is(err, c.want) || (lease == nil) != (c.want != nil) {
			t.Errorf("%s: %v, %v, want %v", c.name, lease, err, c.want)
		}
		if tried != c.tried || g.released != c.gaveUp {
			t.Errorf("%s: %d attempts and %d leases given back, want %d and %d", c.name, tried, g.released, c.tried, c.gaveUp)
		}
	}
}

func TestWaitClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(closed) })
		c := lock.Config{Retry: lock.Retry{Delay: time.Hour, Fixed: true}}.Filled()
		begin := time.Now()
		held := func(context.Context) (lock.Lease, error) { return nil, nil }
		if _, err := (lock.Wait{Config: c.Once(), Closed: closed}).Acquire(t.Context(), held); !errors.Is(err, lock.ErrHeld) || time.Since(begin) != 0 {
			t.Errorf("one attempt: %v after %v, want ErrHeld at once", err, time.Since(begin))
		}
		if _, err := (lock.Wait{Config: c, Closed: closed}).Acquire(t.Context(), held); !errors.Is(err, lock.ErrClosed) || time.Since(begin) != time.Minute {
			t.Errorf("closed: %v after %v, want ErrClosed after a minute", err, time.Since(begin))
		}
	})
}
