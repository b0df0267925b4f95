package failover_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/failover"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/goredis"
)

// TestFailoverAcrossKinds has Redis, ZooKeeper and PostgreSQL behind one lock and
// kills the first two, one after the other. Each time the holder learns that it has
// lost the key, the next engine grants it, and the tokens go on growing, although
// each engine numbers its grants by itself.
func TestFailoverAcrossKinds(t *testing.T) {
	t.Parallel()
	find := func(algo, client string) lock.Variant {
		for _, v := range impls.All() {
			if v.Algo == algo && v.Client == client {
				return v
			}
		}
		t.Fatalf("there is no %s on %q", algo, client)
		return lock.Variant{}
	}
	chain := []lock.Variant{find("redis-fenced", "goredis"), find("zk-sequential", ""), find("sql-lease", "pgx")}
	kinds := []string{"redis", "zookeeper", "postgresql"}
	for i, way := range []string{"failover-drain", "failover-epoch"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			var servers []*server.Server
			var engines []failover.Engine
			for n, kind := range kinds {
				s := start(t, kind)
				servers = append(servers, s)
				engines = append(engines, failover.Engine{Name: kind, Variant: chain[n], At: s.Deployment})
			}
			agreed := start(t, "redis")
			v := failover.Variants("", failover.Health{}, failover.Authority{
				At: agreed.Deployment,
				Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (failover.Register, error) {
					r, err := redis.OpenRegister(ctx, goredis.Dial, d, c)
					if err != nil {
						return nil, err
					}
					return r, nil
				},
			}, engines...)[i+1]
			if v.Algo != way {
				t.Fatalf("%s in the place of %s", v.Algo, way)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			var lockers []lock.Locker
			for range 2 { // processes
				l, err := v.Open(ctx, lock.Deployment{}, lock.Config{TTL: 2 * time.Second, Timeout: time.Second})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := l.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
				}()
				lockers = append(lockers, l)
			}
			acquire := func(l lock.Locker) (lock.Lease, uint64) {
				t.Helper()
				for { // the failures of an engine that dies are told to the caller
					lease, err := l.Acquire(ctx, "lb:kinds")
					if err == nil {
						return lease, lease.(lock.Fenced).Token()
					}
					if ctx.Err() != nil {
						t.Fatalf("nothing was granted: %v", err)
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
			var last uint64
			for n, kind := range kinds {
				for range 3 {
					for _, l := range lockers {
						lease, token := acquire(l)
						if token <= last {
							locktest.Violation(t, "%s: token %d after %d", kind, token, last)
							t.FailNow()
						}
						last = token
						if err := lease.Release(ctx); err != nil {
							t.Fatalf("%s: Release: %v", kind, err)
						}
					}
				}
				if n == len(kinds)-1 {
					break
				}
				held, token := acquire(lockers[0])
				if _, err := servers[n].Kill(); err != nil {
					t.Fatal(err)
				}
				next, after := acquire(lockers[1])
				if after <= token {
					locktest.Violation(t, "after the death of %s: token %d after %d", kind, after, token)
					t.FailNow()
				}
				last = after
				select {
				case <-held.Lost():
				case <-ctx.Done():
					t.Fatalf("the holder on %s does not learn of the switch", kind)
				}
				if err := held.Release(ctx); !errors.Is(err, lock.ErrLost) {
					t.Errorf("Release of a lease that %s took with it: %v", kind, err)
				}
				if err := next.Release(ctx); err != nil {
					t.Errorf("Release on the engine after %s: %v", kind, err)
				}
			}
		})
	}
}
