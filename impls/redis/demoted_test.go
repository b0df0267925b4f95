package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// everyLock lists the locks that run on one client library: its connection of all
// goroutines cannot block in a BLPOP, and one library alone can track keys.
func everyLock(c redistest.Client) (list []lock.Variant) {
	for _, v := range redis.Variants(c.Name, c.Dial) {
		if v.Algo != "redis-blpop" || !c.Shared {
			list = append(list, v)
		}
	}
	if c.Name == "rueidis" {
		for _, v := range redis.Pipelined(c.Name, c.Dial) {
			if v.Algo == "redis-tracking" {
				list = append(list, v)
			}
		}
	}
	return list
}

// pair is a master and its replica, of which a relay leads to the master.
type pair struct {
	relay           *redistest.Relay
	master, replica *redistest.Server
}

func newPair(t *testing.T, c redistest.Client) *pair {
	t.Helper()
	p := &pair{master: redistest.StartReal(t, c, redis.Variants), replica: redistest.StartReal(t, c, redis.Variants)}
	p.relay = redistest.NewRelay(t, p.master.At)
	p.follow(t)
	return p
}

// follow makes the replica one of the master, and waits until it has its data.
func (p *pair) follow(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(redistest.HostPort(t, p.master.At))
	if err != nil {
		t.Fatal(err)
	}
	p.master.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", 0) // it would wait for other replicas
	p.replica.Do(t, "REPLICAOF", host, port)
	redistest.Until(t, "a replica with the data of its master", func() bool {
		return strings.Contains(p.replica.Do(t, "INFO", "replication").(string), "master_link_status:up")
	})
}

// swap makes the replica the master behind the address, and the master its replica.
func (p *pair) swap(t *testing.T) {
	t.Helper()
	p.master.Do(t, "SET", "mark", p.replica.At.Reveal())
	redistest.Until(t, "the last write at the replica", func() bool {
		return p.replica.Do(t, "GET", "mark") == p.replica.At.Reveal()
	})
	p.replica.Do(t, "REPLICAOF", "NO", "ONE")
	p.relay.Point(t, p.replica.At)
	p.master, p.replica = p.replica, p.master
	p.follow(t)
}

// most is how many errors a client may return before it has found the new master.
const most = 3

// A master that becomes a replica refuses writes, and its address leads to the next one:
// a lock goes on there after a few errors, whoever holds, waits or comes.
func TestDemotedMaster(t *testing.T) {
	for _, c := range redistest.Clients() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, c)
			for _, v := range everyLock(c) {
				if v.Needs.Nodes > 1 || v.Needs.Feature == "compare-and-delete" {
					continue // each of their servers is reached as that of redis-token is
				}
				t.Run(v.Algo, func(t *testing.T) { demote(t, p, v) })
			}
		})
	}
}

func demote(t *testing.T, p *pair, v lock.Variant) {
	var count lock.Counters
	l := redistest.OpenVariant(t, v, p.relay.At, lock.Config{})
	other := redistest.OpenVariant(t, v, p.relay.At, lock.Config{Count: &count})
	key := v.Algo // each has its own: what one that failed has left must not stop the next
	held := redistest.MustTry(t, l, key)
	var warm sync.WaitGroup // as many connections as a busy client has
	for i := range 16 {
		warm.Go(func() {
			if lease, err := l.(lock.Tryer).TryAcquire(t.Context(), fmt.Sprint(key, "-warm", i)); err == nil {
				_ = lease.Release(t.Context()) // it only has to use a connection
			}
		})
	}
	warm.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiter := redistest.Acquire(ctx, other, key)
	redistest.Until(t, "a waiter that has asked for the key", func() bool { _, n, _ := count.Read(); return n > 0 })
	queued := v.Algo == "redis-handoff" || v.Algo == "redis-cohort"
	if queued {
		redistest.Until(t, "a waiter in the queue", func() bool { return p.master.Do(t, "LLEN", wire.Beside(key, "queue")) == int64(1) })
	}
	p.swap(t)

	failed := 0
	for err := held.Release(t.Context()); err != nil; err = held.Release(t.Context()) {
		if failed++; failed > most || errors.Is(err, lock.ErrLost) {
			t.Fatalf("%d errors of Release, the last: %v", failed, err)
		}
	}
	r := redistest.Wait(t, "the waiter's grant, or its error", waiter)
	if queued && r.Err != nil { // it has sent nothing: what its process finds out is nobody's error
		t.Errorf("the waiter in the queue: %v", r.Err)
	}
	if r.Err == nil {
		failed = 0
		for err := r.Lease.Release(t.Context()); err != nil; err = r.Lease.Release(t.Context()) {
			if errors.Is(err, lock.ErrLost) {
				t.Fatalf("violation: the waiter was told of a grant that the server does not know: %v", err)
			}
			if failed++; failed > most {
				t.Fatalf("%d errors of the waiter's Release, the last: %v", failed, err)
			}
		}
	}
	for who, l := range map[string]lock.Locker{"the holder's client": l, "the waiter's client": other} {
		failed = 0
		for range 20 {
			lease, err := l.(lock.Tryer).TryAcquire(t.Context(), key+"-next")
			if err != nil {
				if failed++; failed > most {
					t.Fatalf("%s: %d errors of TryAcquire, the last: %v", who, failed, err)
				}
				continue
			}
			redistest.Release(t, lease)
		}
	}
}

// A subscription does not stay with a server that has become a replica, which would
// count its listeners no more.
func TestDemotedSubscription(t *testing.T) {
	for _, c := range redistest.Clients() {
		t.Run(c.Name, func(t *testing.T) {
			p := newPair(t, c)
			conn := redistest.DialConn(t, c, p.relay.At, lock.Config{})
			gaps := make(chan struct{}, 10)
			sub, err := conn.Subscribe(t.Context(), wire.Handler{Message: func(string, string) {}, Gap: func() { gaps <- struct{}{} }})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sub.Close() }()
			if err := sub.Add(t.Context(), "channel"); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Do(t.Context(), "PING"); err != nil { // or the next command would make the connection
				t.Fatal(err)
			}
			p.swap(t)
			if _, err := conn.Do(t.Context(), "SET", "k", "v"); !wire.NoMaster(err) {
				t.Fatalf("SET at a replica: %v", err)
			}
			redistest.Wait(t, "a new connection", gaps)
			if n := p.master.Do(t, "PUBLISH", "channel", "x"); n != int64(1) {
				t.Errorf("%v listeners at the new master", n)
			}
		})
	}
}

// Idle connections to a replica cost no error each, whatever it refuses with.
func TestDemotedPool(t *testing.T) {
	for _, c := range redistest.Clients() {
		if c.Shared {
			continue // it has one connection
		}
		t.Run(c.Name, func(t *testing.T) {
			p := newPair(t, c)
			conn := redistest.DialConn(t, c, p.relay.At, lock.Config{Conns: 16})
			var idle sync.WaitGroup
			for i := range 16 {
				idle.Go(func() { _, _ = conn.Do(t.Context(), "BLPOP", fmt.Sprint("nothing", i), "0.5") })
			}
			idle.Wait()
			p.swap(t)
			// The quotation of an error in that of a script, as before Redis 7.
			const quoted = "return redis.error_reply('ERR Error running script: @user_script:1: -READONLY You cannot write')"
			if _, err := conn.Do(t.Context(), "EVAL", quoted, 0); !wire.NoMaster(err) {
				t.Fatalf("the script at a replica: %v", err)
			}
			for i := range 16 {
				if _, err := conn.Do(t.Context(), "SET", fmt.Sprint("k", i), "v"); err != nil {
					t.Errorf("command %d after the first refusal: %v", i+1, err)
				}
			}
		})
	}
}
