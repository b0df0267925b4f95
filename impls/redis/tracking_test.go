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
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/redigo"
	"github.com/lockbench/lockbench/impls/redis/rueidis"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

func trackingOn(t *testing.T, dial wire.Dial) lock.Variant {
	t.Helper()
	return redistest.Find(t, redis.Pipelined("rueidis", dial), "redis-tracking")
}

func trackingServer(t *testing.T) *server {
	t.Helper()
	return &server{redistest.StartReal(t, redistest.Client{Name: "rueidis", Dial: rueidis.Dial, Shared: true}, redis.Variants)}
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
	redistest.Until(t, n+" keys tracked", func() bool {
		return field(s.Do(t, "INFO", "stats").(string), "tracking_total_keys") == n
	})
}

// A release wakes one waiter of each process and no more, and nobody asks while
// nothing happens.
func TestTrackingWakes(t *testing.T) {
	s := trackingServer(t)
	v := trackingOn(t, s.Dial)
	var counts [3]lock.Counters
	var done []<-chan redistest.Result
	held := redistest.MustTry(t, redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour}), "k")
	const owners = 4
	for i := range counts {
		l := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour, Count: &counts[i]})
		for range owners {
			done = append(done, acquire(t.Context(), l, "k"))
		}
	}
	// Every process has asked once, for all its owners.
	redistest.Until(t, "the first of each process has asked", func() bool {
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
	redistest.Release(t, held)
	for len(done) > 0 {
		i, r := anyOf(t, done)
		done = append(done[:i], done[i+1:]...)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		redistest.Release(t, r.Lease)
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
	if got := s.Do(t, "EXISTS", "k"); got != int64(0) {
		t.Error("the key is there after the last release")
	}
}

// anyOf waits for the first of several acquisitions to end.
func anyOf(t *testing.T, list []<-chan redistest.Result) (i int, r redistest.Result) {
	t.Helper()
	redistest.Until(t, "the end of an Acquire", func() bool {
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
	l := redistest.OpenVariant(t, trackingOn(t, s.Dial), s.At, lock.Config{TTL: time.Minute})
	for name, take := range map[string]func() lock.Lease{
		"Acquire":    func() lock.Lease { return must(t, acquire(t.Context(), l, "k\x00\r\n日本")) },
		"TryAcquire": func() lock.Lease { return redistest.MustTry(t, l, "k\x00\r\n日本") },
	} {
		lease := take()
		value := s.Do(t, "GET", "k\x00\r\n日本").(string)
		if ttl := s.Do(t, "PTTL", "k\x00\r\n日本").(int64); ttl <= 0 || ttl > time.Minute.Milliseconds() {
			t.Errorf("%s: the TTL is %d ms", name, ttl)
		}
		if len(value) < 28 {
			t.Errorf("%s: the key holds %q, want a token", name, value)
		}
		s.Do(t, "SET", "k\x00\r\n日本", "another's")
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: Release of another's key: %v, want ErrLost", name, err)
		}
		if s.Do(t, "DEL", "k\x00\r\n日本") != int64(1) {
			t.Errorf("%s: Release freed another's key", name)
		}
	}
}

func must(t *testing.T, done <-chan redistest.Result) lock.Lease {
	t.Helper()
	r := redistest.Wait(t, "Acquire", done)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Lease
}

// Without any message a waiter gets in when the lease that it waited for ends.
func TestTrackingLostMessage(t *testing.T) {
	s := trackingServer(t)
	const ttl = 300 * time.Millisecond
	held := redistest.MustTry(t, redistest.OpenVariant(t, trackingOn(t, s.Dial), s.At, lock.Config{TTL: ttl}), "k")
	var count lock.Counters
	waiter := redistest.OpenVariant(t, trackingOn(t, deafenedDial), s.At, lock.Config{TTL: time.Minute, Count: &count})
	done := acquire(t.Context(), waiter, "k")
	redistest.Until(t, "the waiter has asked", func() bool { _, attempts, _ := count.Read(); return attempts > 0 })
	if err := held.Release(t.Context()); err != nil && !errors.Is(err, lock.ErrLost) {
		t.Fatal(err)
	}
	redistest.Release(t, must(t, done))
	if _, _, wakeups := count.Read(); wakeups != 0 {
		t.Errorf("%d wake-ups without a message", wakeups)
	}
}

// The loss of the connection is news of every key.
func TestTrackingReconnects(t *testing.T) {
	s := trackingServer(t)
	v := trackingOn(t, s.Dial)
	held := redistest.MustTry(t, redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour}), "k")
	var count lock.Counters
	done := acquire(t.Context(), redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour, Count: &count}), "k")
	s.armed(t, "1")
	// Every connection but the one that asks.
	s.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	redistest.Until(t, "the waiter has asked again", func() bool { _, attempts, _ := count.Read(); return attempts > 1 })
	s.armed(t, "1")
	// The connections that free are gone as well, and made anew.
	redistest.Until(t, "the release", func() bool { return held.Release(t.Context()) == nil })
	granted := must(t, done)
	redistest.Until(t, "the next release", func() bool { return granted.Release(t.Context()) == nil })
}

// A waiter whose context ends goes, and the next in its line takes its place.
func TestTrackingGivesUp(t *testing.T) {
	s := trackingServer(t)
	v := trackingOn(t, s.Dial)
	held := redistest.MustTry(t, redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour}), "k")
	var once sync.Once
	asked := make(chan struct{})
	l := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour, Hook: func(_ context.Context, step string) error {
		if step == "after-acquire" {
			once.Do(func() { close(asked) })
		}
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := acquire(ctx, l, "k")
	redistest.Wait(t, "the first attempt", asked)
	second := acquire(t.Context(), l, "k")
	cancel()
	if r := redistest.Wait(t, "the end of the wait", first); !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, lock.ErrUncertain) {
		t.Errorf("wait ended by ctx: %v, %v", r.Lease, r.Err)
	}
	redistest.Release(t, held)
	redistest.Release(t, must(t, second))

	// Close ends the waits.
	held = redistest.MustTry(t, redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Hour}), "k")
	done := acquire(t.Context(), l, "k")
	s.armed(t, "1")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if r := redistest.Wait(t, "Acquire on a closed Locker", done); r.Err == nil {
		t.Error("Acquire on a closed Locker succeeds")
	}
	redistest.Release(t, held)
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
