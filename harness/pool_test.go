package harness_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// pooled tells for each Acquire that it waited twice for a connection, for the
// times of waits.
type pooled struct {
	lock.Locker
	count *lock.Counters
	waits [2]time.Duration
}

func (p pooled) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	for _, d := range p.waits {
		p.count.Pooled(d)
	}
	return p.Locker.Acquire(ctx, key)
}

// What the client tells of its pool is stored for each grant, if it has one.
func TestPoolWaitOfEachGrant(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits [2]time.Duration
		want  float64 // ns
	}{
		{"waits", [2]time.Duration{2 * time.Millisecond, 500 * time.Microsecond}, 2.5e6},
		{"no waits", [2]time.Duration{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := variant(t, "local-mutex", "")
			open := v.Open
			v.Open = func(ctx context.Context, d lock.Deployment, config lock.Config) (lock.Locker, error) {
				l, err := open(ctx, d, config)
				return pooled{l, config.Count, c.waits}, err
			}
			l := load(1, time.Millisecond)
			l.Warmup, l.For, l.Ops = 0, 0, 100
			run, err := (&harness.Rig{}).Run(t.Context(), harness.Trial{Variant: v, Load: l})
			if err != nil {
				t.Fatal(err)
			}
			got, told := run.Metrics["pool-wait-ns/acq"]
			// One Acquire may have been under way as the window began.
			if !told || math.Abs(got-c.want) > c.want/50 {
				t.Errorf("stored %v (%t), want about %v", got, told, c.want)
			}
		})
	}
}

// A pool that is smaller than the owners makes them wait, and one that is as large
// does not: what they wait for it is told apart from the wait for the lock.
func TestPoolWaitOnDatabases(t *testing.T) {
	for kind, client := range map[string]string{"mysql": "mysql", "postgresql": "pgx"} {
		t.Run(kind, func(t *testing.T) {
			r := database(t, kind)
			for _, algo := range []string{"sql-advisory", "sql-for-update"} {
				wait := make(map[int]float64) // by the size of the pool
				for _, conns := range []int{1, 8} {
					l := load(8, time.Millisecond)
					l.Warmup, l.For = ms(200), ms(500)
					run, err := r.Run(t.Context(), harness.Trial{Variant: variant(t, algo, client), Load: l, Config: lock.Config{Conns: conns}})
					if err != nil {
						t.Fatal(err)
					}
					ns, told := run.Metrics[results.PoolWaitPerAcq]
					if !told || run.Metrics[results.Errors] != 0 {
						t.Fatalf("%s: %v of %v", algo, run.Metrics, run.Valid)
					}
					if !strings.Contains(string(run.Config), fmt.Sprintf(`"conns":%d,`, conns)) {
						t.Errorf("a pool of %d is stored as %s", conns, run.Config)
					}
					wait[conns] = ns
				}
				if wait[1] <= 0 || wait[8] > wait[1]/2 {
					t.Errorf("%s: 8 owners waited %.0f ns for a pool of 1 and %.0f ns for one of 8", algo, wait[1], wait[8])
				}
			}
		})
	}
}

// database is a rig on a server of kind, or skips.
func database(t *testing.T, kind string) *harness.Rig {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(t.Context(), lock.Needs{Kind: kind}, o)
	if errors.Is(err, server.ErrMissing) && !required(kind) {
		t.Skipf("NOT RUN: there is no %s here; get it with scripts/servers %s", kind, kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &harness.Rig{Server: s, Session: harness.NewID()}
}
