package harness_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// inProcesses is rig with a crew.
func inProcesses(t *testing.T, c *harness.Crew) *harness.Rig {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: owners live in processes of their own on Linux only")
	}
	r := rig(t, false)
	r.Crew = c
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if left := workers(t); len(left) > 0 {
			t.Errorf("the processes %d are left of the crew", left)
		}
	})
	return r
}

// workers are the children of this process that run it again.
func workers(t *testing.T) (pids []int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, _ := os.ReadFile(task) // a thread may have ended
		for _, f := range strings.Fields(string(b)) {
			pid, _ := strconv.Atoi(f)
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && strings.Contains(exe, "harness.test") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// What was asked for is what runs, and its owners exclude each other.
func TestOwnersInProcesses(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	for _, c := range []struct{ procs, owners, clients, ran int }{
		{1, 4, 1, 1}, {4, 8, 1, 4}, {3, 8, 1, 3}, {8, 2, 1, 2}, {8, 8, 4, 2}, {0, 4, 1, 0},
	} {
		l := load(c.owners, time.Millisecond)
		l.Procs, l.Clients = c.procs, c.clients
		run, err := r.Run(t.Context(), harness.Trial{Variant: variant(t, "redis-handoff", "goredis"), Load: l})
		if err != nil {
			t.Fatal(err)
		}
		excluded(t, run)
		if run.Load.Procs != c.procs || run.Env.Processes != c.ran {
			t.Errorf("%+v: asked for %d processes, ran in %d", c, run.Load.Procs, run.Env.Processes)
		}
		grants := int64(0)
		for i, n := range run.Series.OwnerGrants {
			if grants += n; n == 0 {
				t.Errorf("%+v: owner %d was granted nothing", c, i)
			}
		}
		m := run.Metrics
		if rate := float64(grants) / run.Load.For.Seconds(); rate == 0 || m[results.AcqRate] != rate || m[results.Errors] != 0 {
			t.Errorf("%+v: %v acq/s, %v errors, and the owners have %d grants", c, m[results.AcqRate], m[results.Errors], grants)
		}
		if m[results.CmdsPerAcq] < 1.5 || run.Exact[results.Acquire].Count == 0 || run.Exact[results.Handoff].Count == 0 {
			t.Errorf("%+v: %v commands an acquire, %+v", c, m[results.CmdsPerAcq], run.Exact)
		}
	}
}

// A lock in memory stays in the process that measures.
func TestMemoryHasNoProcesses(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	l := load(4, time.Millisecond)
	l.Procs = 4
	run, err := r.Run(t.Context(), harness.Trial{Variant: variant(t, "local-mutex", ""), Load: l})
	if err != nil {
		t.Fatal(err)
	}
	if run.Env.Processes != 0 || run.Load.Procs != 4 {
		t.Errorf("asked for %d processes, ran in %d", run.Load.Procs, run.Env.Processes)
	}
	excluded(t, run)
}

// The witness sees owners of different processes inside together.
func TestOverlapAcrossProcesses(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	l := load(8, time.Millisecond)
	l.Procs = 4
	run, err := r.Run(t.Context(), harness.Trial{Variant: open(), Load: l})
	if err != nil {
		t.Fatal(err)
	}
	across := func(v results.Violation) bool { return v.Holder%4 != v.Intruder%4 }
	if run.Metrics[results.Violations] == 0 || !slices.ContainsFunc(run.Violations, across) {
		t.Errorf("%v violations, none of them across processes: %+v", run.Metrics[results.Violations], run.Violations)
	}
}

// Each owner has the same plan, in however many processes the owners live.
func TestPlanIsThatOfOneProcess(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	closed := load(8, 0)
	closed.Keys, closed.Skew = 50, 1
	const first = 50 // arrivals that are compared; a window on a busy machine may have fewer
	open := results.Load{Owners: 8, Keys: 50, Rate: 400, Warmup: ms(50), For: ms(500)}
	for name, l := range map[string]results.Load{"closed": closed, "open": open} {
		plan := func(procs int) (byOwner map[int32][]int32, due []int64) {
			l.Procs, byOwner = procs, map[int32][]int32{}
			r.Trace = func(o harness.Trace) error {
				byOwner[o.Owner] = append(byOwner[o.Owner], o.Key)
				due = append(due, o.Due)
				return nil
			}
			l.Warmup = 0 // so that the window holds each owner's first
			for {
				clear(byOwner)
				due = nil
				if _, err := r.Run(t.Context(), harness.Trial{Variant: variant(t, "redis-handoff", "goredis"), Load: l, Seed: 7}); err != nil {
					t.Fatal(err)
				}
				few := l.Rate > 0 && len(due) < 2*first
				for owner := range int32(l.Owners) {
					few = few || l.Rate == 0 && len(byOwner[owner]) < 20
				}
				if !few {
					break
				}
				l.For *= 2
			}
			slices.Sort(due)
			return byOwner, due
		}
		one, dueOne := plan(1)
		many, dueMany := plan(4)
		if name == "open" {
			// What was due in the window, but granted after it, is in no trace.
			if !slices.Equal(dueOne[:first], dueMany[:first]) {
				t.Errorf("open loop: of %d and %d arrivals the first are not the same:\n%v\n%v", len(dueOne), len(dueMany), dueOne[:first], dueMany[:first])
			}
			continue
		}
		for owner := range int32(8) {
			// The first may have been granted before the window.
			a, b := one[owner], many[owner]
			if !contains(a, b[5:15]) && !contains(b, a[5:15]) {
				t.Errorf("owner %d took the keys %v and %v", owner, a[:20], b[:20])
			}
		}
	}
}

// contains reports whether part stands in list.
func contains(list, part []int32) bool {
	for i := range list {
		if i+len(part) <= len(list) && slices.Equal(list[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// A worker that dies by itself ends the run at once, in one line, and leaves nothing; the
// next run has a new one.
func TestWorkerDies(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	l := load(8, time.Millisecond)
	l.Procs, l.For = 4, time.Minute
	trial := harness.Trial{Variant: variant(t, "redis-handoff", "goredis"), Load: l}
	node := r.Server.Deployment.Nodes[0]
	go func() {
		for len(left(t, node)) == 0 { // the owners are at work
			time.Sleep(10 * time.Millisecond)
		}
		p, _ := os.FindProcess(workers(t)[2])
		_ = p.Kill()
	}()
	_, err := r.Run(t.Context(), trial)
	if err == nil || !strings.Contains(err.Error(), "of 4: its process ") || !strings.Contains(err.Error(), "signal: killed") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("got %v", err)
	}
	if names := left(t, node); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
	trial.Load.For = ms(300)
	run, err := r.Run(t.Context(), trial)
	if err != nil || run.Env.Processes != 4 || run.Metrics[results.Errors] != 0 {
		t.Errorf("the next run: %v, %d processes", err, run.Env.Processes)
	}
	excluded(t, run)
}

// A lock that ignores its context costs its process, and no more.
func TestStubbornLockIsKilled(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	l := load(2, time.Millisecond)
	l.Procs = 2
	trial := harness.Trial{Variant: stubborn(), Load: l, Config: lock.Config{Timeout: ms(10)}}
	ctx, cancel := context.WithCancel(t.Context())
	r.Live = func(l *harness.Live) {
		if l.Waiting == 2 { // for ever; without this the grace would have to pass
			cancel()
		}
	}
	if _, err := r.Run(ctx, trial); err == nil || !strings.Contains(err.Error(), "did not return") {
		t.Fatalf("got %v", err)
	}
	r.Live = nil
	// A busy machine may let no command through in the 10 ms that were enough above.
	trial.Variant, trial.Config, trial.Load.For = variant(t, "redis-token", "goredis"), lock.Config{}, 2*time.Second
	if run, err := r.Run(t.Context(), trial); err != nil || run.Env.Processes != 2 || run.Metrics[results.AcqRate] == 0 {
		t.Errorf("the next run: %v, %d processes, %v", err, run.Env.Processes, run.Metrics)
	}
}

// A harness that is too slow for its load says so, in a closed loop and in an open one.
func TestSlowHarnessIsNotValid(t *testing.T) {
	if runtime.NumCPU() < 2 {
		if required("cpus") {
			t.Fatal("LOCKBENCH_REQUIRE lists cpus, and there is only one")
		}
		t.Skip("NOT RUN: who spins on the only processor is the limit of the machine, and not of the harness")
	}
	r := inProcesses(t, new(harness.Crew))
	hold := results.Dist{Mean: time.Millisecond}
	for _, l := range []results.Load{
		{Owners: 8, Hold: hold}, {Owners: 32, Hold: hold}, {Owners: 64, Keys: 64, Rate: 2000},
	} {
		l.Procs, l.For = 1, 1500*time.Millisecond
		run, err := r.Run(t.Context(), harness.Trial{Variant: slow(), Load: l})
		if err != nil {
			t.Fatal(err)
		}
		excluded(t, run)
		if run.Valid.OK {
			t.Errorf("%d owners, rate %v: valid, %+v", l.Owners, l.Rate, run.Metrics)
		}
	}
}

// Ctrl-C ends a run in processes, and removes its keys.
func TestInterruptedInProcesses(t *testing.T) {
	r := inProcesses(t, new(harness.Crew))
	l := load(8, time.Millisecond)
	l.Procs, l.For = 4, time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	r.Live = func(l *harness.Live) {
		if l.Acquire.Count() > 0 {
			cancel()
		}
	}
	if _, err := r.Run(ctx, harness.Trial{Variant: variant(t, "redis-token", "goredis"), Load: l}); err == nil || ctx.Err() == nil {
		t.Fatalf("got %v", err)
	}
	if names := left(t, r.Server.Deployment.Nodes[0]); len(names) > 0 {
		t.Errorf("%q are left", names)
	}
}

// A worker of another version of the protocol is refused.
func TestWorkerOfAnotherVersion(t *testing.T) {
	r := inProcesses(t, &harness.Crew{Program: []string{"sh", "-c", `echo '{"protocol": 99}' >&3; cat`}})
	l := load(2, 0)
	l.Procs = 1
	_, err := r.Run(t.Context(), harness.Trial{Variant: variant(t, "redis-token", "goredis"), Load: l})
	if err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("got %v", err)
	}
}

// A worker whose words cannot be read ends the run at once, with what was wrong in them.
func TestWorkerThatCannotBeRead(t *testing.T) {
	r := inProcesses(t, &harness.Crew{Program: []string{"sh", "-c", `echo '{"protocol": 1}' >&3; read line; echo '{"part": []}' >&3; cat`}})
	l := load(2, 0)
	l.Procs = 1
	_, err := r.Run(t.Context(), harness.Trial{Variant: variant(t, "redis-token", "goredis"), Load: l})
	if err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v", err)
	}
}

// left lists the names that runs have at the redis server e.
func left(t *testing.T, e lock.Endpoint) []string {
	t.Helper()
	o, err := goredis.ParseURL(e.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(o)
	defer func() { _ = c.Close() }()
	var names []string
	for i := c.Scan(context.WithoutCancel(t.Context()), 0, "lb:*", 1000).Iterator(); i.Next(t.Context()); {
		names = append(names, i.Val())
	}
	return names
}

// redis-py's lock, in a worker in Python, is measured beside redis-token, and excludes.
func TestWorkerInPython(t *testing.T) {
	interpreter := python(t)
	r := inProcesses(t, &harness.Crew{Program: []string{interpreter, "testdata/worker.py"}})
	l := load(4, 2*time.Millisecond)
	l.Procs, l.For = 2, time.Second
	v := variant(t, "redis-token", "goredis")
	v.Algo, v.Client = "redis-py-lock", "redis-py"
	run, err := r.Run(t.Context(), harness.Trial{Variant: v, Load: l})
	if err != nil {
		t.Fatal(err)
	}
	excluded(t, run)
	ours := *r
	ours.Crew = new(harness.Crew)
	defer func() { _ = ours.Crew.Close() }()
	beside, err := ours.Run(t.Context(), harness.Trial{Variant: variant(t, "redis-token", "goredis"), Load: l})
	if err != nil {
		t.Fatal(err)
	}
	excluded(t, beside)
	m := run.Metrics
	if m[results.AcqRate] == 0 || m[results.Errors] != 0 || m[results.CliCPUPerAcq] <= 0 || run.Exact[results.Hold].Min < int64(2*time.Millisecond) ||
		run.Exact[results.Handoff].Count == 0 || run.Env.Processes != 2 {
		t.Errorf("%+v, %+v", m, run.Exact)
	}
	t.Logf("redis-py %.0f acq/s, p50 %v; redis-token %.0f acq/s, p50 %v", m[results.AcqRate], time.Duration(m["acquire-p50-ns"]),
		beside.Metrics[results.AcqRate], time.Duration(beside.Metrics["acquire-p50-ns"]))
}

// python is an interpreter that has redis-py.
func python(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(path, "-c", "import redis").Run() == nil {
			return path
		}
	}
	if required("redis-py") {
		t.Fatal("LOCKBENCH_REQUIRE lists redis-py, but there is no python3 with redis-py")
	}
	t.Skip("NOT RUN: there is no python3 with redis-py; get it with scripts/servers redis-py")
	return ""
}
