package zookeeper_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/zookeeper"
)

// behind is s as it is reached through a proxy that cuts connections, until the end
// of the test.
func behind(t *testing.T, s *server.Server) (*server.Server, fault.Proxies) {
	t.Helper()
	if racing {
		t.Skip("NOT RUN under the race detector: the client library races with itself when it connects again (conn.go, sendSetWatches); `make test` runs it")
	}
	return through(t, s)
}

// through is s as it is reached through a proxy, until the end of the test.
func through(t *testing.T, s *server.Server) (*server.Server, fault.Proxies) {
	t.Helper()
	proxies, d, err := fault.Before(s.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxies.Close() })
	return &server.Server{Kind: s.Kind, Deployment: d}, proxies
}

// A connection that is lost and comes back in time takes no lease with it.
func TestSuspended(t *testing.T) {
	s := serve(t, lock.Single)
	through, proxies := behind(t, s)
	for _, algo := range []string{"zk-ephemeral", "zk-sequential", "zk-reentrant", "zk-semaphore-mutex", "zk-rw", "zk-multi"} {
		l := open(t, through, algo, lock.Config{TTL: time.Hour, Timeout: patience})
		lease, err := l.Acquire(t.Context(), "suspended-"+algo)
		if err != nil {
			t.Fatal(err)
		}
		lost := lease.Lost()
		proxies.SetBoth(fault.Reset)
		eventually(t, "the end of all connections", func() bool { return proxies.Traffic().Open == 0 })
		at := lease.(lock.Deadliner).Deadline()
		proxies.SetBoth(fault.Pass)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("%s: the connection was lost for a moment, and Release returned %v", algo, err)
		}
		if time.Until(at) < 30*time.Minute {
			t.Errorf("%s: a session of an hour has %v left", algo, time.Until(at))
		}
		select {
		case <-lost:
			t.Errorf("%s: Lost was closed, though the session lives", algo)
		default:
		}
	}
}

// The longest session that the protocol can ask for is taken, and lasts as long as the
// server grants it; one that is longer is refused.
func TestLongestSession(t *testing.T) {
	s := serve(t, lock.Single)
	for _, v := range zookeeper.Variants() {
		if l, err := v.Open(t.Context(), s.Deployment, lock.Config{TTL: zookeeper.MaxTimeout + 1}); !errors.Is(err, lock.ErrRange) {
			t.Errorf("%s opens %v with a session beyond the protocol's: %v", v.Algo, l, err)
		}
		sent := time.Now()
		l := open(t, s, v.Algo, lock.Config{TTL: zookeeper.MaxTimeout})
		lease, err := l.Acquire(t.Context(), "longest-"+v.Algo)
		if err != nil {
			t.Fatal(err)
		}
		// The servers that the tests start grant an hour, their maxSessionTimeout.
		if lasts := lease.(lock.Deadliner).Deadline().Sub(sent); lasts < 30*time.Minute || lasts > time.Hour+patience {
			t.Errorf("%s: the lease lasts %v, and the server grants sessions of an hour", v.Algo, lasts)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A session that expires takes its leases with it, and the Locker goes on in a
// new one.
func TestExpired(t *testing.T) {
	s := serve(t, lock.Single)
	for _, algo := range []string{"zk-ephemeral", "zk-sequential", "zk-reentrant", "zk-semaphore-mutex", "zk-rw", "zk-multi"} {
		t.Run(algo, func(t *testing.T) {
			t.Parallel()
			through, proxies := behind(t, s)
			key := "expired-" + algo
			l := open(t, through, algo, lock.Config{TTL: 500 * time.Millisecond, Timeout: patience})
			lease, err := l.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			proxies.SetBoth(fault.Reset)
			select {
			case <-lease.Lost():
			case <-time.After(patience):
				t.Fatal("the session has ended, and its holder does not know")
			}
			next, err := open(t, s, algo, lock.Config{TTL: time.Minute}).Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			proxies.SetBoth(fault.Pass)
			if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
				t.Errorf("Release of a lost lease: %v", err)
			}
			waiting := start(t.Context(), l.Acquire, key)
			if a, b := next.(lock.Fenced).Token(), lease.(lock.Fenced).Token(); a <= b {
				t.Errorf("the next owner has token %d, the one before %d", a, b)
			}
			free(t, next)
			free(t, granted(t, waiting))
		})
	}
}

// A session that ends between the making of a node and the list of the queue is
// no grant: the client goes on in a new session, in which nobody is before it.
func TestPhantom(t *testing.T) {
	s := serve(t, lock.Single)
	for _, algo := range []string{"zk-sequential", "zk-reentrant", "zk-semaphore-mutex", "zk-rw", "zk-multi"} {
		t.Run(algo, func(t *testing.T) {
			t.Parallel()
			through, proxies := behind(t, s)
			look := admin(t, s)
			key := "phantom-" + algo
			path := "/" + key
			if algo == "zk-semaphore-mutex" {
				path += "/locks"
			}
			reached, resume := make(chan struct{}), make(chan struct{})
			c := lock.Config{TTL: 500 * time.Millisecond, Timeout: patience}
			c.Hook = func(_ context.Context, step string) error {
				if step == "list" && reached != nil {
					close(reached)
					reached = nil
					<-resume
				}
				return nil
			}
			here := reached
			first := start(t.Context(), open(t, through, algo, c).Acquire, key)
			<-here
			queued(t, look, path, 1)
			proxies.SetBoth(fault.Reset)
			queued(t, look, path, 0)
			next, err := open(t, s, algo, lock.Config{TTL: time.Minute}).Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			proxies.SetBoth(fault.Pass)
			close(resume)
			// It comes back into the queue.
			n := 2
			if algo == "zk-semaphore-mutex" {
				n = 1 // the holder has left it
			}
			queued(t, look, path, n)
			select {
			case g := <-first:
				locktest.Violation(t, "granted beside the holder: lease %v, error %v", g.lease, g.err)
				t.FailNow()
			default:
			}
			free(t, next)
			if lease := granted(t, first); lease == nil {
				t.Error("no lease")
			}
		})
	}
}

// A node that was made although the answer was lost is found again, and no second
// one is made.
func TestAnswerLost(t *testing.T) {
	s := serve(t, lock.Single)
	through, proxies := behind(t, s)
	look := admin(t, s)
	for _, algo := range []string{"zk-sequential", "zk-reentrant", "zk-rw", "zk-multi"} {
		l := open(t, through, algo, lock.Config{TTL: time.Hour, Timeout: patience})
		key := "answer-" + algo
		lease, err := l.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		free(t, lease)
		proxies[0].ResetNext(fault.Down)
		lease, err = l.Acquire(t.Context(), key)
		if err != nil {
			t.Fatalf("%s: %v", algo, err)
		}
		queued(t, look, "/"+key, 1)
		free(t, lease)
		queued(t, look, "/"+key, 0)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A wait that is given up takes its node along.
func TestGivenUp(t *testing.T) {
	s := serve(t, lock.Single)
	look := admin(t, s)
	for _, algo := range []string{"zk-sequential", "zk-reentrant", "zk-rw", "zk-multi"} {
		l := open(t, s, algo, lock.Config{TTL: time.Minute})
		key := "given-up-" + algo
		held, err := l.Acquire(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		waiting := start(ctx, l.Acquire, key)
		queued(t, look, "/"+key, 2)
		last := start(t.Context(), l.Acquire, key)
		queued(t, look, "/"+key, 3)
		cancel()
		if g := <-waiting; !errors.Is(g.err, context.Canceled) {
			t.Fatalf("%s: %v", algo, g.err)
		}
		list, _, err := look.Children("/" + key)
		if err != nil || len(list) != 2 {
			t.Errorf("%s: %d nodes are left of the holder and one that waits (error %v)", algo, len(list), err)
		}
		free(t, held)
		free(t, granted(t, last))
	}
}

// What the server grants to a session is what the leases of it last.
func TestNegotiated(t *testing.T) {
	s := serve(t, lock.Single)
	const most = time.Hour // of our servers
	l := open(t, s, "zk-sequential", lock.Config{TTL: 10 * most})
	lease, err := l.Acquire(t.Context(), "long")
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(lease.(lock.Deadliner).Deadline()); left > most || left < most/2 {
		t.Errorf("asked for %v of a server that grants %v, the lease has %v left", 10*most, most, left)
	}
	free(t, lease)
}

// Addresses are read as the contract of the errors wants it.
func TestAddresses(t *testing.T) {
	s := serve(t, lock.Ensemble)
	d := lock.Deployment{Kind: "zookeeper", Nodes: []lock.Endpoint{s.Deployment.Nodes[0] + "/locks/mine"}}
	below := &server.Server{Deployment: d}
	l := open(t, below, "zk-sequential", lock.Config{TTL: time.Minute})
	lease, err := l.Acquire(t.Context(), "a/b")
	if err != nil {
		t.Fatal(err)
	}
	at := admin(t, s)
	if _, err := at.Sync("/"); err != nil {
		t.Fatal(err)
	}
	if list, _, err := at.Children("/locks/mine/a%2Fb"); err != nil || len(list) != 1 {
		t.Errorf("the node of the key has %q, error %v", list, err)
	}
	free(t, lease)

	for _, c := range []struct{ address, want string }{
		{"zookeeper://:canary@127.0.0.1:1", "127.0.0.1:1: nothing listens there"},
		{"zookeeper://u:canary@" + strings.Split(hosts(s), ",")[0], "has a user"},
		{"http://127.0.0.1:1", "no URL"},
		{"zookeeper://127.0.0.1:1/a//b", "the node"},
	} {
		_, err := variant(t, "zk-sequential").Open(t.Context(), lock.Deployment{Kind: "zookeeper", Nodes: []lock.Endpoint{lock.Endpoint(c.address)}}, lock.Config{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %q", lock.Endpoint(c.address), err, c.want)
		}
	}
}

// An owner whose hold is gone does not re-enter it.
func TestReentryAfterLoss(t *testing.T) {
	s := serve(t, lock.Single)
	l := open(t, s, "zk-reentrant", lock.Config{TTL: time.Minute})
	as := l.(lock.Owned).AcquireAs
	first, err := as(t.Context(), "k", "me")
	if err != nil {
		t.Fatal(err)
	}
	inner, err := as(t.Context(), "k", "me")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := first.(lock.Fenced).Token(), inner.(lock.Fenced).Token(); a != b {
		t.Errorf("the tokens of one owner are %d and %d", a, b)
	}
	look := admin(t, s)
	list, _, err := look.Children("/k")
	if err != nil || len(list) != 1 {
		t.Fatalf("the nodes of one owner: %q, error %v", list, err)
	}
	if err := look.Delete("/k/"+list[0], -1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-inner.Lost():
	case <-time.After(patience):
		t.Fatal("the node was removed, and the owner does not know")
	}
	again, err := as(t.Context(), "k", "me")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := first.(lock.Fenced).Token(), again.(lock.Fenced).Token(); a >= b {
		t.Errorf("the lost hold had token %d, the next has %d", a, b)
	}
	for _, lease := range []lock.Lease{inner, first} {
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release of a lost hold: %v", err)
		}
	}
	_, err = l.(lock.Tryer).TryAcquire(t.Context(), "k")
	refused(t, "lost holds were released beside the next one", err)
	free(t, again)
}

// Nodes of other kinds below a key take no part in its queue.
func TestStrangers(t *testing.T) {
	s := serve(t, lock.Single)
	look := admin(t, s)
	for _, path := range []string{"/k", "/k/cond", "/k/lock-", "/k/lock-x", "/k/0000000000", "/k/other0000000000"} {
		if _, err := look.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := open(t, s, "zk-sequential", lock.Config{}).Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	free(t, lease)
}
