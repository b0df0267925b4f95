package impls_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// soakTime is how long TestSoak works on all variants together. `make soak`
// gives it ten minutes.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("LOCKBENCH_SOAK")
	if text == "" {
		return 10 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("LOCKBENCH_SOAK: %v", err)
	}
	return d
}

// sound tells the variants that are wrong under no load, but only when something
// breaks: a stall, a server that forgets, a clock that jumps.
func sound(v lock.Variant) bool {
	return v.Unsafe&^(lock.Pause|lock.ServerClock|lock.Failover|lock.Restart|lock.Eviction|lock.SessionEnd) == 0
}

// TestSoak works the sound variants in turn, with waits that are cut off at
// random instants. It wants no overlap, and nothing left behind: no goroutine,
// connection, subscription or key. Each variant is worked for its share of the time,
// and for as much longer as it takes until writers and readers have been granted keys
// and waits have been cut off: how many of either fit in a time depends on the machine.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: -short leaves out the soak")
	}
	o := fromEnv(t)
	list := slices.DeleteFunc(impls.All(), func(v lock.Variant) bool { return !sound(v) })
	each := soakTime(t) / time.Duration(len(list))
	servers := map[lock.Needs]*server.Server{}
	for _, v := range list {
		s, asked := servers[v.Needs]
		if !asked {
			s = start(t, v.Needs, o, true)
			servers[v.Needs] = s
		}
		t.Run(v.Name(), func(t *testing.T) {
			if s == nil {
				lacking(t, v.Needs)
			}
			soak(t, v, s, each)
		})
	}
}

// enough is how many grants of each kind, and how many waits cut off, soak goes on
// for: one for each of its owners on average.
const enough = 15

// A limit is how long an owner waits before it gives up, on average. It grows with each
// wait that was in vain and shrinks with each grant, so that some waits succeed and some
// are cut off however long an Acquire takes.
type limit time.Duration

func (l *limit) draw(rng *rand.Rand) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(*l))
}

func (l *limit) granted() { *l = max(*l*9/10, limit(50*time.Microsecond)) }
func (l *limit) cutOff()  { *l = min(*l*2, limit(patience)) }

func soak(t *testing.T, v lock.Variant, s *server.Server, long time.Duration) {
	const lockers, owners, keys = 3, 5, 2
	watches := watch(t, s)
	before := goleak.IgnoreCurrent()
	var open []lock.Locker
	for range lockers {
		// A machine that stalls for the 50 ms that a node is given otherwise makes outcomes uncertain.
		l, err := v.Open(t.Context(), s.Deployment, lock.Config{TTL: 30 * time.Second, Conns: owners + 1, NodeTimeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, l)
	}
	key := func(k int) string { return "soak:" + v.Name() + ":" + strconv.Itoa(k) }
	const writer = 1 << 16 // how much more than a reader counts of those inside
	var inside [keys]atomic.Int32
	var written, read, cut atomic.Int64
	shares := v.Caps.Has(lock.Shared)
	end, last := time.Now().Add(long), time.Now().Add(long+patience)
	over := func() bool {
		now := time.Now()
		return now.After(last) || now.After(end) && written.Load() >= enough && cut.Load() >= enough && (!shares || read.Load() >= enough)
	}
	var all sync.WaitGroup
	for i := range lockers * owners {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			writes, reads := limit(10*time.Millisecond), limit(10*time.Millisecond)
			for !over() {
				k := rng.IntN(keys)
				acquire, weight, count, wait := open[i%lockers].Acquire, int32(writer), &written, &writes
				if shares && rng.IntN(2) == 0 {
					acquire, weight, count, wait = open[i%lockers].(lock.Sharer).AcquireShared, 1, &read, &reads
				}
				ctx, cancel := context.WithCancel(t.Context())
				timer := time.AfterFunc(wait.draw(rng), cancel)
				lease, err := acquire(ctx, key(k))
				timer.Stop()
				cancel()
				if err != nil {
					if !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrUncertain) {
						t.Errorf("Acquire: %v", err)
						return
					}
					cut.Add(1)
					wait.cutOff()
					continue
				}
				if n := inside[k].Add(weight); n > writer || weight == writer && n != writer {
					locktest.Violation(t, "%d writers and %d readers hold one key", n/writer, n%writer)
				}
				time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
				inside[k].Add(-weight)
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("Release: %v", err)
					return
				}
				count.Add(1)
				wait.granted()
			}
		})
	}
	all.Wait()
	// A wait without end gets the key: what the others left does not block it.
	for k := range keys {
		lease, err := open[0].Acquire(t.Context(), key(k))
		if err != nil {
			t.Fatalf("after the work: %v", err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	for _, l := range open {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	t.Logf("%d grants to writers, %d to readers, %d waits cut off", written.Load(), read.Load(), cut.Load())
	if written.Load() < enough || cut.Load() < enough || shares && read.Load() < enough {
		t.Errorf("%d grants to writers, %d to readers, %d waits cut off within %v, want %d of each",
			written.Load(), read.Load(), cut.Load(), long+patience, enough)
	}
	for end := time.Now().Add(30 * time.Second); ; {
		err := goleak.Find(before)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Error(err)
			break
		}
	}
	var names []string
	for k := range keys {
		names = append(names, v.Names(key(k))...)
	}
	if v.State != nil {
		names = append(names, v.State("")...)
	}
	watches.nothing(t, names)
}

// watched is what one server holds, counted beside the locks.
type watched struct {
	client  *redis.Client
	clients int
}

type watchers []watched

// watch notes how many connections the redis servers of s have.
func watch(t *testing.T, s *server.Server) watchers {
	t.Helper()
	var list watchers
	if s.Kind != "redis" {
		return nil // others do not tell; the conformance suite counts their connections
	}
	for _, node := range s.Deployment.Nodes {
		o, err := redis.ParseURL(node.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		o.PoolSize = 1
		w := watched{client: redis.NewClient(o)}
		t.Cleanup(func() { _ = w.client.Close() })
		w.clients = w.connected(t)
		list = append(list, w)
	}
	return list
}

// connected counts the connections, which the imitation of Redis tells as well.
func (w watched) connected(t *testing.T) int {
	t.Helper()
	text, err := w.client.Info(t.Context(), "clients").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = strings.Cut(text, "connected_clients:")
	n, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(text, "\n", 2)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// nothing waits until the servers have no more connections than before and no
// subscription, and fails if a key is left that is not among names.
func (list watchers) nothing(t *testing.T, names []string) {
	t.Helper()
	for _, w := range list {
		end := time.Now().Add(30 * time.Second)
		for w.connected(t) > w.clients { // a server sees a closed connection when it gets to it
			if time.Now().After(end) {
				t.Errorf("%d connections, %d before", w.connected(t), w.clients)
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		channels, err := w.client.PubSubChannels(t.Context(), "*").Result()
		if err != nil || len(channels) > 0 {
			t.Errorf("subscribed to %q (%v)", channels, err)
		}
		// What a variant keeps without end it names; all else must be gone.
		it := w.client.Scan(t.Context(), 0, "*", 1000).Iterator()
		for it.Next(t.Context()) {
			if !slices.Contains(names, it.Val()) {
				t.Errorf("the key %q is left", it.Val())
			}
		}
		if err := it.Err(); err != nil {
			t.Error(err)
		}
		if err := w.client.Del(t.Context(), names...).Err(); err != nil {
			t.Error(err)
		}
	}
}
