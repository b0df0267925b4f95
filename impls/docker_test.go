package impls_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// One lock of each kind of server excludes owners of two clients on a container,
// where addresses, rights and files are others than those of a program here.
func TestExclusionInContainer(t *testing.T) {
	t.Parallel()
	for kind, name := range map[string]string{
		"mysql": "sql-lease/mysql", "postgresql": "sql-lease/pgx", "zookeeper": "zk-sequential", "etcd": "etcd-mutex", "nats": "nats-kv",
	} {
		t.Run(kind, func(t *testing.T) {
			o, err := server.FromEnv()
			if err != nil {
				t.Fatal(err)
			}
			o.URLs, o.Source, o.Topologies = nil, server.Docker, nil
			for _, f := range server.Find(t.Context(), kind, o) {
				if f.Source == server.Docker && !f.OK { // it could be fetched, which a test does not do
					if required("docker") {
						t.Fatalf("LOCKBENCH_REQUIRE lists docker: %s", f.Hint)
					}
					t.Skipf("NOT RUN: %s", f.Hint)
				}
			}
			var v lock.Variant
			for _, one := range impls.All() {
				if one.Name() == name {
					v = one
				}
			}
			s, err := server.Start(t.Context(), lock.Needs{Kind: kind}, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			const owners, rounds = 4, 10 // of each client
			var inside atomic.Int32
			granted := 0 // by nothing but the lock
			var all sync.WaitGroup
			for range 2 {
				l, err := v.Open(t.Context(), s.Deployment, lock.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = l.Close() }()
				for range owners {
					all.Go(func() {
						for range rounds {
							lease, err := l.Acquire(t.Context(), "exclusion-in-container")
							if err != nil {
								t.Error(err)
								return
							}
							if n := inside.Add(1); n != 1 {
								locktest.Violation(t, "%d owners are inside at once", n)
							}
							granted++
							inside.Add(-1)
							if err := lease.Release(t.Context()); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
			}
			all.Wait()
			if want := 2 * owners * rounds; granted != want {
				t.Errorf("%d were granted, want %d", granted, want)
			}
		})
	}
}
