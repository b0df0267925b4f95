package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// The load of a soak: many keys and short holds, so that there is much to check, in as many
// processes as a fault may end some of.
const (
	soakWindow = 10 * time.Second
	soakTTL    = 10 * time.Second
	soakProcs  = 4
)

// soundUnderLoad tells the variants that keep exclusion under every fault that a soak
// strikes: no client is stopped for as long as a lease lasts, and no server loses its data
// or runs out of memory.
func soundUnderLoad(v lock.Variant) bool {
	const harmless = lock.Pause | lock.ServerClock | lock.Failover | lock.Restart | lock.ClientClock | lock.Eviction | lock.SessionEnd
	return v.Needs.Kind != "" && v.Unsafe&^harmless == 0
}

// nemesis draws the faults of one run from its seed: one after the other, each of a kind
// that v has to survive.
func nemesis(v lock.Variant, seed uint64, window time.Duration, durable, proxied bool) (plan []fault.Fault) {
	r := rand.New(rand.NewPCG(seed, 41))
	killed := 0
	for at := 500 * time.Millisecond; ; {
		lasts := time.Duration(100+r.IntN(900)) * time.Millisecond
		if at+lasts > window-time.Second {
			return plan
		}
		var f fault.Fault
		switch r.IntN(5) {
		case 0:
			f = fault.StallClient{At: at, For: lasts}
		case 1:
			f = fault.Pause{At: at, For: lasts}
		case 2:
			if proxied {
				f = fault.Cut{At: at, For: lasts}
			}
		case 3:
			if killed == 0 { // the rest of the owners goes on
				killed++
				f = fault.KillClient{At: window / 2}
			}
		case 4:
			if durable && v.Needs.Nodes <= 1 && v.Frees != lock.ByConnection { // which a restart breaks
				f = fault.Restart{At: at, For: lasts / 2}
			}
		}
		if f != nil {
			plan = append(plan, f)
		}
		at += lasts + time.Duration(200+r.IntN(800))*time.Millisecond
	}
}

// soak works the sound variants in turn under faults that are drawn from a seed, until
// the time is over and each has had its turn. It ends with the first violation, and names
// the seed that brings it about again.
func (j *safetyJob) soaked(ctx context.Context, std stdio, variants []lock.Variant, options server.Options) error {
	options.Persist = true
	b := bank{options: options, session: harness.NewID(), rigs: make(map[lock.Needs]*harness.Rig), commit: j.commit, crew: &harness.Crew{Commit: j.commit}}
	defer func() {
		if err := b.close(); err != nil {
			complain(std.err, "lockbench safety", err)
		}
	}()
	var list []lock.Variant
	for _, v := range variants {
		if !soundUnderLoad(v) {
			continue
		}
		switch _, err := b.rig(ctx, v.Needs); {
		case errors.Is(err, server.ErrMissing):
			complain(std.err, "lockbench safety", fmt.Errorf("left out %s: %w", v.Name(), err))
		case err != nil:
			return err
		default:
			list = append(list, v)
		}
	}
	if len(list) == 0 {
		return errors.New("nothing is left to soak: no lock that was asked for is sound and has a server")
	}
	end := time.Now().Add(j.soak)
	sessions, faults := int64(0), 0
	for i := 0; i < len(list) || time.Now().Before(end); i++ {
		v := list[i%len(list)]
		seed := j.seed + uint64(i)
		run, err := j.soakOnce(ctx, &b, v, seed)
		switch {
		case ctx.Err() != nil:
			say(std.out, "%d lock sessions checked under %d faults, no violation\n", sessions, faults)
			return exit{exitInterrupted, nil}
		case err != nil:
			return fmt.Errorf("%s, seed %d: %w", v.Name(), seed, err)
		}
		n := int64(run.Metrics["acq/s"] * run.Window.Seconds())
		sessions += n
		faults += len(run.Faults)
		if j.json {
			if err := json.NewEncoder(std.out).Encode(run); err != nil {
				return err
			}
		} else {
			say(std.out, "%-28s seed %-6d %7d sessions  %d faults: %v\n", v.Name(), seed, n, len(run.Faults), run.Asked)
		}
		if found := run.Metrics["violations"]; found > 0 {
			return fmt.Errorf("violation: %.0f times two owners of %s were inside; do it again with: lockbench safety -soak 1s -algo %s -seed %d",
				found, v.Name(), v.Name(), seed)
		}
	}
	say(std.out, "%d lock sessions of %d locks checked under %d faults, no violation (with 95 %% confidence fewer than %.1g of a session)\n",
		sessions, len(list), faults, 3/float64(max(sessions, 1)))
	return nil
}

// soakOnce is one run of v under the faults of seed.
func (j *safetyJob) soakOnce(ctx context.Context, b *bank, v lock.Variant, seed uint64) (results.Run, error) {
	rig, err := b.rig(ctx, v.Needs)
	if err != nil {
		return results.Run{}, err
	}
	s := rig.Server
	ours := s.Source != server.URL
	plan := nemesis(v, seed, soakWindow, ours && s.Durable != server.KeepsNothing && s.Topology() == lock.Single && s.Source == server.Binary, fault.Proxied(s.Deployment))
	t := harness.Trial{
		Variant: v, Config: lock.Config{TTL: soakTTL, Timeout: 2 * time.Second}, Seed: seed,
		Load: results.Load{
			Owners: 16, Procs: soakProcs, Keys: 16, Hold: results.Dist{Kind: "exp", Mean: 200 * time.Microsecond}, Wait: 3 * time.Second, For: soakWindow,
		},
	}
	for _, f := range plan {
		if part := f.Plan().Part; ours && len(s.Processes()) > 0 || part != fault.Servers {
			t.Faults = append(t.Faults, f)
		}
	}
	return rig.Run(ctx, t)
}
