package compare

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/lockbench/lockbench/results"
)

// A Noise is what a machine measured of the same trials again and again: how far it
// differs from itself.
type Noise struct {
	across []string
	trials map[string][]*results.Run // valid, by identity
}

// splits is how often blocks are divided into two halves that are compared.
const splits = 200

// fewestHalf is the least number of blocks of a half that tells anything.
const fewestHalf = 2

// NoiseOf takes the noise from the blocks of runs. Across are the dimensions that do not
// keep runs apart.
func NoiseOf(runs []results.Run, across []string) *Noise {
	n := &Noise{across: across, trials: make(map[string][]*results.Run)}
	runs = results.Relate(runs)
	slices.SortStableFunc(runs, func(a, b results.Run) int { return a.Time.Compare(b.Time) })
	for i := range runs {
		if r := &runs[i]; r.Valid.OK {
			id := identity(r, across)
			n.trials[id] = append(n.trials[id], r)
		}
	}
	return n
}

// Band is the effect, as a share of 1, below which 95 of 100 comparisons of as many pairs
// stay that were drawn from the blocks of one trial, or of as many as half its blocks make.
// Drift adds what pairs do not cancel where one side was measured after the other: the
// difference of the first half of a session's blocks and the second, and of any two
// sessions. It is 0 for a trial with fewer than four blocks that have the metric.
func (n *Noise) Band(id, metric string, pairs int, drift bool, seed uint64) float64 {
	var values []float64
	bySession := make(map[string][]float64)
	for _, r := range n.trials[id] {
		if v, ok := r.Metrics[metric]; ok && v > 0 && !r.Thin(metric) {
			values = append(values, math.Log(v))
			bySession[r.Session] = append(bySession[r.Session], math.Log(v))
		}
	}
	half := min(max(pairs, fewestHalf), len(values)/2)
	if half < fewestHalf {
		return 0
	}
	rng := source(seed, "noise", id, metric)
	var apart []float64
	for range splits {
		a, b := drawTwo(values, half, rng)
		apart = append(apart, math.Abs(mean(b)-mean(a)))
	}
	slices.Sort(apart)
	band := stat.Quantile(0.95, stat.Empirical, apart, nil)
	if drift {
		band = max(band, drifted(bySession))
	}
	return math.Expm1(band)
}

// drifted is the largest difference of the means of two halves of a session, or of two
// sessions.
func drifted(bySession map[string][]float64) (most float64) {
	apart := func(a, b []float64) {
		if min(len(a), len(b)) >= fewestHalf {
			most = max(most, math.Abs(mean(a)-mean(b)))
		}
	}
	names := slices.Sorted(maps.Keys(bySession))
	for i, name := range names {
		own := bySession[name]
		apart(own[:len(own)/2], own[len(own)/2:])
		for _, other := range names[i+1:] {
			apart(own, bySession[other])
		}
	}
	return most
}

// Sessions is the number of sessions that the noise was taken from.
func (n *Noise) Sessions() int {
	names := make(map[string]bool)
	for _, runs := range n.trials {
		for _, r := range runs {
			names[r.Session] = true
		}
	}
	return len(names)
}

// drawTwo draws two samples of half values each that share none.
func drawTwo[T any](values []T, half int, rng *rand.Rand) (a, b []T) {
	order := rng.Perm(len(values))
	for i, k := range order[:2*half] {
		if i < half {
			a = append(a, values[k])
		} else {
			b = append(b, values[k])
		}
	}
	return a, b
}

// A Self is one metric of one trial that was compared with itself.
type Self struct {
	Trial  string `json:"trial"`
	Metric string `json:"metric"`
	Blocks int    `json:"blocks"` // valid ones
	Pairs  int    `json:"pairs"`  // of each comparison
	// Band is that of [Noise.Band].
	Band float64 `json:"band"`
	// False counts the comparisons that called it better or worse, of Splits.
	False  int `json:"false_alarms"`
	Splits int `json:"splits"`
}

// An AA is what comparisons of a machine with itself came to.
type AA struct {
	Rows []Self `json:"rows"`
	// False counts the comparisons of a trial with any false alarm, of Comparisons.
	False       int `json:"false_alarms"`
	Comparisons int `json:"comparisons"`
}

// SelfCompare draws two samples of the blocks of each trial that share none, compares
// them, and does so many times. The first split is that of odd and even blocks. Pairs is
// the size of a sample, at most half of the blocks, and 0 is that half.
func SelfCompare(runs []results.Run, pairs, times int, c Config) (*AA, error) {
	c = c.filled()
	out := new(AA)
	for _, b := range blocksOf(runs, c.Across) {
		half := len(b.runs) / 2
		if pairs > 0 {
			half = min(half, pairs)
		}
		c.Noise = NoiseOf(b.runs, c.Across)
		rows := make(map[string]*Self)
		rng := source(c.Seed, "self", b.name)
		for i := range times {
			x, y := drawTwo(b.runs, half, rng)
			if i == 0 {
				x, y = oddEven(b.runs, half)
			}
			got, err := Compare(sideOf("A", x), sideOf("A again", y), c)
			if err != nil {
				return nil, err
			}
			any := false
			for _, f := range got.Findings {
				row := rows[f.Metric]
				if row == nil {
					row = &Self{Trial: b.name, Metric: f.Metric, Blocks: len(b.runs), Pairs: half, Band: f.Band, Splits: times}
					rows[f.Metric] = row
				}
				if f.Verdict == Better || f.Verdict == Worse {
					row.False++
					any = true
				}
			}
			out.Comparisons++
			if any {
				out.False++
			}
		}
		for _, metric := range slices.Sorted(maps.Keys(rows)) {
			out.Rows = append(out.Rows, *rows[metric])
		}
	}
	if len(out.Rows) == 0 {
		return nil, errFewBlocks
	}
	return out, nil
}
