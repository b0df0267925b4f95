package redis_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// wants is what each algorithm promises, apart from the code.
type wants struct {
	algo   string
	caps   lock.Caps
	unsafe lock.Hazards
	value  string // of the key while held, as a regular expression
	ends   bool   // the key has a TTL
}

func promises() []wants {
	const (
		lease  = lock.Pause | lock.ServerClock | lock.Failover | lock.Restart
		owner  = `^[A-Z2-7]{26}:[0-9]+$`
		stamp  = `^[0-9]{13}$`
		nobody = `^1$`
	)
	return []wants{
		{"redis-setnx", lock.Try, lock.Crash | lock.Failover | lock.Restart, nobody, false},
		{"redis-setnx-expire", lock.Try, lease | lock.CrashMidway | lock.LateRelease, nobody, true},
		{"redis-setnx-lua", lock.Try, lease | lock.LateRelease, nobody, true},
		{"redis-timestamp-del", lock.Try, lock.TakeoverRace | lock.LateRelease | lock.Pause | lock.ClientClock | lock.Failover | lock.Restart, stamp, false},
		{"redis-getset", lock.Try, lock.LateRelease | lock.Pause | lock.ClientClock | lock.Failover | lock.Restart, stamp, false},
		{"redis-set-ex", lock.Try, lease | lock.LateRelease, nobody, true},
		{"redis-get-del", lock.Try, lease | lock.LateRelease, owner, true},
		{"redis-token", lock.Try | lock.Extend, lease, owner, true},
		{"redis-watchdog", lock.Try | lock.Renew, lease, owner, true},
		{"redis-fenced", lock.Try | lock.Renew | lock.Fencing, lease, owner, true},
		{"redis-blpop", lock.Try, lease, owner, true},
		{"redis-multi", lock.Try | lock.Multi, lease, owner, true},
		{"redis-redlock", lock.Try | lock.Extend, lock.Pause | lock.ServerClock | lock.Restart, owner, true},
		{"redis-handoff", lock.Try | lock.Reentrant | lock.Renew | lock.Fencing | lock.Cond | lock.Fair | lock.Notify, lease, `^[0-9]+:[A-Z2-7]{26}:[0-9]+:[0-9]+$`, true},
		{"redis-cohort", lock.Try | lock.Renew | lock.Fencing | lock.Notify, lease, `^[0-9]+:[A-Z2-7]{26}:[0-9]+:[0-9]+$`, true},
	}
}

// natives is the same of the algorithm that not every server can serve.
func natives() []wants {
	return []wants{{"redis-token-native", lock.Try | lock.Extend,
		lock.Pause | lock.ServerClock | lock.Failover | lock.Restart, `^[A-Z2-7]{26}:[0-9]+$`, true}}
}

// promises leaves out the lock that needs several servers and, where all commands
// share one connection, the one that blocks in the server.
func (a adapter) promises() []wants {
	return slices.DeleteFunc(promises(), func(w wants) bool {
		return w.algo == "redis-redlock" || a.shared && w.algo == "redis-blpop"
	})
}

// What is made for a shared connection is a part of the whole list, in its order.
func TestPipelined(t *testing.T) {
	var got []string
	for _, v := range redis.Pipelined("c", nil) {
		got = append(got, v.Name())
	}
	want := []string{"redis-token/c", "redis-token-native/c", "redis-watchdog/c", "redis-fenced/c", "redis-handoff/c", "redis-tracking/c"}
	if !slices.Equal(got, want) {
		t.Errorf("Pipelined: %q, want %q", got, want)
	}
}

func TestVariants(t *testing.T) {
	for _, a := range adapters() {
		list := redis.Variants(a.name, a.dial)
		all := slices.Concat(promises()[:8], natives(), promises()[8:], redissonPromises())
		if len(list) != len(all) {
			t.Fatalf("%s: %d variants, want %d", a.name, len(list), len(all))
		}
		for i, want := range all {
			v := list[i]
			if v.Algo != want.algo || v.Client != a.name {
				t.Errorf("variant %d is %s, want %s/%s", i, v.Name(), want.algo, a.name)
			}
			if v.Caps != want.caps {
				t.Errorf("%s: caps %v, want %v", v.Name(), v.Caps, want.caps)
			}
			if v.Unsafe != want.unsafe {
				t.Errorf("%s: unsafe %v, want %v", v.Name(), v.Unsafe, want.unsafe)
			}
			if n := len(v.Synopsis()); n == 0 || n > 90 || !strings.HasSuffix(v.Synopsis(), ".") {
				t.Errorf("%s: synopsis of %d characters, want a sentence of at most 90: %q", v.Name(), n, v.Synopsis())
			}
			if v.Source == "" || v.Needs.Kind != "redis" {
				t.Errorf("%s: source %q, needs %v", v.Name(), v.Source, v.Needs)
			}
		}
	}
}

// The life of a key, as every variant gives it.
func TestLife(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, want := range s.promises() {
			t.Run(want.algo, func(t *testing.T) {
				key := "life {" + want.algo + "}\x00\r\n日本"
				a, b := s.open(t, want.algo, nil), s.open(t, want.algo, nil)

				before := time.Now()
				lease, err := a.Acquire(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				after := time.Now()
				value, _ := s.do(t, "GET", key).(string)
				if !regexp.MustCompile(want.value).MatchString(value) {
					t.Errorf("the key holds %q, want %s", value, want.value)
				}
				ttl := time.Duration(s.do(t, "PTTL", key).(int64)) * time.Millisecond
				if want.ends && (ttl <= 0 || ttl > lock.DefaultTTL) || !want.ends && ttl != -time.Millisecond {
					t.Errorf("the key's TTL is %v", ttl)
				}
				deadline := lease.(lock.Deadliner).Deadline()
				if want.algo == "redis-setnx" {
					if !deadline.IsZero() {
						t.Errorf("a lease without end has the deadline %v", deadline)
					}
				} else if deadline.Before(before.Add(lock.DefaultTTL)) || deadline.After(after.Add(lock.DefaultTTL)) {
					t.Errorf("deadline %v after the request, want %v", deadline.Sub(before), lock.DefaultTTL)
				}

				// A second owner waits, in the same process and in another.
				for _, l := range []lock.Locker{a, b} {
					if r := wait(t, "TryAcquire", try(t, l, key)); !errors.Is(r.err, lock.ErrHeld) || r.lease != nil {
						t.Errorf("TryAcquire of a held key: %v, %v; want ErrHeld", r.lease, r.err)
					}
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
				}
				if got := s.do(t, "EXISTS", key); got != int64(0) {
					t.Error("the key is there after Release")
				}
				if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
					t.Errorf("second Release: %v, want ErrLost", err)
				}
				if err := mustTry(t, b, key).Release(t.Context()); err != nil {
					t.Errorf("Release of the next owner: %v", err)
				}
				// Nothing remains but what the variant names.
				left := s.do(t, "DBSIZE").(int64)
				for _, name := range s.variant(t, want.algo).Names(key) {
					left -= s.do(t, "DEL", name).(int64)
				}
				if left != 0 {
					t.Errorf("%d keys remain that Variant.Keys does not name", left)
				}
			})
		}
	})
}

// TTLs are never rounded to less than was asked for.
func TestRounding(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for algo, want := range map[string]int64{
			"redis-setnx-expire": 2, // s
			"redis-setnx-lua":    2,
			"redis-set-ex":       2,
			"redis-get-del":      1501, // ms
			"redis-token":        1501,
			"redis-watchdog":     1501,
			"redis-fenced":       1501,
		} {
			var sent []any
			w := &lossy{before: func(args []any) error { sent = args; return nil }}
			v := find(t, redis.Variants(s.name, w.dial(s.dial)), algo)
			l := openVariant(t, v, s.at, lock.Config{TTL: 1500*time.Millisecond + time.Microsecond, Renew: time.Hour})
			before := time.Now()
			lease := mustTry(t, l, algo)
			if got := sent[len(sent)-1]; got != want {
				t.Errorf("%s: the TTL sent is %v, want %v: %v", algo, got, want, sent)
			}
			if d := lease.(lock.Deadliner).Deadline(); d.Before(before.Add(1500 * time.Millisecond)) {
				t.Errorf("%s: deadline after %v", algo, d.Sub(before))
			}
		}
	})
}

// Nobody is inside together while all behave, and all get in.
func TestExclusion(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, want := range s.promises() {
			t.Run(want.algo, func(t *testing.T) {
				const clients, owners, rounds = 2, 4, 5
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var inside, entered int // guarded by the lock under test
				var guard sync.Mutex    // for the race detector alone
				var all sync.WaitGroup
				for range clients {
					l := s.open(t, want.algo, nil)
					for range owners {
						all.Go(func() {
							for range rounds {
								lease, err := l.Acquire(ctx, want.algo)
								if err != nil {
									t.Error(err)
									return
								}
								guard.Lock()
								inside++
								entered++
								if inside != 1 {
									locktest.Violation(t, "%d inside", inside)
								}
								guard.Unlock()
								time.Sleep(100 * time.Microsecond)
								guard.Lock()
								inside--
								guard.Unlock()
								if err := lease.Release(ctx); err != nil {
									t.Error(err)
									cancel() // nobody else will get it
								}
							}
						})
					}
				}
				all.Wait()
				if entered != clients*owners*rounds {
					t.Errorf("entered %d times, want %d", entered, clients*owners*rounds)
				}
			})
		}
	})
}

// A context that ends before, during and after a wait leaves nothing behind.
func TestContext(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, want := range s.promises() {
			t.Run(want.algo, func(t *testing.T) {
				key := want.algo
				over, cancel := context.WithCancel(t.Context())
				cancel()
				if lease, err := s.open(t, key, nil).Acquire(over, key); !errors.Is(err, context.Canceled) || lease != nil {
					t.Errorf("Acquire after the end of ctx: %v, %v", lease, err)
				}
				if got := s.do(t, "EXISTS", key); got != int64(0) {
					t.Error("Acquire after the end of ctx took the key")
				}

				lease := mustTry(t, s.open(t, want.algo, nil), key)
				waiting, cancel := context.WithCancel(t.Context())
				polled := make(chan struct{})
				var once sync.Once
				waiter := s.open(t, want.algo, func(context.Context, string) error {
					once.Do(func() { close(polled) })
					return nil
				})
				done := make(chan result, 1)
				go func() {
					lease, err := waiter.Acquire(waiting, key)
					done <- result{lease, err}
				}()
				wait(t, "the first poll", polled)
				cancel()
				if r := wait(t, "the end of the wait", done); !errors.Is(r.err, context.Canceled) || errors.Is(r.err, lock.ErrUncertain) {
					t.Errorf("wait ended by ctx: %v, %v", r.lease, r.err)
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release by the holder after that: %v", err)
				}

				// The grant crosses the end of ctx.
				late, cancel := context.WithCancel(t.Context())
				defer cancel()
				crossing := s.open(t, want.algo, func(_ context.Context, step string) error {
					if strings.HasPrefix(step, "after-") {
						cancel()
					}
					return nil
				})
				if lease, err := crossing.Acquire(late, key); !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrUncertain) {
					t.Errorf("grant after the end of ctx: %v, %v", lease, err)
				}
				if got := s.do(t, "EXISTS", key); got != int64(0) {
					t.Error("a grant after the end of ctx was not given back")
				}
			})
		}
	})
}
