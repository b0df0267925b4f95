package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

func TestPlanArrivals(t *testing.T) {
	l := results.Load{Rate: 1000, Keys: 10, Warmup: time.Second, For: 9 * time.Second, Hold: results.Dist{Kind: "exp", Mean: time.Millisecond}}.Filled()
	plan := planArrivals(l, 7)
	if !slices.Equal(plan, planArrivals(l, 7)) {
		t.Error("one seed gave two plans")
	}
	many := l
	many.Owners, many.Clients = 64, 8
	if !slices.Equal(plan, planArrivals(many, 7)) {
		t.Error("the plan depends on how many owners there are")
	}
	if slices.Equal(plan, planArrivals(l, 8)) {
		t.Error("two seeds gave one plan")
	}
	told := Trial{Load: l, Seed: 7}.Arrivals()
	if !slices.EqualFunc(plan, told, func(a arrival, b Arrival) bool { return a.due == int64(b.Due) && a.hold == int64(b.Hold) }) {
		t.Error("Arrivals tells of another plan")
	}
	// 10 000 expected, standard deviation 100.
	if n := len(plan); math.Abs(float64(n)-10_000) > 500 {
		t.Errorf("%d arrivals in 10 s at 1000/s", n)
	}
	// Exponential gaps have a coefficient of variation of 1.
	var gaps []float64
	holds := 0.0
	for i := 1; i < len(plan); i++ {
		gaps = append(gaps, float64(plan[i].due-plan[i-1].due))
		holds += float64(plan[i].hold)
	}
	mean, sd := moments(gaps)
	if math.Abs(sd/mean-1) > 0.06 {
		t.Errorf("gaps vary by %.2f of their mean, want 1", sd/mean)
	}
	if h := holds / float64(len(gaps)); math.Abs(h/1e6-1) > 0.1 {
		t.Errorf("mean hold %.0f ns, want 1 ms", h)
	}
}

func moments(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / float64(len(x))
	}
	return mean, math.Sqrt(sd)
}

func TestPickKey(t *testing.T) {
	const n, draws = 100, 200_000
	for _, skew := range []float64{0, 0.8, 1.2} {
		cdf, r := zipf(n, skew), stream(3, 0, forKeys)
		counts := make([]int, n)
		for range draws {
			counts[pickKey(r, n, cdf)]++
		}
		norm := 0.0
		for k := range n {
			norm += math.Pow(float64(k+1), -skew)
		}
		for _, k := range []int{0, 1, 9, 99} {
			want := draws * math.Pow(float64(k+1), -skew) / norm
			if math.Abs(float64(counts[k])-want) > 6*math.Sqrt(want) {
				t.Errorf("skew %v: key %d drawn %d times, want about %.0f", skew, k, counts[k], want)
			}
		}
	}
}

func TestKeyNamesStayInOneSlot(t *testing.T) {
	for _, name := range keyNames("abc", 3, false) {
		if !strings.HasPrefix(name, "lb:{abc}:") {
			t.Errorf("key %q", name)
		}
	}
	// On a cluster each has a slot of its own.
	for i, name := range keyNames("abc", 3, true) {
		if want := fmt.Sprintf("lb:abc:{%d}", i); name != want {
			t.Errorf("key %q, want %q", name, want)
		}
	}
}

func TestHoldMethod(t *testing.T) {
	for mean, want := range map[time.Duration]string{0: HoldNone, time.Microsecond: HoldSpin, spinBelow: HoldTimer, time.Second: HoldTimer} {
		if got := holdMethod(results.Load{Hold: results.Dist{Mean: mean}}); got != want {
			t.Errorf("hold %v: %q, want %q", mean, got, want)
		}
	}
}

func TestTrialCheck(t *testing.T) {
	good := Trial{Variant: nobody(), Load: results.Load{Owners: 2, For: time.Second}}
	if err := good.Check(); err != nil {
		t.Fatalf("a good trial: %v", err)
	}
	for want, change := range map[string]func(*Trial){
		"variant":  func(t *Trial) { t.Variant.Open = nil },
		"clients":  func(t *Trial) { t.Load.Clients = 3 },
		"bounds":   func(t *Trial) { t.Load.For = 0 },
		"wait=-":   func(t *Trial) { t.Load.Wait = -1 },
		"arrivals": func(t *Trial) { t.Load.Rate = 1e9 },
		"open":     func(t *Trial) { t.Load.Rate, t.Load.Ops = 1, 1 },
		"think":    func(t *Trial) { t.Load.Rate, t.Load.Think.Mean = 1, 1 },
		"own keys": func(t *Trial) { t.Load.OwnKeys, t.Load.Skew = true, 1 },
		"24h":      func(t *Trial) { t.Load.Warmup = 1<<63 - 1 },
		"owners":   func(t *Trial) { t.Load.Owners = results.MaxOwners + 1 },
		"keys":     func(t *Trial) { t.Load.Keys = results.MaxKeys + 1 },
		"rtt":      func(t *Trial) { t.Load.RTT = time.Second },
		"rtt=-1":   func(t *Trial) { t.Load.RTT = -1 },
		"shared":   func(t *Trial) { t.Load.Shared = 1.5 },
		"depth":    func(t *Trial) { t.Load.Depth = results.MaxDepth + 1 },
		"together": func(t *Trial) { t.Load.Together = 2 },
		"one of":   func(t *Trial) { t.Load.Try, t.Load.Depth = true, 1 },
		"try":      func(t *Trial) { t.Load.Try, t.Load.Rate = true, 1 },
		"cannot":   func(t *Trial) { t.Load.Shared = 0.5 },
	} {
		bad := good
		change(&bad)
		if err := bad.Check(); !errors.Is(err, ErrTrial) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestTrialName(t *testing.T) {
	trial := Trial{
		Variant: lock.Variant{Algo: "redis-token", Client: "goredis"},
		Load:    results.Load{Owners: 32, Hold: results.Dist{Mean: time.Millisecond}},
	}
	if got, want := trial.Name(), "algo=redis-token/client=goredis/owners=32/keys=1/hold=1ms"; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
	trial.Load.Clients, trial.Load.Rate, trial.Load.Skew, trial.Load.RTT = 4, 500, 0.9, 200*time.Microsecond
	trial.Config.TTL = time.Second
	if got, want := trial.Name(), "algo=redis-token/client=goredis/clients=4/owners=32/keys=1/skew=0.9/hold=1ms/rate=500/rtt=200µs/ttl=1s"; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
}

// nobody is a variant that grants everything at once and allocates nothing.
func nobody() lock.Variant {
	return lock.Variant{
		Algo: "test-none", Unsafe: lock.NoExclusion,
		Open: func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) { return free{}, nil },
	}
}

type free struct{}

func (free) Acquire(context.Context, string) (lock.Lease, error) { return free{}, nil }
func (free) Release(context.Context) error                       { return nil }
func (free) Lost() <-chan struct{}                               { return nil }
func (free) Close() error                                        { return nil }
