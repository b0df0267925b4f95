package plots

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// farther makes runs of the same locks on longer ways to their server: each
// takes as many round trips more as it sends commands.
func farther(t testing.TB, clients []string, owners []int, blocks int) []results.Run {
	t.Helper()
	var runs []results.Run
	for _, added := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		for _, r := range synthetic(t, clients, owners, blocks) {
			if r.Server.Kind == "" {
				if added == 0 {
					runs = append(runs, r)
				}
				continue
			}
			trips := float64(added) * math.Floor(1+float64(len(r.Algo)%4)/2)
			r.ID += added.String()
			r.Load.RTT, r.Env.RTTp50 = added, int64(40*time.Microsecond+added)
			r.Metrics[results.AcqRate] = 1e9 / (1e9/r.Metrics[results.AcqRate] + trips)
			r.Metrics[results.Acquire+"-p50-ns"] += float64(added)
			if r.Load.Owners > 1 {
				r.Metrics[results.Handoff+"-p50-ns"] += trips
			}
			runs = append(runs, r)
		}
	}
	return runs
}

// shared makes runs of locks that readers share, some well and some at the
// writers' expense, beside some that were measured without readers only.
func shared(t testing.TB, owners []int, blocks int) []results.Run {
	t.Helper()
	var runs []results.Run
	for _, share := range []float64{0, 0.5, 0.9, 0.95, 0.99, 1} {
		for _, r := range synthetic(t, []string{"goredis"}, owners, blocks) {
			writers := map[string]float64{"redis-token": 1, "redis-getset": 3, "redis-set-ex": 10}[r.Algo]
			if share > 0 && writers == 0 {
				continue
			}
			r.Load.Shared = share
			n := float64(r.Load.Owners)
			r.Metrics[results.AcqRate] *= 1 + share*share*(n-1)
			if share > 0 {
				r.Metrics[results.Readers] = share * share * n * 0.9
			}
			if share < 1 {
				r.Metrics[results.WriterWait] = r.Metrics[results.Acquire+"-max-ns"] * (1 + writers*share*share)
			}
			runs = append(runs, r)
		}
	}
	return runs
}

// swept makes every page along axis that runs hold.
func swept(t *testing.T, axis string, runs []results.Run) []*page {
	t.Helper()
	var list []*page
	for _, w := range sweeps() {
		if w.axis != axis {
			continue
		}
		for _, s := range w.sets(results.Groups(runs)) {
			for _, picture := range w.pictures(&s) {
				p, missing, err := picture()
				if err != nil || missing != "" {
					t.Fatalf("%s: %q, %v", p.name, missing, err)
				}
				p.name += s.suffix
				list = append(list, p)
			}
		}
	}
	return list
}

// loaded makes runs of an open loop whose response has a knee, judged by an SLO.
func loaded(t testing.TB, owners []int, blocks int) []results.Run {
	t.Helper()
	slo := results.SLO{{Metric: results.Response + "-p99-ns", Below: 20 * time.Millisecond}}
	var runs []results.Run
	for _, rate := range []float64{100, 200, 400, 600, 800} {
		for _, r := range synthetic(t, []string{"goredis"}, owners, blocks) {
			r.ID += count(rate)
			r.Load.Rate, r.Load.Hold.Mean = rate, time.Millisecond
			most := map[string]float64{"redis-token": 900, "redis-getset": 700}[r.Algo]
			for q, times := range map[string]float64{"p50": 0.7, "p99": 4.6, "p99.9": 6.9} {
				r.Metrics[results.Response+"-"+q+"-ns"] = times * 1e9 / max(most-rate, 20)
			}
			r.Metrics[results.AcqRate] = min(rate, most)
			says := slo.Judge(&r)
			r.SLO = &says
			runs = append(runs, r)
		}
	}
	return runs
}

func TestSweeps(t *testing.T) {
	keep := []string{"local-mutex", "local-none", "redis-token", "redis-getset", "redis-fenced"}
	some := func(runs []results.Run) []results.Run {
		return slices.DeleteFunc(runs, func(r results.Run) bool { return !slices.Contains(keep, r.Algo) })
	}
	for _, tc := range []struct {
		axis string
		runs []results.Run
		want []string
	}{
		{byRTT, some(farther(t, []string{"goredis", "redigo"}, []int{1, 32}, 2)), []string{"rtt", "rtt-owners-1"}},
		{byRate, slices.DeleteFunc(loaded(t, []int{8}, 2), func(r results.Run) bool { return r.Algo != "redis-token" && r.Algo != "redis-getset" }), []string{"load"}},
		{byShared, some(shared(t, []int{8, 32}, 2)), []string{"readwrite", "readwrite-owners-8"}},
	} {
		var names []string
		for _, p := range swept(t, tc.axis, tc.runs) {
			names = append(names, p.name)
			var b bytes.Buffer
			if err := p.dump(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, p.name+".tsv", b.Bytes())
		}
		if !slices.Equal(names, tc.want) {
			t.Errorf("drew %v, want %v", names, tc.want)
		}
	}
}

// What differs in more than the dimension of a sweep gets pictures of its own,
// and the other pictures stay apart by it.
func TestSweepsApart(t *testing.T) {
	runs := farther(t, []string{"goredis"}, []int{8}, 1)
	for _, r := range farther(t, []string{"goredis"}, []int{8}, 1) {
		r.Load.Keys = 16
		runs = append(runs, r)
	}
	var names []string
	for _, p := range swept(t, byRTT, runs) {
		names = append(names, p.name)
	}
	if want := []string{"rtt-keys-1", "rtt-keys-16"}; !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("drew %v, want %v", names, want)
	}
	if n := len(sets(results.Groups(runs))); n != 2*5 {
		t.Errorf("%d sets of the other pictures, want one for each way and number of keys", n)
	}
}

func TestDrawSweeps(t *testing.T) {
	dir := t.TempDir()
	// One way has no probe: the added times themselves place the points then.
	runs := farther(t, []string{"goredis"}, []int{8}, 1)
	for i := range runs {
		runs[i].Env.RTTp50 = 0
	}
	figures, err := Draw(t.Context(), runs, dir)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == "rtt" })
	if i < 0 || len(figures[i].Files) != 2 || figures[i].Missing != "" {
		t.Fatalf("no picture along the round trip: %+v", figures)
	}
	svg, err := os.ReadFile(figures[i].Files[0])
	if err != nil {
		t.Fatal(err)
	}
	checkSVG(t, figures[i], svg)
	if j := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == "readwrite" }); j < 0 || !strings.Contains(figures[j].Missing, "-shared") {
		t.Errorf("nothing says why readers are not drawn: %+v", figures)
	}
	text, err := os.ReadFile(filepath.Join(dir, SummaryFile))
	if err != nil || !strings.Contains(string(text), "**readwrite**: left out") || !strings.Contains(string(text), "](rtt.svg)") {
		t.Errorf("the summary does not list them: %v", err)
	}
}

// A picture of locks that can be drawn nowhere says so.
func TestSweepGaps(t *testing.T) {
	for _, w := range sweeps() {
		runs := farther(t, []string{"goredis"}, []int{8}, 1)
		switch w.axis {
		case byShared:
			runs = shared(t, []int{8}, 1)
		case byRate:
			runs = loaded(t, []int{8}, 1)
		}
		for i := range runs {
			runs[i].Metrics = nil
		}
		for _, s := range w.sets(results.Groups(runs)) {
			for _, picture := range w.pictures(&s) {
				if p, missing, err := picture(); err != nil || missing == "" || p.title == "" {
					t.Errorf("%s without a number: %q, %v", w.name, missing, err)
				}
			}
		}
	}
}
