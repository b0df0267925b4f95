package harness_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/affinity"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// ours lists the CPUs of this process.
func ours(t *testing.T) []int {
	t.Helper()
	cpus, err := affinity.Of(os.Getpid())
	if errors.Is(err, affinity.ErrUnsupported) {
		t.Skip("NOT TESTED: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return cpus
}

// processes lists those of the server of r, or ends the test if they are not ours.
func processes(t *testing.T, r *harness.Rig) []int {
	t.Helper()
	pids := r.Server.PIDs()
	if len(pids) == 0 {
		if required(r.Server.Kind) {
			t.Fatalf("LOCKBENCH_REQUIRE lists %s, but the one that was found was not started here and cannot be bound", r.Server.Kind)
		}
		t.Skip("NOT TESTED: the server that was given was not started here")
	}
	return pids
}

// While a pinned trial runs, the clients and the server run where it says, and
// after that where they did before.
func TestPinned(t *testing.T) {
	all := ours(t)
	procs := runtime.GOMAXPROCS(0)
	r := rig(t, true)
	pids := processes(t, r)
	free := func(when string) {
		t.Helper()
		for _, pid := range append(slices.Clone(pids), os.Getpid()) {
			if got, err := affinity.Of(pid); err != nil || !slices.Equal(got, all) {
				t.Errorf("%s: %d runs on %v, %v, want %v", when, pid, got, err, all)
			}
		}
		if got := runtime.GOMAXPROCS(0); got != procs {
			t.Errorf("%s: GOMAXPROCS %d, want %d", when, got, procs)
		}
	}
	for _, mode := range []string{harness.PinTogether, harness.PinApart} {
		if mode == harness.PinApart && len(all) < 2 {
			if required("cpus") {
				t.Fatal("LOCKBENCH_REQUIRE lists cpus, but this process may use one only")
			}
			t.Log("NOT TESTED APART: this process may use one CPU only")
			continue
		}
		v := variant(t, "redis-token", "goredis")
		var clients, servers []int
		open := v.Open
		v.Open = func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			clients, _ = affinity.Of(os.Getpid())
			servers, _ = affinity.Of(pids[0])
			if got := runtime.GOMAXPROCS(0); got > len(clients) {
				t.Errorf("%s: GOMAXPROCS %d on CPUs %v", mode, got, clients)
			}
			return open(ctx, d, c)
		}
		l := load(2, 0)
		l.Pin = mode
		run, err := r.Run(t.Context(), harness.Trial{Variant: v, Load: l})
		if err != nil {
			t.Fatal(err)
		}
		met := slices.ContainsFunc(clients, func(cpu int) bool { return slices.Contains(servers, cpu) })
		if len(clients) == 0 || len(servers) == 0 || met != (mode == harness.PinTogether) || met && len(clients)+len(servers) != 2 {
			t.Errorf("%s: clients on %v, servers on %v", mode, clients, servers)
		}
		if run.Env.CPUs != affinity.Text(clients) || run.Env.ServerCPUs != affinity.Text(servers) || run.Env.GOMAXPROCS != procs ||
			!strings.HasSuffix(run.Trial, "/pin="+mode) || run.Metrics["acq/s"] == 0 {
			t.Errorf("%s: recorded as %s, %+v, %v", mode, run.Trial, run.Env, run.Metrics)
		}
		free("after " + mode)
	}

	// A lock in memory is bound like the others, or it would be no yardstick for them.
	l := load(2, 0)
	l.Pin = harness.PinTogether
	run, err := new(harness.Rig).Run(t.Context(), harness.Trial{Variant: variant(t, "local-mutex", ""), Load: l})
	if err != nil || strings.ContainsAny(run.Env.CPUs, ",-") || run.Env.ServerCPUs != "" {
		t.Errorf("in memory: %+v, %v", run.Env, err)
	}
	free("after a lock in memory")
}

// A server of several processes is bound with all of them, and with those that it
// starts for its clients; none stays bound.
func TestPinnedProcesses(t *testing.T) {
	all := ours(t)
	r := database(t, "postgresql")
	before := processes(t, r)
	running := func(when string, want []int) (pids []int) {
		t.Helper()
		for _, pid := range r.Server.PIDs() {
			got, err := affinity.Of(pid)
			if errors.Is(err, os.ErrProcessDone) {
				continue
			}
			pids = append(pids, pid)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %d runs on %v, %v, want %v", when, pid, got, err, want)
			}
		}
		return pids
	}
	v := variant(t, "sql-advisory", "pgx")
	open := v.Open
	v.Open = func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		locker, err := open(ctx, d, c)
		if err != nil {
			return nil, err
		}
		lease, err := locker.Acquire(ctx, "pinned") // by a process of its own
		if err != nil {
			return nil, errors.Join(err, locker.Close())
		}
		// Those that were there may be fewer by now: the server has workers that come and go.
		now := running("while the trial runs", all[len(all)-1:])
		if !slices.ContainsFunc(now, func(pid int) bool { return !slices.Contains(before, pid) }) {
			t.Errorf("processes %v with a client, %v without: none was started for it", now, before)
		}
		return locker, lease.Release(ctx)
	}
	l := load(2, 0)
	l.Pin = harness.PinTogether
	if _, err := r.Run(t.Context(), harness.Trial{Variant: v, Load: l}); err != nil {
		t.Fatal(err)
	}
	running("after it", all)
}

// What was not started here is not bound, and nothing is measured as if it were.
func TestPinNeedsServersOfOurs(t *testing.T) {
	all := ours(t)
	r := &harness.Rig{Server: &server.Server{Kind: "redis", Source: server.URL, Deployment: lock.Deployment{
		Kind: "redis", Nodes: []lock.Endpoint{"redis://u:canary@127.0.0.1:1"}}}}
	l := load(1, 0)
	l.Pin = harness.PinTogether
	_, err := r.Run(t.Context(), harness.Trial{Variant: variant(t, "redis-token", "goredis"), Load: l})
	if err == nil || !strings.Contains(err.Error(), "pin=together: only a server that lockbench starts as a process can be bound to CPUs, and this one is of the source url") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
	if got, err := affinity.Of(os.Getpid()); err != nil || !slices.Equal(got, all) {
		t.Errorf("runs on %v, %v, want %v", got, err, all)
	}
}

// A process on one CPU leaves none for its servers to be apart on.
func TestPinNeedsTwoCPUsToBeApart(t *testing.T) {
	all := ours(t)
	t.Cleanup(func() {
		if err := affinity.Set(os.Getpid(), all); err != nil {
			t.Error(err)
		}
	})
	if err := affinity.Set(os.Getpid(), all[:1]); err != nil {
		t.Fatal(err)
	}
	l := load(1, 0)
	for mode, want := range map[string]string{
		harness.PinNone: "", harness.PinTogether: "", harness.PinApart: "this process may use one CPU only",
	} {
		l.Pin = mode
		if got := new(harness.Rig).Unbindable(harness.Trial{Variant: variant(t, "local-mutex", ""), Load: l}); got != want {
			t.Errorf("pin=%s: %q, want %q", mode, got, want)
		}
	}
}
