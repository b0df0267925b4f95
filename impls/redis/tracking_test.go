package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/redigo"
	"github.com/lockbench/lockbench/impls/redis/rueidis"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

func trackingOn(t *testing.T, dial wire.Dial) lock.Variant {
	t.Helper()
	return find(t, redis.Pipelined("rueidis", dial), "redis-tracking")
}

func trackingServer(t *testing.T, options ...string) *server {
	t.Helper()
	return newServer(t, adapter{"rueidis", rueidis.Dial, true}, startRedis(t, options...), true)
}

// deafened is a Conn whose Track loses every message.
type deafened struct {
	wire.Conn
	wire.Tracker
}

func (d deafened) Track(ctx context.Context, _ func([]string)) (wire.Conn, error) {
	return d.Tracker.Track(ctx, func([]string) {})
}

func deafenedDial(ctx context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
	conn, err := rueidis.Dial(ctx, ep, c)
	if err != nil {
		return nil, err
	}
	return deafened{conn, conn.(wire.Tracker)}, nil
}

// armed waits until the server has n keys on which somebody waits for news.
func (s *server) armed(t *testing.T, n string) {
	t.Helper()
	until(t, n+" keys tracked", func() bool {
		return field(s.do(t, "INFO", "stats").(string), "tracking_total_keys") == n
	})
}

// A release wakes one waiter of each process and no more, and nobody asks while
// nothing happens.
func TestTrackingWakes(t *testing.T) {
	s := trackingServer(t)
	v := trackingOn(t, s.dial)
	var counts [3]lock.Counters
	var done []<-chan result
	held := mustTry(t, openVariant(t, v, s.at, lock.Config{TTL: time.Hour}), "k")
	const owners = 4
	for i := range counts {
		l := openVariant(t, v, s.at, lock.Config{TTL: time.Hour, Count: &counts[i]})
		for range owners {
			done = append(done, acquire(t.Context(), l, "k"))
		}
	}
	// Every process has asked once, for all its owners.
	until(t, "the first of each process has asked", func() bool {
		for i := range counts {
			if _, attempts, _ := counts[i].Read(); attempts != 1 {
				return false
			}
		}
		return true
	})
	s.armed(t, "1")
	for i := range counts {
		// The answer may be under way, and one more attempt would follow news.
		if _, attempts, wakeups := counts[i].Read(); attempts != 1 || wakeups != 0 {
			t.Errorf("process %d: %d attempts and %d wake-ups while nothing happened", i, attempts, wakeups)
		}
	}
	release(t, held)
	for len(done) > 0 {
		i, r := anyOf(t, done)
		done = append(done[:i], done[i+1:]...)
		if r.err != nil {
			t.Fatal(r.err)
		}
		release(t, r.lease)
	}
	total := int64(0)
	for i := range counts {
		_, attempts, wakeups := counts[i].Read()
		total += attempts
		if wakeups == 0 {
			t.Errorf("process %d was never woken", i)
		}
	}
	// Each of 12 grants takes an attempt, and each of 12 releases makes at most
	// one waiter of the 3 processes try; one that asks finds the key held.
	grants := int64(len(counts) * owners)
	if most := grants + int64(len(counts))*(grants+1); total > most {
		t.Errorf("%d attempts for %d grants, want at most %d", total, grants, most)
	}
	if got := s.do(t, "EXISTS", "k"); got != int64(0) {
		t.Error("the key is there after the last release")
	}
}

// anyOf waits for the first of several acquisitions to end.
func anyOf(t *testing.T, list []<-chan result) (i int, r result) {
	t.Helper()
	until(t, "the end of an Acquire", func() bool {
		for i = range list {
			select {
			case r = <-list[i]:
				return true
			default:
			}
		}
		return false
	})
	return i, r
}

// The key's value is the owner's token, its TTL that of the Config, and both
// survive a stranger's release.
func TestTrackingKey(t *testing.T) {
	s := trackingServer(t)
	l := openVariant(t, trackingOn(t, s.dial), s.at, lock.Config{TTL: time.Minute})
	for name, take := range map[string]func() lock.Lease{
		"Acquire":    func() lock.Lease { return must(t, acquire(t.Context(), l, "k\x00\r\n日本")) },
		"TryAcquire": func() lock.Lease { return mustTry(t, l, "k\x00\r\n日本") },
	} {
		lease := take()
		value := s.do(t, "GET", "k\x00\r\n日本").(string)
		if ttl := s.do(t, "PTTL", "k\x00\r\n日本").(int64); ttl <= 0 || ttl > time.Minute.Milliseconds() {
			t.Errorf("%s: the TTL is %d ms", name, ttl)
		}
		if len(value) < 28 {
			t.Errorf("%s: the key holds %q, want a token", name, value)
		}
		s.do(t, "SET", "k\x00\r\n日本", "another's")
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: Release of another's key: %v, want ErrLost", name, err)
		}
		if s.do(t, "DEL", "k\x00\r\n日本") != int64(1) {
			t.Errorf("%s: Release freed another's key", name)
		}
	}
}

func must(t *testing.T, done <-chan result) lock.Lease {
	t.Helper()
	r := wait(t, "Acquire", done)
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.lease
}

// Without any message a waiter gets in when the lease that it waited for ends.
func TestTrackingLostMessage(t *testing.T) {
	s := trackingServer(t)
	const ttl = 300 * time.Millisecond
	held := mustTry(t, openVariant(t, trackingOn(t, s.dial), s.at, lock.Config{TTL: ttl}), "k")
	var count lock.Counters
	waiter := openVariant(t, trackingOn(t, deafenedDial), s.at, lock.Config{TTL: time.Minute, Count: &count})
	done := acquire(t.Context(), waiter, "k")
	until(t, "the waiter has asked", func() bool { _, attempts, _ := count.Read(); return attempts > 0 })
	if err := held.Release(t.Context()); err != nil && !errors.Is(err, lock.ErrLost) {
		t.Fatal(err)
	}
	release(t, must(t, done))
	if _, _, wakeups := count.Read(); wakeups != 0 {
		t.Errorf("%d wake-ups without a message", wakeups)
	}
}

// The loss of the connection is news of every key.
func TestTrackingReconnects(t *testing.T) {
	s := trackingServer(t)
	v := trackingOn(t, s.dial)
	held := mustTry(t, openVariant(t, v, s.at, lock.Config{TTL: time.Hour}), "k")
	var count lock.Counters
	done := acquire(t.Context(), openVariant(t, v, s.at, lock.Config{TTL: time.Hour, Count: &count}), "k")
	s.armed(t, "1")
	// Every connection but the one that asks.
	s.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	until(t, "the waiter has asked again", func() bool { _, attempts, _ := count.Read(); return attempts > 1 })
	s.armed(t, "1")
	// The connections that free are gone as well, and made anew.
	until(t, "the release", func() bool { return held.Release(t.Context()) == nil })
	granted := must(t, done)
	until(t, "the next release", func() bool { return granted.Release(t.Context()) == nil })
}

// A waiter whose context ends goes, and the next in its line takes its place.
func TestTrackingGivesUp(t *testing.T) {
	s := trackingServer(t)
	v := trackingOn(t, s.dial)
	held := mustTry(t, openVariant(t, v, s.at, lock.Config{TTL: time.Hour}), "k")
	var once sync.Once
	asked := make(chan struct{})
	l := openVariant(t, v, s.at, lock.Config{TTL: time.Hour, Hook: func(_ context.Context, step string) error {
		if step == "after-acquire" {
			once.Do(func() { close(asked) })
		}
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := acquire(ctx, l, "k")
	wait(t, "the first attempt", asked)
	second := acquire(t.Context(), l, "k")
	cancel()
	if r := wait(t, "the end of the wait", first); !errors.Is(r.err, context.Canceled) || errors.Is(r.err, lock.ErrUncertain) {
		t.Errorf("wait ended by ctx: %v, %v", r.lease, r.err)
	}
	release(t, held)
	release(t, must(t, second))

	// Close ends the waits.
	held = mustTry(t, openVariant(t, v, s.at, lock.Config{TTL: time.Hour}), "k")
	done := acquire(t.Context(), l, "k")
	s.armed(t, "1")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if r := wait(t, "Acquire on a closed Locker", done); r.err == nil {
		t.Error("Acquire on a closed Locker succeeds")
	}
	release(t, held)
}

// What is missing is said in one line, with what to do.
func TestTrackingNeeds(t *testing.T) {
	m := miniredis.RunT(t)
	at := lock.Deployment{Nodes: []lock.Endpoint{lock.Endpoint("redis://" + m.Addr())}}
	for want, dial := range map[string]wire.Dial{
		"needs a client library with client-side caching": redigo.Dial,
		"needs a server with CLIENT TRACKING":             rueidis.Dial,
	} {
		l, err := trackingOn(t, dial).Open(t.Context(), at, lock.Config{})
		if err == nil {
			_ = l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Open: %v, want one line with %q", err, want)
		}
	}
}
