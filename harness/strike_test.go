package harness

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// The client processes and the network of a run are struck as planned, the run tells what
// was done, and its owners go on.
func TestFaultsOfRun(t *testing.T) {
	r := crewed(t)
	genuine(t, r)
	for text, want := range map[string]string{
		"kill-client@300ms":               "SIGKILL, and client process PID ended",
		"stall-client@300ms+200ms":        "SIGSTOP to process PID; ",
		"stall-client@300ms+200ms:holder": "of 2 holds: owner ",
		"kill-client@300ms:holder":        "of 2 holds: owner ",
		"cut@300ms+200ms":                 "drop at 1 proxies with ",
		"rtt@300ms+200ms:20ms":            "delay 10ms at 1 proxies with ",
		"restart-empty@300ms+100ms":       "started again with empty directories",
		"pause@300ms+200ms":               "all their threads have stopped; ",
		"stall-client@300ms+200ms:2":      "SIGSTOP to processes PID, ",
		"rtt@300ms+200ms:20ms,loaded":     "delay 10.5ms at 1 proxies with ",
		"pause@300ms+50ms,stall-client":   "all their threads have stopped; ",
	} {
		t.Run(text, func(t *testing.T) {
			text, more, _ := strings.Cut(text, ",")
			f, err := fault.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			plan := []fault.Fault{f}
			// What was held or not released ends with its lease of a second.
			l := results.Load{Procs: 2, Owners: 4, Hold: results.Dist{Mean: time.Millisecond}, For: 2 * time.Second}
			switch more {
			case "loaded":
				l.RTT = time.Millisecond
			case "stall-client":
				plan = append(plan, fault.StallClient{At: 500 * time.Millisecond, For: 50 * time.Millisecond})
			}
			trial := Trial{Variant: onRedis(t, "redis-token"), Load: l, Config: lock.Config{TTL: time.Second, Timeout: time.Second}, Faults: plan}
			var pid int
			run, err := r.run(t.Context(), trial, tweaks{begun: func(c *conductor) { pid = c.members[0].(*process).cmd.Process.Pid }})
			if err != nil {
				t.Fatal(err)
			}
			if n := run.Metrics[results.Violations]; n > 0 && f.Name() != "restart-empty" {
				locktest.Violation(t, "%v owners inside beside another under %s", n, f)
			}
			if len(run.Faults) != len(plan) || run.Faults[0].Kind != f.Name() || run.Faults[0].At < f.Plan().At || run.Faults[0].For < f.Plan().For {
				t.Fatalf("faults %+v, planned %s; %v", run.Faults, plan, run.Valid.Reasons)
			}
			if got := run.Faults[0].Evidence; !strings.Contains(got, strings.Replace(want, "PID", strconv.Itoa(pid), 1)) {
				t.Errorf("evidence %q, want %q of process %d", got, want, pid)
			}
			if strings.Contains(strings.Join(run.Valid.Reasons, "\n"), "did not strike as planned") {
				t.Errorf("%v", run.Valid.Reasons)
			}
			// A server that was started again counts anew, so that nobody knows what the window
			// cost it.
			if _, told := run.Metrics[results.SrvCPUPerAcq]; told != (f.Name() != "restart-empty") {
				t.Errorf("what the server has spent is told: %v", told)
			}
			last := len(run.Series.Grants) - 1
			if run.Series.Grants[last] == 0 {
				t.Errorf("nobody got in at the end: %v", run.Series.Grants)
			}
		})
	}
}

// What a run lacks for its faults is an error before it begins.
func TestFaultsRefused(t *testing.T) {
	r := crewed(t)
	genuine(t, r)
	l := results.Load{Owners: 2, Hold: results.Dist{Mean: time.Millisecond}, For: time.Second}
	trial := func(text string) Trial {
		f, err := fault.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return Trial{Variant: onRedis(t, "redis-token"), Load: l, Faults: []fault.Fault{f}}
	}
	for text, want := range map[string]error{"kill-client@0s": fault.ErrLacks, "stall-client@0s+1ms": fault.ErrLacks, "restart@0s+1ms": fault.ErrLacks, "jump@0s+1ms:1h": fault.ErrLacks, "jump-client@0s+1ms:1h": fault.ErrLacks, "park-client@0s+1ms:x": fault.ErrLacks} {
		if _, err := r.Run(t.Context(), trial(text)); !errors.Is(err, want) || !strings.HasPrefix(err.Error(), "fault: "+text[:4]) {
			t.Errorf("%s without processes and without persistence: %v", text, err)
		}
	}
	given, err := server.Start(t.Context(), lock.Needs{Kind: "redis"}, server.Options{URLs: map[string][]lock.Endpoint{"redis": r.Server.Deployment.Nodes}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = given.Close() }()
	if _, err := (&Rig{Server: given}).Run(t.Context(), trial("kill@0s")); !errors.Is(err, fault.ErrNotOurs) {
		t.Errorf("a kill of somebody else's server: %v", err)
	}
	long := trial("stall-client@500ms+1s")
	counted := trial("pause@0s+1ms")
	counted.Load.For, counted.Load.Ops = 0, 10
	for _, bad := range []Trial{long, counted} {
		if err := bad.Check(); !errors.Is(err, ErrTrial) {
			t.Errorf("%s: %v", bad.Name(), err)
		}
	}
}

// genuine skips t where the server of r is the one in this process, which nothing can
// strike, or fails it where LOCKBENCH_REQUIRE lists redis.
func genuine(t *testing.T, r *Rig) {
	t.Helper()
	if r.Server.Source != server.Embedded {
		return
	}
	if required("redis") {
		t.Fatal("LOCKBENCH_REQUIRE lists redis, but no real Redis was found")
	}
	t.Skip("NOT RUN: there is no redis here; get it with scripts/servers redis")
}

// required reports whether LOCKBENCH_REQUIRE lists what.
func required(what string) bool {
	return slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), what)
}
