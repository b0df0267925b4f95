package harness

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// environment describes the machine, its probes, and the way to d, where the clients of
// t find their servers. What cannot be learnt stays at its zero.
func (r *Rig) environment(ctx context.Context, t Trial, d lock.Deployment) results.Env {
	env := results.Env{
		OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: firstLine("/proc/sys/kernel/osrelease"),
		CPU: cpuModel(), Cores: runtime.NumCPU(), CgroupCPUs: cgroupCPUs(),
		Governor:    firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		ClockSource: firstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
		Go:          runtime.Version(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		Commit: r.Commit, Seed: t.Seed,
	}
	machine.probe().put(&env)
	r.recordCPUs(t.Variant, &env)
	if r.Server != nil && t.Variant.Needs.Kind != "" {
		if rtt, err := r.roundTrips(ctx, t, d); err == nil && len(rtt) > 0 {
			slices.Sort(rtt)
			env.RTTp50, env.RTTp99 = int64(rtt[len(rtt)/2]), int64(rtt[len(rtt)*99/100])
		}
	}
	return env
}

// roundTrips times PINGs to the first server, through the proxy if there is one:
// 100, or as many as take a second.
func (r *Rig) roundTrips(ctx context.Context, t Trial, d lock.Deployment) (list []time.Duration, err error) {
	if t.Load.RTT == 0 {
		return r.Server.RTT(ctx, 100)
	}
	first := server.Options{Source: server.URL, URLs: map[string][]lock.Endpoint{d.Kind: d.Nodes[:1]}}
	s, err := server.Start(ctx, lock.Needs{Kind: d.Kind}, first)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.RTT(ctx, max(3, min(100, int(time.Second/t.Load.RTT))))
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// cpuModel reads the model name that Linux gives to the first CPU.
func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// cgroupCPUs is the CPU quota of this process's control group, or 0 for none.
// It looks where containers see their own group: the root of the mount.
func cgroupCPUs() float64 {
	if f := strings.Fields(firstLine("/sys/fs/cgroup/cpu.max")); len(f) == 2 { // version 2
		return ratio(f[0], f[1])
	}
	return ratio(firstLine("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), firstLine("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
}

func ratio(quota, period string) float64 {
	q, err1 := strconv.ParseFloat(quota, 64) // "max" and -1 mean no quota
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}

// probes are what was measured of the machine.
type probes struct {
	overshoot, resolution, wakeup time.Duration
}

func (p probes) put(env *results.Env) {
	env.TimerOvershoot, env.ClockResolution = int64(p.overshoot), int64(p.resolution)
	env.Wakeup = int64(p.wakeup)
}

// A prober measures the machine, which takes some 30 ms, most of it asleep. Trials
// that follow each other within fresh share the probes, or those of a grid of short
// ones would take most of its time. The zero value is ready.
type prober struct {
	mu   sync.Mutex
	at   time.Time
	last probes
}

// machine is that of all rigs.
var machine prober

// fresh is how long probes count. The machine drifts over seconds, and no window that
// says anything is as short.
const fresh = time.Second

// probe returns probes of the machine that are fresh.
func (m *prober) probe() probes {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) >= fresh {
		m.last = probes{overshoot: timerOvershoot(), resolution: clockResolution(), wakeup: wakeup()}
		m.at = time.Now()
	}
	return m.last
}

// timerOvershoot is by how much an owner's wait of 1 ms is late, at the median of
// 15; 0 if it cannot be had.
func timerOvershoot() time.Duration {
	c := newClock()
	list, _, err := newSleepers(1, c, newTimers)
	if err != nil {
		return 0
	}
	var late []int64
	for range 15 {
		at := c.now() + int64(time.Millisecond)
		list[0].until(at)
		late = append(late, c.now()-at)
	}
	if list[0].close() != nil {
		return 0
	}
	slices.Sort(late)
	return time.Duration(late[len(late)/2])
}

// clockResolution is the smallest step between two readings of the clock.
func clockResolution() time.Duration {
	least := time.Hour
	for range 1000 {
		start := time.Now()
		step := time.Since(start)
		for step == 0 {
			step = time.Since(start)
		}
		least = min(least, step)
	}
	return least
}

// wakeup is the time from a send on a channel until the receiver, parked on it,
// runs, at the median of 50. It tells runs on a busy machine from runs on an
// idle one, where waking a halted CPU costs most of a round trip.
func wakeup() time.Duration {
	c, back := make(chan time.Time), make(chan time.Duration)
	go func() {
		for sent := range c {
			back <- time.Since(sent)
		}
		close(back)
	}()
	var all []time.Duration
	for range 50 {
		time.Sleep(100 * time.Microsecond) // lets the receiver park
		c <- time.Now()
		all = append(all, <-back)
	}
	close(c)
	<-back
	slices.Sort(all)
	return all[len(all)/2]
}
