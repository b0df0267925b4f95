package failover_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// patience bounds what must happen in the end, on however busy a machine.
const patience = 2 * time.Minute

// start starts a server of kind from the installed program until the end of t, or skips
// t loudly. What LOCKBENCH_REQUIRE lists must not be skipped.
func start(t *testing.T, kind string) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), lock.Needs{Kind: kind}, programs(t))
	switch {
	case errors.Is(err, server.ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), kind):
		t.Skipf("NOT RUN: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// programs are the options that start servers from installed programs, whatever
// addresses are given: they are killed.
func programs(t *testing.T) server.Options {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	o.URLs, o.Topologies, o.Source = nil, nil, server.Binary
	return o
}

// TestFailoverKills kills the primary Redis under load, again and again, each time
// with a holder who goes on as long as its lease lets it. Grants must resume on the
// standby. Drain and epoch must let no stale effect through; naive must be seen to.
//
// The primary comes back empty, and locks go back to it by Switch, so that the
// tokens of one engine begin again at 1 in each round.
func TestFailoverKills(t *testing.T) {
	t.Parallel()
	chains, kills := 5, 10
	if testing.Short() {
		chains, kills = 2, 3
	}
	o := programs(t)
	for _, c := range []struct {
		algo string
		ttl  time.Duration
		// What a fenced resource accepts after it was offered something newer, and
		// that nothing is granted before another owner's lease has ended.
		stale, excludes bool
		// How long nobody is granted anything, at most: what the health asks for and
		// the attempt after it, 0.6 s together; some commands; and the drain, which is
		// 1.01 times 1.25 ttl.
		bound time.Duration
	}{
		// The leases have to outlast the detection, however busy the machine is, for
		// the harm to be seen.
		{"failover-naive", 4 * time.Second, true, false, time.Second},
		{"failover-drain", time.Second, false, true, time.Second + 1270*time.Millisecond},
		{"failover-epoch", 4 * time.Second, false, false, time.Second},
	} {
		t.Run(c.algo, func(t *testing.T) {
			t.Parallel()
			standby := start(t, "redis")
			authority := start(t, "redis")
			var sum tally
			var all sync.WaitGroup
			for n := range chains {
				all.Go(func() {
					r := &rounds{
						t: t, o: o, variant: named(t, c.algo), config: lock.Config{TTL: c.ttl, Conns: 4, Group: fmt.Sprintf("chain-%d:", n)},
						standby: standby, authority: authority, sum: &sum, key: fmt.Sprintf("lb:{kill-%d}:k", n),
						resource: new(resource),
					}
					for k := range kills {
						if c.algo == "failover-naive" {
							// The standby would have the larger tokens from the second
							// round on, by chance, and the harm would be another: that
							// all effects on the primary are refused.
							r.key, r.resource = fmt.Sprintf("lb:{kill-%d-%d}:k", n, k), new(resource)
						}
						if !r.round(k) {
							return
						}
					}
				})
			}
			all.Wait()
			t.Logf("%s: %d kills; grants resumed after %v on average, %v at most (stated: %v); %d grants, %d leases lost, "+
				"%d grants before the end of a lease, %d stale effects accepted, %d fresh ones refused",
				c.algo, sum.kills.Load(), time.Duration(sum.resumed.Load()/max(1, sum.kills.Load())).Round(time.Millisecond),
				time.Duration(sum.longest.Load()).Round(time.Millisecond), c.bound, sum.grants.Load(), sum.lost.Load(),
				sum.early.Load(), sum.stale.Load(), sum.refused.Load())
			if got := sum.kills.Load(); got != int64(chains*kills) {
				t.Errorf("%d kills, want %d", got, chains*kills)
			}
			if early := sum.early.Load(); early > 0 && c.excludes {
				locktest.Violation(t, "%d grants before the end of another's lease", early)
			}
			switch stale := sum.stale.Load(); {
			case stale > 0 && !c.stale:
				locktest.Violation(t, "%d stale effects were accepted", stale)
			case stale == 0 && c.stale:
				t.Error("no stale effect was accepted: the harm was not seen")
			}
			if refused := sum.refused.Load(); !c.stale && refused > 0 {
				t.Errorf("%d effects of the newest owner were refused", refused)
			}
		})
	}
}

// named finds a variant on goredis.
func named(t *testing.T, algo string) lock.Variant {
	t.Helper()
	for _, v := range impls.All() {
		if v.Algo == algo && v.Client == "goredis" {
			return v
		}
	}
	t.Fatalf("there is no %s", algo)
	return lock.Variant{}
}

// tally is what all rounds of a variant have come to.
type tally struct {
	kills, grants, lost, early, stale, refused atomic.Int64

	resumed, longest atomic.Int64 // ns without a grant after a kill: their sum, the longest
}

// rounds are those on one key, one after the other.
type rounds struct {
	t                  *testing.T
	o                  server.Options
	variant            lock.Variant
	config             lock.Config
	standby, authority *server.Server
	sum                *tally
	key                string
	resource           *resource
	moments            atomic.Int64 // numbers calls and returns
}

// A scene is one round: processes that work on the key, and a kill.
type scene struct {
	*rounds
	before  atomic.Int64 // grants before the kill
	after   atomic.Int64 // and after it
	killed  atomic.Pointer[time.Time]
	resumed atomic.Int64 // ns from the kill to the next grant

	mu     sync.Mutex
	inside map[lock.Lease]bool // whose owners have not called Release; true if granted before the kill
}

// round starts a primary, lets four processes work, kills it while one of them is
// inside, and goes on until that one knows and the others have worked on without it.
// It reports whether that came to be.
func (r *rounds) round(n int) bool {
	primary, err := server.Start(r.t.Context(), lock.Needs{Kind: "redis"}, r.o)
	if err != nil {
		r.t.Errorf("round %d: %v", n, err)
		return false
	}
	defer func() {
		if err := primary.Close(); err != nil {
			r.t.Errorf("round %d: %v", n, err)
		}
	}()
	d := lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{
		primary.Deployment.Nodes[0], r.standby.Deployment.Nodes[0], r.authority.Deployment.Nodes[0],
	}[:r.variant.Needs.Nodes]}
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*patience)
	defer cancel()
	s := &scene{rounds: r, inside: make(map[lock.Lease]bool)}
	var lockers []lock.Locker
	defer func() {
		for _, l := range lockers {
			if err := l.Close(); err != nil {
				r.t.Errorf("round %d: Close: %v", n, err)
			}
		}
	}()
	// The first one only leads back to the primary: those that are opened then know.
	for i := range 5 {
		l, err := r.variant.Open(ctx, d, r.config)
		if err != nil {
			r.t.Errorf("round %d: %v", n, err)
			return false
		}
		lockers = append(lockers, l)
		if i > 0 {
			continue
		}
		if err := l.(lock.Switcher).Switch(ctx, "primary"); err != nil {
			r.t.Errorf("round %d: back to the primary: %v", n, err)
			return false
		}
	}
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for _, l := range lockers[1:] {
		workers.Go(func() {
			for working.Err() == nil {
				s.work(working, l)
			}
		})
	}
	defer workers.Wait()
	defer stop()

	const enough = 20
	until := func(what string, f func() bool) bool {
		for !f() {
			if ctx.Err() != nil {
				r.t.Errorf("round %d: %s: not within %v", n, what, 2*patience)
				return false
			}
			time.Sleep(time.Millisecond)
		}
		return true
	}
	if !until("grants on the primary", func() bool { return s.before.Load() >= enough && s.held() }) {
		return false
	}
	now := time.Now()
	s.killed.Store(&now)
	if err := primary.Processes()[0].Signal(os.Kill); err != nil {
		r.t.Errorf("round %d: kill: %v", n, err)
		return false
	}
	if !until("grants after the kill", func() bool { return s.after.Load() >= enough && !s.held() }) {
		return false
	}
	r.sum.kills.Add(1)
	took := s.resumed.Load()
	r.sum.resumed.Add(took)
	for {
		longest := r.sum.longest.Load()
		if took <= longest || r.sum.longest.CompareAndSwap(longest, took) {
			break
		}
	}
	return true
}

// held reports whether somebody is inside, who was granted the key before the kill.
func (s *scene) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.inside {
		if old {
			return true
		}
	}
	return false
}

// work is one call, and what its owner does with the key: some writes, or, if the
// primary dies meanwhile, as many as the lease allows.
func (s *scene) work(ctx context.Context, l lock.Locker) {
	// Waits are short, so that there is an order between the owner inside and the
	// calls that come after it.
	wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond))
	defer cancel()
	g := entry{called: s.moments.Add(1)}
	alive := s.killed.Load() == nil
	lease, err := l.Acquire(wait, s.key)
	if err != nil {
		return // a time-out, or an engine that is down
	}
	s.sum.grants.Add(1)
	at := time.Now()
	g.returned, g.token = s.moments.Add(1), lease.(lock.Fenced).Token()
	s.enter(lease, at)
	killed := s.killed.Load()
	switch {
	case killed == nil:
		s.before.Add(1)
	case !alive: // who called before the kill may have been granted the primary's
		s.resumed.CompareAndSwap(0, int64(at.Sub(*killed)))
		s.after.Add(1)
	}
	guarded, done := lock.Guard(ctx, lease)
	defer done()
	for n := 0; guarded.Err() == nil && (n < 3 || killed == nil && s.killed.Load() != nil); n++ {
		accepted, stale := s.resource.write(g)
		if stale {
			s.sum.stale.Add(1)
		}
		if !accepted && s.resource.fresh(g) {
			s.sum.refused.Add(1)
		}
		time.Sleep(time.Millisecond)
	}
	if guarded.Err() != nil && ctx.Err() == nil {
		s.sum.lost.Add(1)
	}
	s.mu.Lock()
	delete(s.inside, lease)
	s.mu.Unlock()
	_ = lease.Release(context.WithoutCancel(ctx)) // its engine may be dead
}

// enter counts the others whose lease lasts beyond at, when this one was granted.
func (s *scene) enter(lease lock.Lease, at time.Time) {
	const slack = 20 * time.Millisecond // of the server's clock, as in the conformance suite
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.inside {
		if other.(lock.Deadliner).Deadline().After(at.Add(slack)) {
			s.sum.early.Add(1)
		}
	}
	s.inside[lease] = s.killed.Load() == nil
}

// An entry is one grant. One came after another if it was called after the other
// had returned.
type entry struct {
	called, returned int64
	token            uint64
}

// A resource remembers the newest token that has written to it and refuses older
// ones. Beside that it knows the truth, by which it is judged.
type resource struct {
	mu       sync.Mutex
	newest   uint64
	offered  int64 // the latest call of those that have tried to write
	returned int64 // the latest return of those that have been accepted
}

// write reports whether an effect of g is accepted, and whether it should not have
// been: an owner who came after g has been here.
func (r *resource) write(g entry) (accepted, stale bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	accepted = g.token >= r.newest
	stale = accepted && r.offered > g.returned
	r.offered = max(r.offered, g.called)
	if accepted {
		r.newest, r.returned = g.token, max(r.returned, g.returned)
	}
	return accepted, stale
}

// fresh reports whether g came after everybody who has been accepted.
func (r *resource) fresh(g entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return g.called > r.returned
}
