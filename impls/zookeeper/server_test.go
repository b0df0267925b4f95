package zookeeper_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/zookeeper"
)

// patience bounds what must happen in the end.
const patience = 60 * time.Second

// lacking ends a test that cannot be run here, in vain where LOCKBENCH_REQUIRE
// lists what.
func lacking(t testing.TB, what, why string) {
	t.Helper()
	if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), what) {
		t.Fatalf("LOCKBENCH_REQUIRE lists %s: %s", what, why)
	}
	t.Skipf("NOT RUN: %s; get it with scripts/servers %s", why, what)
}

// serve starts a server until the end of the test, or skips it loudly.
func serve(t testing.TB, topology lock.Topology) *server.Server {
	t.Helper()
	o := server.Options{Source: server.Binary, Topologies: map[string]lock.Topology{"zookeeper": topology}}
	s, err := server.Start(t.Context(), lock.Needs{Kind: "zookeeper"}, o)
	if errors.Is(err, server.ErrMissing) {
		lacking(t, "zookeeper", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// hosts is the address of s as other clients of ZooKeeper read it.
func hosts(s *server.Server) string {
	return strings.TrimPrefix(s.Deployment.Nodes[0].Reveal(), "zookeeper://")
}

// open opens algo on s until the end of the test.
func open(t testing.TB, s *server.Server, algo string, c lock.Config) lock.Locker {
	t.Helper()
	l, err := variant(t, algo).Open(t.Context(), s.Deployment, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func variant(t testing.TB, algo string) lock.Variant {
	t.Helper()
	list := zookeeper.Variants()
	i := slices.IndexFunc(list, func(v lock.Variant) bool { return v.Algo == algo })
	if i < 0 {
		t.Fatalf("there is no %s", algo)
	}
	return list[i]
}

// admin is a client to look at nodes with.
func admin(t *testing.T, s *server.Server) *zk.Conn {
	t.Helper()
	c, _, err := zk.Connect(strings.Split(hosts(s), ","), 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// eventually polls until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain waited for: %s", what)
		}
	}
}

// queued waits until n nodes lie below path.
func queued(t *testing.T, c *zk.Conn, path string, n int) {
	t.Helper()
	eventually(t, "a queue below "+path, func() bool {
		list, _, err := c.Children(path)
		return err == nil && len(list) == n
	})
}

// grant is how an Acquire ended.
type grant struct {
	lease lock.Lease
	err   error
}

func start(ctx context.Context, acquire func(context.Context, string) (lock.Lease, error), key string) <-chan grant {
	c := make(chan grant, 1)
	go func() {
		lease, err := acquire(ctx, key)
		c <- grant{lease, err}
	}()
	return c
}

// granted waits for a grant.
func granted(t *testing.T, c <-chan grant) lock.Lease {
	t.Helper()
	select {
	case g := <-c:
		if g.err != nil {
			t.Fatal(g.err)
		}
		return g.lease
	case <-time.After(patience):
		t.Fatal("a waiter has waited in vain")
		return nil
	}
}

// refused fails the test unless err says that the key is held, as what has it.
func refused(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case err == nil:
		locktest.Violation(t, "%s, and ours was granted the key", what)
		t.FailNow()
	case !errors.Is(err, lock.ErrHeld):
		t.Fatalf("%s, and ours got %v", what, err)
	}
}

func free(t *testing.T, l lock.Lease) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}
