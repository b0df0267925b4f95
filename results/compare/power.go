package compare

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/lockbench/lockbench/results"
)

// A Row is the detection power of one metric of one trial.
type Row struct {
	Trial  string  `json:"trial"`
	Metric string  `json:"metric"`
	Blocks int     `json:"blocks"` // valid ones, of which each draw takes 2 × Pairs
	Pairs  int     `json:"pairs"`
	Band   float64 `json:"band"` // see Noise.Band
	Draws  int     `json:"draws"`
	False  int     `json:"false_alarms"` // draws without an effect that were called better or worse
	// Seen counts the draws in which an effect was called worse, by the effects asked for.
	Seen []int `json:"seen"`
}

// Power draws two samples of so many blocks from each trial, makes one metric of the second
// worse by each of the effects, given as shares of 1, and counts how often Compare says so
// with all other metrics as they are. It needs 2 × pairs valid blocks of a trial.
//
// The effect is put in by scaling: a slow-down by e divides what should be high by 1 + e,
// and multiplies what should be low.
func Power(runs []results.Run, pairs, draws int, effects []float64, c Config) ([]Row, error) {
	c = c.filled()
	var rows []Row
	for _, b := range blocksOf(runs, c.Across) {
		if len(b.runs) < 2*pairs {
			continue
		}
		c.Noise = NoiseOf(b.runs, c.Across)
		rng := source(c.Seed, "power", b.name)
		var own []Row
		for range draws {
			x, y := drawTwo(b.runs, pairs, rng)
			old, new := sideOf("A", x), sideOf("B", y)
			trials, _ := pairUp(old, new, c.Across)
			own = sample(own, trials[0], len(b.runs), effects, c)
		}
		for i := range own {
			own[i].Draws = draws
		}
		slices.SortFunc(own, func(a, b Row) int { return cmp.Compare(a.Metric, b.Metric) })
		rows = append(rows, own...)
	}
	if len(rows) == 0 {
		return nil, errFewFor(pairs)
	}
	return rows, nil
}

// sample counts one draw into rows.
func sample(rows []Row, t trial, blocks int, effects []float64, c Config) []Row {
	metrics := slices.DeleteFunc(c.metricsOf(t.pairs), func(metric string) bool {
		_, logs := weigh(t, t.pairs, metric)
		return logs == nil
	})
	family := len(metrics)
	n := resamples(c.Alpha, family)
	findings, logs, null := make([]Finding, family), make([][]float64, family), make([]float64, family)
	var sds []float64
	for i, metric := range metrics {
		findings[i], logs[i] = weigh(t, t.pairs, metric)
		findings[i].Band = c.Noise.Band(t.id, metric, findings[i].Pairs, false, c.Seed)
		e := bootstrap(logs[i], c.Alpha, n, source(c.Seed, t.name, metric))
		findings[i].Ratio = math.Exp(e.mean)
		null[i], sds = e.p, append(sds, e.sd)
	}
	for i, corrected := range holm(null) {
		at := slices.IndexFunc(rows, func(r Row) bool { return r.Metric == metrics[i] })
		if at < 0 {
			at = len(rows)
			rows = append(rows, Row{Trial: t.name, Metric: metrics[i], Blocks: blocks, Pairs: len(t.pairs), Band: findings[i].Band, Seen: make([]int, len(effects))})
		}
		f := findings[i]
		f.Holm = corrected
		if f.judge(c, family, sds[i]); f.Verdict == Better || f.Verdict == Worse {
			rows[at].False++
		}
		for k, effect := range effects {
			shift := math.Log1p(effect)
			if f.Wanted == "higher" {
				shift = -shift
			}
			moved := slices.Clone(logs[i])
			for j := range moved {
				moved[j] += shift
			}
			e := bootstrap(moved, c.Alpha, n, source(c.Seed, t.name, metrics[i], strconv.Itoa(k)))
			ps := slices.Clone(null)
			ps[i] = e.p
			g := f
			g.Ratio, g.New, g.Holm = math.Exp(e.mean), f.Old*math.Exp(e.mean), holm(ps)[i]
			if g.judge(c, family, e.sd); g.Verdict == Worse {
				rows[at].Seen[k]++
			}
		}
	}
	return rows
}
