package impls_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/wire"
	"github.com/lockbench/lockbench/results"
)

// BenchmarkRelay asks how fast a hand-over by way of a Redis server can be at
// all, with 32 processes that hold for 1 ms. A relay is a mutex in memory that
// knows for nothing who is next, and wakes it by one message through the server:
// a lock over the same client library must do that and more. One iteration is a block of three runs: local-mutex, the relay, and
// redis-handoff. It reports the medians over the blocks of the hand-over, and
// of each one's grants beside those of local-mutex in the same block.
func BenchmarkRelay(b *testing.B) {
	srv, err := server.Start(b.Context(), lock.Needs{Kind: "redis"}, fromEnv(b))
	if errors.Is(err, server.ErrMissing) {
		b.Skip(err)
	} else if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = srv.Close() })
	if srv.Source == server.Embedded {
		b.Skip("NOT MEASURED: a message inside this process bounds nothing; install redis-server, or see `lockbench servers`")
	}
	rig := &harness.Rig{Server: srv, Session: harness.NewID()}
	var contenders []lock.Variant // local-mutex is the first of all
	for _, v := range impls.All() {
		if v.Algo == "local-mutex" || v.Algo == "redis-handoff" && v.Client == "goredis" {
			contenders = append(contenders, v)
		}
	}
	contenders = append(contenders, relayed())
	medians := make(map[string][]float64)
	for block := 1; b.Loop(); block++ {
		var yardstick float64
		for _, v := range contenders {
			run, err := rig.Run(b.Context(), harness.Trial{Variant: v, Block: block, Load: results.Load{
				Clients: 32, Owners: 32, Hold: results.Dist{Mean: time.Millisecond},
				Warmup: 300 * time.Millisecond, For: 3 * time.Second,
			}})
			if err != nil {
				b.Fatal(err)
			}
			if n := run.Metrics[results.Errors] + run.Metrics[results.Violations]; n > 0 {
				b.Fatalf("%s: %v errors and violations: %v", v.Name(), n, run.Valid.Reasons)
			}
			rate := run.Metrics[results.AcqRate]
			if yardstick == 0 {
				yardstick = rate
			}
			note := func(unit string, value float64) { medians[v.Algo+"-"+unit] = append(medians[v.Algo+"-"+unit], value) }
			note("handoff-p50-ns", run.Metrics[results.Handoff+"-p50-ns"])
			note("of-local", rate/yardstick)
		}
	}
	for name, values := range medians {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name)
	}
}

// relayed is the relay, for Lockers of one process with one owner each.
func relayed() lock.Variant {
	var lockers atomic.Int64
	line := new(relayLine)
	return lock.Variant{
		Algo: "relay", Client: "goredis", Needs: lock.Needs{Kind: "redis"},
		Keys: func(string) []string { return nil },
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			c = c.Filled()
			conn, err := goredis.Dial(ctx, d.Nodes[0], c)
			if err != nil {
				return nil, err
			}
			r := &relay{line: line, conn: conn, inbox: "relay:" + strconv.FormatInt(lockers.Add(1), 10), turn: make(chan struct{}, 1)}
			r.sub, err = conn.Subscribe(ctx, wire.Handler{Message: func(string, string) { r.turn <- struct{}{} }})
			if err == nil {
				err = r.sub.Add(ctx, r.inbox)
			}
			if err != nil {
				_ = r.Close()
				return nil, err
			}
			return r, nil
		},
	}
}

// relayLine is what the Lockers of a relay know of each other.
type relayLine struct {
	mu      sync.Mutex
	held    bool
	waiting []*relay
}

// relay is one Locker, and as long as it is held its own lease.
type relay struct {
	line  *relayLine
	conn  wire.Conn
	sub   wire.Subscription
	inbox string
	turn  chan struct{}
}

func (r *relay) Acquire(ctx context.Context, _ string) (lock.Lease, error) {
	r.line.mu.Lock()
	if !r.line.held {
		r.line.held = true
		r.line.mu.Unlock()
		return r, nil
	}
	r.line.waiting = append(r.line.waiting, r)
	r.line.mu.Unlock()
	select {
	case <-r.turn:
		return r, nil
	case <-ctx.Done():
	}
	r.line.mu.Lock()
	at := slices.Index(r.line.waiting, r)
	if at >= 0 {
		r.line.waiting = slices.Delete(r.line.waiting, at, at+1)
	}
	r.line.mu.Unlock()
	if at >= 0 {
		return nil, ctx.Err()
	}
	<-r.turn // it is on its way
	return r, nil
}

// Lost is never: nothing ends the lease of a relay.
func (r *relay) Lost() <-chan struct{} { return nil }

// Release tells the next one.
func (r *relay) Release(ctx context.Context) error {
	r.line.mu.Lock()
	if len(r.line.waiting) == 0 {
		r.line.held = false
		r.line.mu.Unlock()
		return nil
	}
	next := r.line.waiting[0]
	r.line.waiting = slices.Delete(r.line.waiting, 0, 1)
	r.line.mu.Unlock()
	_, err := r.conn.Do(ctx, "PUBLISH", next.inbox, "turn")
	return err
}

func (r *relay) Close() error {
	if r.sub != nil {
		_ = r.sub.Close()
	}
	return r.conn.Close()
}
