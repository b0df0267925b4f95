package redis_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// lineOf is where the waiters for key stand.
func lineOf(key string) string { return "{" + key + "}:line" }

// isHand tells the script by which a release hands the key to another process.
func isHand(args []any) bool {
	return (args[0] == "EVALSHA" || args[0] == "EVAL") && args[2] == 2 && len(args) == 3+2+3
}

// among lets one owner of each of lockers take key "k" rounds times, and returns
// how often somebody else was inside.
func among(t *testing.T, lockers []lock.Locker, rounds int) (overlaps int) {
	t.Helper()
	var inside, met atomic.Int32
	var all sync.WaitGroup
	for _, l := range lockers {
		all.Go(func() {
			for range rounds {
				lease, err := l.Acquire(t.Context(), "k")
				if err != nil {
					t.Errorf("Acquire: %v", err)
					return
				}
				if inside.Add(1) != 1 {
					met.Add(1)
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				if err := lease.Release(t.Context()); err != nil && !errors.Is(err, lock.ErrUncertain) {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	all.Wait()
	return int(met.Load())
}

func (c *cluster) several(t *testing.T, n int, through bool, config lock.Config) (all []lock.Locker) {
	t.Helper()
	for range n {
		all = append(all, c.open(t, through, config))
	}
	return all
}

// asks lets l wait for "k", and returns where its grant is sent.
func asks(ctx context.Context, l lock.Locker) <-chan result {
	granted := make(chan result, 1)
	go func() {
		lease, err := l.Acquire(ctx, "k")
		granted <- result{lease, err}
	}()
	return granted
}

// waits lets l wait for "k" until it stands in line behind before others, and
// returns where its grant is sent.
func (c *cluster) waits(ctx context.Context, t *testing.T, l lock.Locker, before int64) <-chan result {
	t.Helper()
	granted := asks(ctx, l)
	for end := time.Now().Add(30 * time.Second); c.inLine(t) != before+1; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d stand in line, want %d", c.inLine(t), before+1)
		}
	}
	return granted
}

// inLine is how many stand in line for "k", on all nodes.
func (c *cluster) inLine(t *testing.T) (n int64) {
	t.Helper()
	for _, conn := range c.raw {
		reply, err := conn.Do(context.Background(), "LLEN", lineOf("k"))
		if err != nil {
			t.Fatal(err)
		}
		n += reply.(int64)
	}
	return n
}

// Several processes hand the key on as the owners of one do.
func TestRedlockProcesses(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		const processes, rounds = 4, 25
		var hands atomic.Int64
		c.tamper(0, func(args []any) error {
			if isHand(args) && args[0] == "EVALSHA" && args[7] == 0 {
				hands.Add(1)
			}
			return nil
		})
		if n := among(t, c.several(t, processes, true, lock.Config{TTL: time.Minute}), rounds); n > 0 {
			t.Errorf("%d overlaps", n)
		}
		if n := hands.Load(); n < processes*rounds/2 {
			t.Errorf("of %d grants %d were handed on, want more than half", processes*rounds, n)
		}
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// In the order in which they came, and with a lease that lasts no longer than
// the keys.
func TestRedlockProcessesInOrder(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		all := c.several(t, 4, false, lock.Config{TTL: time.Minute})
		lease := mustTry(t, all[0], "k")
		c.becomes(t, "k", 5) // where the node with the line is not held nobody can wait in it
		var granted []<-chan result
		for i, l := range all[1:] {
			granted = append(granted, c.waits(t.Context(), t, l, int64(i)))
		}
		for i, g := range granted {
			if err := lease.Release(t.Context()); err != nil {
				t.Fatalf("Release: %v", err)
			}
			next := wait(t, "grant", g)
			if next.err != nil {
				t.Fatal(next.err)
			}
			lease = next.lease
			deadline := lease.(lock.Deadliner).Deadline()
			lasts := time.Until(deadline)
			c.becomes(t, "k", 5)
			lasting, left := 0, time.Until(deadline)
			for _, conn := range c.raw {
				ttl, err := conn.Do(t.Context(), "PTTL", "k")
				if err != nil {
					t.Fatal(err)
				}
				if time.Duration(ttl.(int64))*time.Millisecond > left-time.Second {
					lasting++
				}
			}
			if lasts < 40*time.Second || lasting < 3 {
				t.Errorf("grant %d ends in %v, and %d keys last that long", i, lasts, lasting)
			}
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// Hand-overs that fail on some nodes, or on too many, and words that are lost,
// let nobody in beside another one, lose nobody, and leave nothing behind.
func TestRedlockFailedHand(t *testing.T) {
	for name, failing := range map[string]int{"minority": 2, "majority": 3} {
		t.Run(name, func(t *testing.T) {
			eachCluster(t, func(t *testing.T, c *cluster) {
				for i := range failing {
					var n atomic.Int64
					c.tamper(i, func(args []any) error {
						if !isHand(args) {
							return nil
						}
						switch n.Add(1) % 6 {
						case 1:
							return errDead
						case 4:
							return io.EOF
						}
						return nil
					})
				}
				if n := among(t, c.several(t, 3, true, lock.Config{TTL: time.Minute}), 8); n > 0 {
					t.Errorf("%d overlaps", n)
				}
				c.becomes(t, "k", 0)
				c.becomes(t, lineOf("k"), 0)
			})
		})
	}
}

// Those that are cut off from what they are told find out by themselves.
func TestRedlockCutOff(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		ctx, stop := context.WithCancel(t.Context())
		var cutting sync.WaitGroup
		for _, conn := range c.raw {
			cutting.Go(func() {
				for ctx.Err() == nil {
					_, _ = conn.Do(context.Background(), "CLIENT", "KILL", "TYPE", "pubsub")
					time.Sleep(3 * time.Millisecond)
				}
			})
		}
		n := among(t, c.several(t, 3, false, lock.Config{TTL: 5 * time.Second, NodeTimeout: lock.MaxNodeTimeout}), 10)
		stop()
		cutting.Wait()
		if n > 0 {
			t.Errorf("%d overlaps", n)
		}
		// A node whose word was lost too late may keep the key for a ttl.
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// One that leaves the line is skipped, and gives back what it is handed even so.
func TestRedlockLeavesLine(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		all := c.several(t, 3, false, lock.Config{TTL: time.Hour})
		lease := mustTry(t, all[0], "k")
		ctx, leave := context.WithCancel(t.Context())
		gone := c.waits(ctx, t, all[1], 0)
		stays := c.waits(t.Context(), t, all[2], 1)
		leave()
		if r := wait(t, "the end of a wait", gone); !errors.Is(r.err, context.Canceled) || errors.Is(r.err, lock.ErrUncertain) {
			t.Errorf("left the line: %v, %v", r.lease, r.err)
		}
		// The holder may have learned of it, and then hands it the key.
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := wait(t, "grant", stays)
		if next.err != nil {
			t.Fatal(next.err)
		}
		if err := next.lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// A process that is gone is skipped at once, and taken out of the line.
func TestRedlockDeadInLine(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		all := c.several(t, 2, false, lock.Config{TTL: time.Hour})
		c.listens(t, all[0])
		lease := mustTry(t, all[0], "k")
		c.becomes(t, "k", 5)
		next := c.waits(t.Context(), t, all[1], 0)
		token, err := c.raw[0].Do(t.Context(), "GET", "k")
		if err != nil {
			t.Fatal(err)
		}
		process, _, _ := strings.Cut(token.(string), ":")
		for _, conn := range c.raw { // the process nobody is next, and heard of that
			if n, _ := conn.Do(t.Context(), "LLEN", lineOf("k")); n == int64(0) {
				continue
			}
			if _, err := conn.Do(t.Context(), "LPUSH", lineOf("k"), "nobody:1:3600000"); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Do(t.Context(), "PUBLISH", "lockbench:turn:"+process, "next "+token.(string)+" nobody:1:3600000"); err != nil {
				t.Fatal(err)
			}
		}
		after := relays(t, lease, next)
		if err := after.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// A Locker that is closed takes its waiters out of the line.
func TestRedlockClosedInLine(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		all := c.several(t, 2, false, lock.Config{TTL: time.Hour})
		lease := mustTry(t, all[0], "k")
		waiting := c.waits(t.Context(), t, all[1], 0)
		if err := all[1].Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if r := wait(t, "the end of a wait", waiting); r.err == nil || errors.Is(r.err, lock.ErrUncertain) {
			t.Errorf("waited in a closed Locker: %v, %v", r.lease, r.err)
		}
		if n := c.inLine(t); n != 0 {
			t.Errorf("%d stand in line after the last has left", n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.becomes(t, "k", 0)
	})
}

// Leases that nobody releases are not kept in mind for ever.
func TestRedlockAbandoned(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		l := c.open(t, false, lock.Config{TTL: 200 * time.Millisecond, NodeTimeout: time.Second})
		abandon := func(n int) {
			for i := range n {
				if _, err := l.Acquire(t.Context(), strconv.Itoa(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		abandon(300)
		time.Sleep(2100 * time.Millisecond) // the least time that one is kept
		abandon(300)
		if n := redis.Ballots(l); n > 450 {
			t.Errorf("%d of 600 leases are kept in mind", n)
		}
	})
}

// Waits that are cut off at random end, and leave nobody in doubt: nobody waits for
// words that will not come, and whatever an answer says that comes late, what is
// given back stays so.
func TestRedlockCutWaits(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		var all sync.WaitGroup
		for i, l := range c.several(t, 3, false, lock.Config{TTL: time.Hour, NodeTimeout: time.Hour, Timeout: time.Hour}) {
			for j := range 4 {
				all.Go(func() {
					for round := range 50 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration((i+j+round)%20)*time.Millisecond)
						lease, err := l.Acquire(ctx, "k")
						cancel()
						if err == nil {
							err = lease.Release(t.Context())
						} else if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrUncertain) {
							continue
						}
						if err != nil {
							t.Errorf("round %d: %v", round, err)
							return
						}
					}
				})
			}
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			all.Wait()
		}()
		wait(t, "the last wait", ended)
		c.becomes(t, "k", 0)
		c.becomes(t, lineOf("k"), 0)
	})
}

// What is granted to an attempt that has given it back, on the same node, is given
// back again: a holder may have heard of it before it gave up, and its own question
// may be the later one.
func TestRedlockGrantedAgain(t *testing.T) {
	const early, slow = 3, 4 // the nodes that grant the key; the others have granted it to somebody else
	for _, again := range []int{early, slow} {
		t.Run(map[int]string{early: "by another", slow: "by itself"}[again], func(t *testing.T) {
			eachCluster(t, func(t *testing.T, c *cluster) {
				holder := c.open(t, false, lock.Config{TTL: time.Hour})
				l := c.open(t, true, lock.Config{TTL: time.Hour, NodeTimeout: time.Hour, Timeout: time.Hour})
				// Who has waited is told of its turn from then on.
				lease := mustTry(t, holder, "k")
				ctx, cancel := context.WithCancel(t.Context())
				waiting := c.waits(ctx, t, l, 0)
				cancel()
				wait(t, "the end of a wait", waiting)
				if err := lease.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				c.becomes(t, "k", 0)

				do := func(i int, args ...any) {
					t.Helper()
					if _, err := c.raw[i].Do(t.Context(), args...); err != nil {
						t.Fatal(err)
					}
				}
				for i := range early {
					do(i, "SET", "k", "somebody")
				}
				asked, back, free := make(chan string, 1), make(chan struct{}, 1), make(chan struct{})
				answer := sync.OnceFunc(func() { close(free) })
				t.Cleanup(answer)
				c.tamper(early, func(args []any) error {
					if !isSet(args) {
						select {
						case back <- struct{}{}:
						default: // a script that is not known is sent again
						}
					}
					return nil
				})
				c.tamper(slow, func(args []any) error {
					if isSet(args) {
						asked <- args[2].(string)
						<-free
					}
					return nil
				})
				tried := make(chan error, 1)
				go func() {
					_, err := l.(lock.Tryer).TryAcquire(t.Context(), "k")
					tried <- err
				}()
				token := wait(t, "the question to the slow node", asked)
				grant := func() {
					process, _, _ := strings.Cut(token, ":")
					do(again, "SET", "k", token)
					do(again, "PUBLISH", "lockbench:turn:"+process, "granted "+token+"  k")
					c.becomes(t, "k", early)
				}
				wait(t, "the giving back of what was granted", back)
				c.becomes(t, "k", early)
				c.tamper(early, nil)
				grant()
				answer()
				if err := wait(t, "the end of an attempt", tried); !errors.Is(err, lock.ErrHeld) {
					t.Errorf("most nodes are held by somebody else: %v", err)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				c.becomes(t, "k", early)
			})
		})
	}
}

// Where the attempts are counted nobody stands in line.
func TestRedlockLimit(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		mustTry(t, c.open(t, false, lock.Config{TTL: time.Hour}), "k")
		var count lock.Counters
		l := c.open(t, false, lock.Config{TTL: time.Hour, Retry: lock.Retry{Limit: 3}, Count: &count})
		lease, err := l.Acquire(t.Context(), "k")
		if _, attempts, _ := count.Read(); !errors.Is(err, lock.ErrHeld) || lease != nil || attempts != 3 {
			t.Errorf("3 attempts on a held key: lease %v, error %v, %d attempts", lease, err, attempts)
		}
		if n := c.inLine(t); n != 0 {
			t.Errorf("%d stand in line", n)
		}
	})
}

// Leases that are given back at once are so without a doubt, although the words
// that granted them may still be on their way.
func TestRedlockCrowd(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *cluster) {
		for range 8 {
			all := c.several(t, 2, false, lock.Config{TTL: time.Minute, Conns: 32, NodeTimeout: 20 * time.Second, Timeout: time.Minute})
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					lease, err := all[i%2].Acquire(t.Context(), "k")
					if err == nil {
						err = lease.Release(t.Context())
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for _, l := range all {
				_ = l.Close()
			}
		}
	})
}
