package redis_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// quorum is five servers behind proxies, and a client library.
type quorum struct {
	redistest.Client
	key     string          // of this test alone
	d       lock.Deployment // through the proxies
	proxies fault.Proxies
	raw     []wire.Conn // past them
}

// eachQuorum runs test on five servers with every client library. They are real ones
// where there is a program, since nothing here rests on their clocks.
func eachQuorum(t *testing.T, test func(t *testing.T, q *quorum)) {
	t.Helper()
	d := lock.Deployment{Kind: "redis"}
	for range 5 {
		d.Nodes = append(d.Nodes, redistest.AnyEndpoint(t))
	}
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			q := &quorum{Client: a, key: a.Name}
			for _, at := range d.Nodes {
				q.raw = append(q.raw, redistest.DialConn(t, a, at, lock.Config{}))
			}
			var err error
			if q.proxies, q.d, err = fault.Before(d); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = q.proxies.Close() })
			test(t, q)
		})
	}
}

// open opens a client behind the proxies. Where c leaves it open, nothing runs out.
func (q *quorum) open(t *testing.T, c lock.Config) lock.Locker {
	t.Helper()
	c.TTL = cmp.Or(c.TTL, time.Hour)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.NodeTimeout = cmp.Or(c.NodeTimeout, c.Timeout)
	l, err := redistest.Find(t, redis.Variants(q.Name, q.Dial), "redis-redlock").Open(t.Context(), q.d, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// do sends a command to each node of at, past the proxies.
func (q *quorum) do(t *testing.T, at []int, args ...any) (replies []any) {
	t.Helper()
	for _, i := range at {
		reply, err := q.raw[i].Do(context.Background(), args...)
		if err != nil {
			t.Fatalf("node %d: %v: %v", i+1, args, err)
		}
		replies = append(replies, reply)
	}
	return replies
}

var everywhere = []int{0, 1, 2, 3, 4}

// held is how many nodes have the key.
func (q *quorum) held(t *testing.T) (n int) {
	t.Helper()
	for _, reply := range q.do(t, everywhere, "EXISTS", q.key) {
		n += int(reply.(int64))
	}
	return n
}

// becomes waits until the key is on want nodes.
func (q *quorum) becomes(t *testing.T, want int) {
	t.Helper()
	q.until(t, fmt.Sprintf("the key is on %d nodes", want), func() bool { return q.held(t) == want })
}

func (q *quorum) until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came: %s; the key is on %d nodes", what, q.held(t))
		}
	}
}

// free releases lease, which is held, and sees that no node has the key once the
// clients are closed, which waits for what they have sent.
func (q *quorum) free(t *testing.T, lease lock.Lease, clients ...lock.Locker) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	q.close(t, clients...)
	if n := q.held(t); n != 0 {
		t.Errorf("the key is on %d nodes after its release", n)
	}
}

// close closes clients and waits for what they have sent.
func (q *quorum) close(t *testing.T, clients ...lock.Locker) {
	t.Helper()
	for _, l := range clients {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// answered takes the key for l on all nodes, of which the first three have answered: the
// next answer of these is not to the SET.
func (q *quorum) answered(t *testing.T, l lock.Locker) lock.Lease {
	t.Helper()
	for _, p := range q.proxies[3:] {
		p.Set(fault.Down, fault.Hold)
	}
	lease := redistest.MustTry(t, l, q.key)
	q.proxies.SetBoth(fault.Pass)
	q.becomes(t, 5)
	return lease
}

// refuse fails the test unless TryAcquire finds the key held.
func (q *quorum) refuse(t *testing.T, l lock.Locker, when string) {
	t.Helper()
	if r := redistest.Wait(t, "TryAcquire", redistest.Try(t, l, q.key)); r.Err == nil {
		locktest.Violation(t, "a second owner got in %s", when)
		t.FailNow()
	} else if !errors.Is(r.Err, lock.ErrHeld) || errors.Is(r.Err, lock.ErrUncertain) {
		t.Errorf("TryAcquire %s: %v, want ErrHeld", when, r.Err)
	}
}

// It takes any odd number of servers from 3, and goes on without as many as it says.
func TestRedlockTolerates(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			v := redistest.Find(t, redis.Variants(a.Name, a.Dial), "redis-redlock")
			for n := range 8 {
				d := lock.Deployment{Kind: "redis"}
				var servers []*miniredis.Miniredis
				for range n {
					m := miniredis.RunT(t)
					servers = append(servers, m)
					d.Nodes = append(d.Nodes, lock.Endpoint("redis://"+m.Addr()))
				}
				l, err := v.Open(t.Context(), d, lock.Config{TTL: time.Hour, NodeTimeout: 10 * time.Second, Timeout: 10 * time.Second})
				if n < 3 || n%2 == 0 {
					if err == nil || n > 0 && !strings.Contains(err.Error(), fmt.Sprintf("and %d are given: it goes on without 1 of 3, 2 of 5", n)) {
						t.Errorf("%d nodes: %v, want an error that says what is tolerated", n, err)
					}
					continue
				}
				if err != nil {
					t.Fatalf("%d nodes: %v", n, err)
				}
				for _, m := range servers[:n/2] {
					m.Close()
				}
				lease := redistest.MustTry(t, l, "k")
				for i, m := range servers[n/2:] {
					if value, err := m.Get("k"); err != nil || !regexp.MustCompile(`^[A-Z2-7]{26}:[0-9]+$`).MatchString(value) {
						t.Errorf("%d nodes, all that are left are needed: node %d has %q, %v", n, n/2+i+1, value, err)
					}
				}
				if err := lease.Release(t.Context()); err != nil {
					t.Errorf("%d nodes: Release: %v", n, err)
				}
				servers[n/2].Close()
				if r := redistest.Wait(t, "TryAcquire", redistest.Try(t, l, "k")); r.Err == nil || errors.Is(r.Err, lock.ErrHeld) {
					t.Errorf("%d nodes without a majority: %v, %v; want an error of the service", n, r.Lease, r.Err)
				}
				for i, m := range servers[n/2+1:] {
					if m.Exists("k") {
						t.Errorf("%d nodes without a majority: node %d has the key", n, n/2+i+2)
					}
				}
				_ = l.Close()
			}
		})
	}
}

// Two nodes that are unreachable from the start are no reason to fail.
func TestRedlockOpen(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		v := redistest.Find(t, redis.Variants(q.Name, q.Dial), "redis-redlock")
		for i, want := range []bool{true, true, false} {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			q.d.Nodes[i] = lock.Endpoint("redis://" + ln.Addr().String())
			_ = ln.Close()
			l, err := v.Open(t.Context(), q.d, lock.Config{TTL: time.Hour, NodeTimeout: 30 * time.Second, Timeout: 30 * time.Second})
			if (err == nil) != want {
				t.Errorf("%d of 5 nodes away: Open returned %v", i+1, err)
			}
			if err == nil {
				q.free(t, redistest.MustTry(t, l, q.key), l)
			}
		}
	})
}

// A grant and a release wait for no node that is stalled, and what that node grants in
// the end is given back.
func TestRedlockStalled(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		l := q.open(t, lock.Config{})
		for _, i := range []int{1, 2} {
			q.proxies[i].SetBoth(fault.Hold)
		}
		lease := redistest.MustTry(t, l, q.key)
		q.until(t, "a command on its way to each stalled node", func() bool {
			return q.proxies[1].Traffic().Kept[fault.Up] > 0 && q.proxies[2].Traffic().Kept[fault.Up] > 0
		})
		if n := q.held(t); n != 3 {
			t.Errorf("the key is on %d nodes, want the 3 that are not stalled", n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release: %v", err)
		}
		q.becomes(t, 0)
		q.proxies.SetBoth(fault.Pass)
		q.close(t, l)
		if n := q.held(t); n != 0 {
			t.Errorf("a late grant stayed behind on %d nodes", n)
		}
	})
}

// With three nodes stalled the service has failed, which is not known to have left
// nothing behind. The others are clean.
func TestRedlockMajorityStalled(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		l := q.open(t, lock.Config{NodeTimeout: 100 * time.Millisecond, Timeout: 300 * time.Millisecond})
		q.becomes(t, 0)
		for _, i := range []int{0, 1, 2} {
			q.proxies[i].SetBoth(fault.Hold)
		}
		for name, acquire := range map[string]func(context.Context, string) (lock.Lease, error){
			"Acquire": l.Acquire, "TryAcquire": l.(lock.Tryer).TryAcquire,
		} {
			lease, err := acquire(t.Context(), q.key)
			if lease != nil || !errors.Is(err, lock.ErrUncertain) || errors.Is(err, lock.ErrHeld) {
				t.Errorf("%s with 3 of 5 nodes stalled: %v, %v; want an error that is uncertain", name, lease, err)
			}
			if n := q.held(t); n != 0 {
				t.Errorf("%s left the key on %d of the nodes that answer", name, n)
			}
		}
	})
}

// A majority that another owner has is refused, and what was taken elsewhere is given
// back at once; a minority keeps nobody out, wherever it is.
func TestRedlockMinority(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		for i := range 5 {
			l := q.open(t, lock.Config{})
			three, two := []int{i, (i + 2) % 5, (i + 3) % 5}, []int{i, (i + 3) % 5}
			q.do(t, three, "SET", q.key, "somebody")
			q.refuse(t, l, "while another owner has 3 of 5 nodes")
			if n := q.held(t); n != 3 {
				t.Errorf("%d nodes have the key, want the 3 of somebody", n)
			}
			q.do(t, three, "DEL", q.key)
			q.do(t, two, "SET", q.key, "somebody")
			if err := redistest.MustTry(t, l, q.key).Release(t.Context()); err != nil {
				t.Errorf("Release of 3 of 5: %v", err)
			}
			q.close(t, l)
			if n := q.held(t); n != 2 { // it frees nobody else's
				t.Errorf("%d nodes have the key, want the 2 of somebody", n)
			}
			q.do(t, two, "DEL", q.key)
		}
	})
}

// A lease is valid for its TTL from before the first SET, less the drift of the clocks.
// A majority that is known later than that is none, and is given back.
func TestRedlockValidity(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		var sent time.Time // no earlier than the attempt began
		const ttl = 100 * time.Second
		l := q.open(t, lock.Config{TTL: ttl, Hook: func(_ context.Context, step string) error {
			if step == "before-set-1" {
				sent = time.Now()
			}
			return nil
		}})
		before := time.Now()
		lease := redistest.MustTry(t, l, q.key)
		const want = ttl - time.Second - 2*time.Millisecond
		if d := lease.(lock.Deadliner).Deadline(); d.Before(before.Add(want)) || d.After(sent.Add(want)) {
			t.Errorf("the deadline is %v after the call and %v after the first SET, want %v between", d.Sub(before), d.Sub(sent), want)
		}
		q.free(t, lease, l)

		const brief = 100 * time.Millisecond
		late := q.open(t, lock.Config{TTL: brief, Hook: func(_ context.Context, step string) error {
			if step == "after-set" {
				time.Sleep(brief) // the lease, which began before, has ended
			}
			return nil
		}})
		if r := redistest.Wait(t, "TryAcquire", redistest.Try(t, late, q.key)); r.Err == nil {
			locktest.Violation(t, "a majority that was known after its lease had ended is a grant until %v", r.Lease.(lock.Deadliner).Deadline())
		} else if errors.Is(r.Err, lock.ErrHeld) || errors.Is(r.Err, lock.ErrUncertain) {
			t.Errorf("a majority that was known too late: %v; nobody else has the key, and it was given back", r.Err)
		}
		if n := q.held(t); n != 0 {
			t.Errorf("it left the key on %d nodes", n)
		}
	})
}

// Extend needs a majority that still has the key, and so does Release to say that it
// gave back what was held.
func TestRedlockExtend(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		for gone, want := range []error{nil, nil, nil, lock.ErrLost, lock.ErrLost, lock.ErrLost} {
			l := q.open(t, lock.Config{})
			lease := redistest.MustTry(t, l, q.key)
			q.becomes(t, 5) // some may come later than the grant
			q.do(t, everywhere[:gone], "DEL", q.key)
			old, before := lease.(lock.Deadliner).Deadline(), time.Now()
			err := lease.(lock.Extender).Extend(t.Context(), 100*time.Hour)
			if !errors.Is(err, want) {
				t.Errorf("Extend with %d of 5 keys gone: %v, want %v", gone, err, want)
			}
			const valid = 99*time.Hour - 2*time.Millisecond
			if d := lease.(lock.Deadliner).Deadline(); want != nil && !d.Equal(old) ||
				want == nil && (d.Before(before.Add(valid)) || d.After(time.Now().Add(valid))) {
				t.Errorf("Extend with %d of 5 keys gone: the deadline is %v away", gone, d.Sub(before))
			}
			if err := lease.Release(t.Context()); !errors.Is(err, want) {
				t.Errorf("Release with %d of 5 keys gone: %v, want %v", gone, err, want)
			}
			q.close(t, l)
			q.becomes(t, 0)
		}
		// Without the answers of a majority nothing is known, and the earlier end counts.
		l := q.open(t, lock.Config{})
		lease := q.answered(t, l)
		for i := range 3 {
			q.proxies[i].ResetNext(fault.Down)
		}
		before := time.Now()
		err := lease.(lock.Extender).Extend(t.Context(), time.Minute)
		if !errors.Is(err, lock.ErrUncertain) || errors.Is(err, lock.ErrLost) {
			t.Errorf("Extend without the answers of a majority: %v, want ErrUncertain", err)
		}
		if d := lease.(lock.Deadliner).Deadline(); d.Before(before) || d.After(time.Now().Add(time.Minute)) {
			t.Errorf("the deadline is %v away, and some nodes may have set theirs to a minute", time.Until(d))
		}
		q.free(t, lease, l)
	})
}

// A release whose answers are lost says that it is uncertain, and may be called again:
// then it finds out.
func TestRedlockReleaseLost(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		l := q.open(t, lock.Config{})
		q.free(t, redistest.MustTry(t, l, q.key), l) // every node knows the script by now
		for name, c := range map[string]struct {
			lost  fault.Direction
			left  int
			again error
		}{
			"the answers of a majority":  {fault.Down, 0, lock.ErrLost}, // its keys may have ended before
			"the commands to a majority": {fault.Up, 3, nil},
		} {
			l := q.open(t, lock.Config{})
			lease := q.answered(t, l)
			for i := range 3 {
				q.proxies[i].ResetNext(c.lost)
			}
			if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrUncertain) || errors.Is(err, lock.ErrLost) {
				t.Errorf("%s are lost: Release returned %v, want ErrUncertain", name, err)
			}
			q.becomes(t, c.left)
			if c.left > 0 { // and once more, so that a majority is what both releases freed
				q.proxies[0].ResetNext(fault.Up)
			}
			for _, want := range []error{c.again, lock.ErrLost} {
				if err := lease.Release(t.Context()); !errors.Is(err, want) {
					t.Errorf("%s were lost: Release returned %v, want %v", name, err, want)
				}
			}
			q.close(t, l)
			q.becomes(t, min(c.left, 1))
			q.do(t, []int{0}, "DEL", q.key)
		}
	})
}

// A client that is closed asks nobody.
func TestRedlockClosed(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		l := q.open(t, lock.Config{})
		lease := redistest.MustTry(t, l, q.key)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), "another"); !errors.Is(err, wire.ErrUnsent) || errors.Is(err, lock.ErrUncertain) {
			t.Errorf("Acquire after Close: %v, want ErrUnsent", err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, wire.ErrUnsent) || errors.Is(err, lock.ErrUncertain) {
			t.Errorf("Release after Close: %v, want ErrUnsent", err)
		}
		if n := q.held(t); n != 5 {
			t.Errorf("the key is on %d nodes after Close, want all", n)
		}
		q.do(t, everywhere, "DEL", q.key)
	})
}

// The flaw of a restart: of a bare majority one node forgets, and two are in.
func TestRedlockRestart(t *testing.T) {
	eachQuorum(t, func(t *testing.T, q *quorum) {
		other := q.open(t, lock.Config{})
		l := q.open(t, lock.Config{})
		q.do(t, []int{3, 4}, "SET", q.key, "somebody")
		redistest.MustTry(t, l, q.key)
		q.close(t, l) // what it has sent to the other two has come too late
		q.do(t, []int{3, 4}, "DEL", q.key)
		q.refuse(t, other, "before the restart")
		q.do(t, []int{0}, "DEL", q.key)    // what a restart without data does
		redistest.MustTry(t, other, q.key) // the flaw: both are inside
		q.do(t, everywhere, "DEL", q.key)
	})
}
