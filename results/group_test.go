package results

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPointOf(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Point
		says   string
	}{
		{nil, Point{}, "no run"},
		{[]float64{5}, Point{Median: 5, Low: 5, High: 5, Min: 5, Max: 5, N: 1}, "one run"},
		{[]float64{9, 1}, Point{Median: 5, Low: 1, High: 9, Min: 1, Max: 9, N: 2}, "range of 2 runs"},
		{[]float64{9, 1, 2}, Point{Median: 2, Low: 1, High: 9, Min: 1, Max: 9, N: 3}, "range of 3 runs"},
		{[]float64{5, 4, 3, 2, 1}, Point{Median: 3, Low: 1, High: 5, Min: 1, Max: 5, N: 5}, "range of 5 runs"},
		{[]float64{6, 5, 4, 3, 2, 1}, Point{Median: 3.5, Low: 1, High: 6, Min: 1, Max: 6, N: 6}, "95 % interval of the median of 6 runs"},
		// The textbook interval for n = 10 is that of the 2nd and the 9th.
		{[]float64{10, 1, 9, 2, 8, 3, 7, 4, 6, 5}, Point{Median: 5.5, Low: 2, High: 9, Min: 1, Max: 10, N: 10}, "95 % interval of the median of 10 runs"},
	} {
		before := slices.Clone(c.values)
		if got := PointOf(c.values); got != c.want {
			t.Errorf("PointOf(%v) = %+v, want %+v", c.values, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("PointOf sorted its argument")
		}
		if got := c.want.Interval(); got != c.says {
			t.Errorf("n=%d: Interval = %q, want %q", c.want.N, got, c.says)
		}
	}
}

// TestOrderStatistic compares with whole numbers of any size: 2ⁿ·P(X < k) is a
// sum of binomial coefficients.
func TestOrderStatistic(t *testing.T) {
	for _, n := range []int64{1, 2, 5, 6, 7, 8, 9, 10, 20, 25, 50, 100, 999, 1000, 1001, 5000} {
		all := new(big.Int).Lsh(big.NewInt(1), uint(n))
		term, below, want := big.NewInt(1), big.NewInt(1), 1 // Σ C(n, i) for i < want
		for k := int64(1); k < n/2; k++ {
			term.Div(term.Mul(term, big.NewInt(n-k+1)), big.NewInt(k)) // C(n, k)
			below.Add(below, term)
			if new(big.Int).Mul(below, big.NewInt(40)).Cmp(all) > 0 { // P > 1/40
				break
			}
			want = int(k) + 1
		}
		got := orderStatistic(int(n))
		if off := got - want; n <= 1000 && off != 0 || off > 1 || off < -1 {
			t.Errorf("n=%d: k = %d, want %d", n, got, want)
		}
	}
}

func TestGroups(t *testing.T) {
	var runs []Run
	add := func(block int, rate float64, change func(*Run)) {
		run := sample(t, fmt.Sprint("run-", len(runs)), 100)
		run.Block, run.Metrics[AcqRate] = block, rate
		run.Time = run.Time.Add(-time.Duration(block) * time.Hour) // so that time and order differ
		run.Window += time.Duration(len(runs))                     // as achieved
		run.Server.Nodes = []string{fmt.Sprint("redis://127.0.0.1:", 7000+len(runs))}
		if change != nil {
			change(&run)
		}
		runs = append(runs, run)
	}
	owners := func(r *Run) { r.Load.Owners = 32 }
	for block, rate := range []float64{30, 10, 20} {
		add(block, rate, nil)
		add(block, rate*2, owners)
		add(block, 1000, func(r *Run) { r.Algo, r.Client, r.Server = Yardstick, "", Server{Source: "memory"} })
	}
	add(0, 1e6, func(r *Run) { r.Valid = Valid{Reasons: []string{"lag", "cpu"}} })
	add(0, 1e6, func(r *Run) { r.Valid = Valid{Reasons: []string{"lag"}} })
	add(0, 5, func(r *Run) { r.Server.Version = "7.2.0"; r.Valid = Valid{} })
	add(0, 6, func(r *Run) { r.Config = json.RawMessage(`{"ttl_ns":5}`); r.Load.Owners = 9 })
	add(0, 7, func(r *Run) { r.Env.Cores = 64; r.Load.Owners = 10 })
	before, err := json.Marshal(runs)
	if err != nil {
		t.Fatal(err)
	}

	groups := Groups(runs)
	var got []string
	for i := range groups {
		g := &groups[i]
		p := g.Points[AcqRate]
		got = append(got, fmt.Sprintf("%s %s %d: %v of %d, %d invalid, valid %v",
			g.Name(), g.Server.Version, g.Load.Owners, p.Median, p.N, g.Invalid, g.Valid()))
	}
	want := []string{
		"local-mutex  8: 1000 of 3, 0 invalid, valid true",
		"redis-token/goredis 7.0.15 9: 6 of 1, 0 invalid, valid true",
		"redis-token/goredis 7.0.15 8: 20 of 3, 2 invalid, valid true",
		"redis-token/goredis 7.0.15 32: 40 of 3, 0 invalid, valid true",
		"redis-token/goredis 7.0.15 10: 7 of 1, 0 invalid, valid true",
		"redis-token/goredis 7.2.0 8: 5 of 1, 1 invalid, valid false",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	token := groups[2]
	if want := []Reason{{"lag", 2}, {"cpu", 1}}; !slices.Equal(token.Reasons, want) {
		t.Errorf("reasons %v, want %v", token.Reasons, want)
	}
	if !slices.IsSortedFunc(token.Runs, func(a, b Run) int { return a.Time.Compare(b.Time) }) || len(token.Runs) != 5 {
		t.Error("the runs of a group are not all runs by time")
	}
	if want := []Reason{{"no reason given", 1}}; !slices.Equal(groups[5].Reasons, want) {
		t.Errorf("reasons %v, want %v", groups[5].Reasons, want)
	}
	if p := token.Points[Efficiency]; p.N != 3 || p.Median != 0.02 || p.Min != 0.01 || p.Max != 0.03 {
		t.Errorf("efficiency %+v, want 0.02 within 0.01 … 0.03", p)
	}
	if p, ok := groups[3].Points[Efficiency]; ok {
		t.Errorf("efficiency %+v where the yardstick ran under another load", p)
	}
	for metric, thin := range map[string]int{"acquire-p90-ns": 0, "acquire-p99-ns": 3, "acquire-max-ns": 0, "bypass-p50": 0, "bypass-p99": 3, AcqRate: 0} {
		if got := token.Points[metric].Thin; got != thin {
			t.Errorf("%s of 100 values: thin in %d runs, want %d", metric, got, thin)
		}
	}
	if after, err := json.Marshal(runs); err != nil || string(after) != string(before) {
		t.Error("Groups changed the runs")
	}
}

func TestRelate(t *testing.T) {
	run := func(algo, session string, block int, rate float64, ok bool) Run {
		return Run{Algo: algo, Session: session, Block: block, Metrics: Metrics{AcqRate: rate}, Valid: Valid{OK: ok}}
	}
	runs := []Run{
		run("x", "s", 0, 50, true),
		run(Yardstick, "s", 0, 100, true),
		run("x", "s", 1, 50, true), // its yardstick is not valid
		run(Yardstick, "s", 1, 100, false),
		run("x", "t", 0, 50, true), // another session
		run("x", "s", 0, 50, true), // has one already
		{Algo: "x", Session: "s"},  // no rate
		run(Yardstick, "u", 0, 0, true),
		run("x", "u", 0, 50, true), // nothing to divide by
	}
	runs[5].Metrics[Efficiency] = 0.9
	want := []float64{0.5, 1, math.NaN(), math.NaN(), math.NaN(), 0.9, math.NaN(), math.NaN(), math.NaN()}
	for i, r := range Relate(runs) {
		got, ok := r.Metrics[Efficiency]
		if ok == math.IsNaN(want[i]) || ok && got != want[i] {
			t.Errorf("run %d: efficiency %v (%v), want %v", i, got, ok, want[i])
		}
	}
	if _, ok := runs[0].Metrics[Efficiency]; ok {
		t.Error("Relate changed its argument")
	}
}

// Runs that were asked for other faults of the same kind are no repetitions of each
// other; those whose faults struck at other instants are.
func TestGroupsByFaults(t *testing.T) {
	var runs []Run
	for i, fault := range []string{"kill@100ms:1", "kill@100ms:2", "kill@100ms:2", ""} {
		run := sample(t, fmt.Sprint("run-", i), 100)
		if fault != "" {
			run.Asked = []string{fault}
			run.Faults = []Fault{{Kind: "kill", At: time.Duration(100+i) * time.Millisecond}}
		}
		runs = append(runs, run)
	}
	var got []int
	for _, g := range Groups(runs) {
		got = append(got, len(g.Runs))
	}
	slices.Sort(got)
	if !slices.Equal(got, []int{1, 1, 2}) {
		t.Errorf("groups of %v runs, want one of each trial", got)
	}
}

// A response of which more than a tenth is the harness's own lateness is an upper
// bound.
func TestAtMost(t *testing.T) {
	m := Metrics{
		"response-p50-ns": 100, "wait-p50-ns": 90, // a tenth
		"response-p99-ns": 100, "wait-p99-ns": 89,
		"response-max-ns": 100, // an older run has no wait
		"acquire-p99-ns":  100,
	}
	r := Run{Algo: "a", Metrics: m, Valid: Valid{OK: true}}
	points := Groups([]Run{r})[0].Points
	for metric, want := range map[string]bool{
		"response-p50-ns": false, "response-p99-ns": true, "response-max-ns": false, "acquire-p99-ns": false, "nosuch": false,
	} {
		if got := r.AtMost(metric); got != want || points[metric].AtMost > 0 != want {
			t.Errorf("%s: %t, in %d runs of the group; want %t", metric, got, points[metric].AtMost, want)
		}
	}
}
