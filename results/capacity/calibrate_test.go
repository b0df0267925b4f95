package capacity

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// measured is a valid run of one key at 100/s with n samples of each part, which change
// may make another.
func measured(t *testing.T, n int, change ...func(*results.Run)) *results.Run {
	t.Helper()
	r := &results.Run{
		Schema: results.Schema, ID: "run-1", Algo: "redis-handoff", Client: "goredis",
		Server:  results.Server{Kind: "redis", Product: "redis", Version: "7", Nodes: []string{"a"}},
		Config:  json.RawMessage(`{"retry":{"delay_ns":2000000,"max_ns":50000000}}`),
		Load:    results.Load{Owners: 8, Rate: 100, Hold: results.Dist{Kind: "fixed", Mean: time.Millisecond}, For: 10 * time.Second}.Filled(),
		Env:     results.Env{CPU: "a CPU", Cores: 4},
		Metrics: results.Metrics{results.AcqRate: 100, results.SrvCPUPerAcq: 40_000, results.CmdsPerAcq: 2, results.AttemptsPerAcq: 1, results.Bypass + "-p99": 1},
		Valid:   results.Valid{OK: true},
	}
	for name, d := range map[string]time.Duration{
		results.Free: 300 * time.Microsecond, results.Handoff: 200 * time.Microsecond, results.Release: 100 * time.Microsecond,
		results.Hold: 1100 * time.Microsecond, results.Acquire: 400 * time.Microsecond,
	} {
		put(t, r, name, n, d)
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// put stores n samples of d.
func put(t *testing.T, r *results.Run, name string, n int, d time.Duration) {
	t.Helper()
	h := results.NewHistogram(int64(time.Minute))
	for range n {
		if err := h.Record(int64(d)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Put(name, h); err != nil {
		t.Fatal(err)
	}
}

func calibrate(t *testing.T, runs ...*results.Run) *Model {
	t.Helper()
	m, err := Calibrate(runs)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPartsAreThoseMeasured(t *testing.T) {
	m := calibrate(t, measured(t, 200))
	p := m.parts[0]
	near(t, "free", p.free.mean, 300e3, 0.01)
	near(t, "hand-off", p.handoff.mean, 200e3, 0.01)
	near(t, "release", p.release.mean, 100e3, 0.01)
	near(t, "hold beyond what was asked", p.beyond.mean, 100e3, 0.01)
	if p.perAcq != 40_000 || p.commands != 2 || m.Cores != 1 || m.Nodes != 1 {
		t.Errorf("%+v, cores %d, nodes %d", p, m.Cores, m.Nodes)
	}
	if want := (Domain{Rate: 100, Owners: 8, Keys: 1, Least: time.Millisecond, Most: time.Millisecond}); m.Domain != want {
		t.Errorf("domain %+v, want %+v", m.Domain, want)
	}
	// A lone owner: acquire, hold and release, one after the other.
	p1 := predict(t, m, results.Load{Owners: 1, Hold: results.Dist{Mean: time.Millisecond}, For: 10 * time.Second}, Options{Plans: 2})
	near(t, "rate of a lone owner", p1.Rate.Mid, 1/1.5e-3, 0.03)
	near(t, "its wait", p1.P50.Mid, 300e3, 0.01)
}

// Cores of a server that is not single-threaded are those of the machine.
func TestCoresOfTheServer(t *testing.T) {
	m := calibrate(t, measured(t, 200, func(r *results.Run) { r.Server.Kind = "postgresql" }))
	if m.Cores != 4 {
		t.Errorf("%d cores, want 4", m.Cores)
	}
}

// The order in which waiters are served is read off the run with most hand-offs.
func TestOrderIsReadOffTheRuns(t *testing.T) {
	for want, change := range map[Order]func(*results.Run){
		FIFO:    func(*results.Run) {},
		Polling: func(r *results.Run) { r.Metrics[results.AttemptsPerAcq], r.Metrics[results.Bypass+"-p99"] = 3, 20 },
		Waking:  func(r *results.Run) { r.Metrics[results.WakeupsPerAcq], r.Metrics[results.Bypass+"-p99"] = 4, 20 },
		Quorum: func(r *results.Run) {
			r.Metrics[results.AttemptsPerAcq], r.Metrics[results.Bypass+"-p99"] = 3, 20
			r.Server.Nodes = []string{"a", "b", "c", "d", "e"}
		},
	} {
		m := calibrate(t, measured(t, 200, change))
		if m.Order != want {
			t.Errorf("%s was taken for %s", want, m.Order)
		}
		if want == Quorum && m.Nodes != 5 {
			t.Errorf("%d nodes", m.Nodes)
		}
		if want == Waking && m.parts[0].woken != 4 {
			t.Errorf("%v are woken, want 4", m.parts[0].woken)
		}
		if want == Polling && (m.retry.Delay != 2*time.Millisecond || m.retry.Max != 50*time.Millisecond) {
			t.Errorf("retry %+v", m.retry)
		}
	}
	// Who tries again because a message called does not poll.
	if m := calibrate(t, measured(t, 200, func(r *results.Run) {
		r.Metrics[results.AttemptsPerAcq], r.Metrics[results.WakeupsPerAcq] = 1.4, 0.4
	})); m.Order != FIFO {
		t.Errorf("a queue whose waiters try again when they are called was taken for %s", m.Order)
	}
	for name, change := range map[string]func(*results.Run){
		"of its own library": func(r *results.Run) {
			r.Algo = "peer-x"
			r.Metrics[results.AttemptsPerAcq], r.Metrics[results.Bypass+"-p99"] = 3, 20
		},
		"neither to poll nor to be woken": func(r *results.Run) { r.Metrics[results.Bypass+"-p99"] = 20 },
	} {
		if _, err := Calibrate([]*results.Run{measured(t, 200, change)}); !errors.Is(err, ErrNoModel) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A run under a load in which hardly anybody finds a key free has that part from another.
func TestPartsAreLent(t *testing.T) {
	busy := measured(t, 200, func(r *results.Run) {
		r.ID, r.Load.Rate, r.Metrics[results.AcqRate] = "run-2", 0, 700
		put(t, r, results.Free, 3, time.Second)
		put(t, r, results.Handoff, 500, 250*time.Microsecond)
	})
	m := calibrate(t, measured(t, 200), busy)
	near(t, "free, lent", m.parts[1].free.mean, 300e3, 0.01)
	near(t, "hand-off, its own", m.parts[1].handoff.mean, 250e3, 0.01)
	near(t, "hand-off of the other", m.parts[0].handoff.mean, 200e3, 0.01)
	if m.Domain.Rate != 700 {
		t.Errorf("domain %+v", m.Domain)
	}
	// A closed loop is predicted with the parts of the closed loop.
	if m.like(results.Load{Owners: 4, Keys: 1}) != &m.parts[1] || m.like(results.Load{Owners: 4, Keys: 1, Rate: 700}) != &m.parts[0] {
		t.Error("the parts of another kind of loop were taken")
	}
}

// What cannot make a model is refused in words that say what to do.
func TestCalibrateRefuses(t *testing.T) {
	if _, err := Calibrate(nil); err == nil {
		t.Error("a model of nothing")
	}
	for want, change := range map[string]func(*results.Run){
		"measure it again":     func(r *results.Run) { r.Schema-- },
		"it is not valid (x)":  func(r *results.Run) { r.Valid = results.Valid{Reasons: []string{"x"}} },
		"nothing was granted":  func(r *results.Run) { r.Metrics[results.AcqRate] = 0 },
		"with a fixed one":     func(r *results.Run) { r.Load.Hold.Kind = "exp" },
		"acquires of a free":   func(r *results.Run) { put(t, r, results.Free, 99, time.Millisecond) },
		"100 hand-offs":        func(r *results.Run) { put(t, r, results.Handoff, 99, time.Millisecond) },
		"handoff of run run-1": func(r *results.Run) { r.Hist[results.Handoff] = "rubbish" },
	} {
		if _, err := Calibrate([]*results.Run{measured(t, 200, change)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for name, change := range map[string]func(*results.Run){
		"preferred writers": func(r *results.Run) {
			r.Load.Shared, r.Config = 0.5, json.RawMessage(`{"writer_preference":true}`)
		},
		"bounded waits": func(r *results.Run) { r.Load.Wait = time.Second },
		"tries":         func(r *results.Run) { r.Load.Try = true },
		"re-entries":    func(r *results.Run) { r.Load.Depth = 2 },
	} {
		if _, err := Calibrate([]*results.Run{measured(t, 200, change)}); !errors.Is(err, ErrNoModel) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*results.Run){
		"another lock":    func(r *results.Run) { r.Algo = "redis-fair" },
		"another client":  func(r *results.Run) { r.Client = "redigo" },
		"another version": func(r *results.Run) { r.Server.Version = "8" },
		"another machine": func(r *results.Run) { r.Env.CPU = "another CPU" },
		"another RTT":     func(r *results.Run) { r.Load.RTT = time.Millisecond },
		"another retry":   func(r *results.Run) { r.Config = json.RawMessage(`{"retry":{"delay_ns":1}}`) },
	} {
		if _, err := Calibrate([]*results.Run{measured(t, 200), measured(t, 200, change)}); err == nil {
			t.Errorf("%s makes one model with the first", name)
		}
	}
}

// A model has measured one distance to the server, and knows no other.
func TestAnotherRTTIsRefused(t *testing.T) {
	m := calibrate(t, measured(t, 200, func(r *results.Run) { r.Load.RTT = time.Millisecond }))
	l := results.Load{Owners: 8, Rate: 100, Hold: results.Dist{Mean: time.Millisecond}, For: time.Second, RTT: time.Millisecond}
	predict(t, m, l, Options{Plans: 1})
	l.RTT = 0
	if _, err := m.Predict(t.Context(), l, Options{Plans: 1}); !errors.Is(err, ErrRange) {
		t.Errorf("%v", err)
	}
}

// Where a closed loop has seen that each grant went to an owner that waited, nobody
// passes the waiters, and a grant takes the hand-off as it was measured. Where it has not, the
// owner that has just released may be quicker than they are.
func TestPassing(t *testing.T) {
	waking := func(handed int) func(*results.Run) {
		return func(r *results.Run) {
			r.Metrics[results.WakeupsPerAcq], r.Metrics[results.Bypass+"-p99"] = 1, 20
			put(t, r, results.Handoff, handed, 3*time.Millisecond)
		}
	}
	closed := func(r *results.Run) { r.Load.Rate = 0 }
	l := results.Load{Owners: 8, Hold: results.Dist{Mean: time.Millisecond}, For: 10 * time.Second}
	kept := calibrate(t, measured(t, 200, waking(196), closed))
	near(t, "rate where nobody passes", predict(t, kept, l, Options{Plans: 2}).Rate.Mid, 1/4.1e-3, 0.03) // held for 1.1 ms
	for what, m := range map[string]*Model{
		"many passed": calibrate(t, measured(t, 200, waking(150), closed)),
		"not seen":    calibrate(t, measured(t, 200, waking(196))),
	} {
		if rate := predict(t, m, l, Options{Plans: 2}).Rate.Mid; rate < 1.5/4.1e-3 {
			t.Errorf("%s: %.0f grants a second, as if nobody passed", what, rate)
		}
	}
}

// A herd costs commands, and never wakes more than wait.
func TestHerd(t *testing.T) {
	l := results.Load{Owners: 16, Hold: results.Dist{Mean: time.Millisecond}, For: 10 * time.Second, Warmup: time.Second}
	commands := func(woken float64) float64 {
		m := ideal(Waking)
		m.parts[0].free, m.parts[0].handoff, m.parts[0].release = always(100*time.Microsecond), always(150*time.Microsecond), always(80*time.Microsecond)
		m.parts[0].woken = woken
		return predict(t, m, l, Options{Plans: 2}).Commands
	}
	one, eight, all := commands(1), commands(8), commands(1000)
	// Each grant takes a release, an ask of the one who gets in, and one of each other.
	if one >= 4 || eight < one+6 || all > 18 || all < 14 {
		t.Errorf("%.1f, %.1f and %.1f commands for a grant", one, eight, all)
	}
}

// What a herd asks is part of the measured cost of a grant, also where the server does not
// count commands: it must not fill the server beside it.
func TestHerdSharesTheMeasuredCost(t *testing.T) {
	m := ideal(Waking)
	m.parts[0].free, m.parts[0].handoff, m.parts[0].release = always(100*time.Microsecond), always(150*time.Microsecond), always(80*time.Microsecond)
	m.parts[0].woken, m.parts[0].perAcq = 8, 400_000
	p := predict(t, m, results.Load{Owners: 16, Hold: results.Dist{Mean: time.Millisecond}, For: 10 * time.Second, Warmup: time.Second}, Options{Plans: 2})
	near(t, "use of the server", p.Server, p.Rate.Mid*400e-6, 0.25)
}
