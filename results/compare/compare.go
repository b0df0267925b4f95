package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/lockbench/lockbench/results"
)

// A Config says how sides are compared. Its zero value is the default.
type Config struct {
	// Alpha bounds the chance that a comparison calls anything different which is not, over
	// all its trials and metrics; 0 is DefaultAlpha.
	Alpha float64 `json:"alpha"`
	// Least is the least effect that counts, as a share of 1; 0 is DefaultLeast.
	Least float64 `json:"least"`
	// Across names dimensions in which the sides may differ.
	Across []string `json:"across,omitempty"`
	// Metrics are those to compare; nil are those for which Run.Compared says so. What
	// describes and does not judge, see results.Better, is passed over.
	Metrics []string `json:"metrics,omitempty"`
	// Noise is that of this machine; nil takes it from the blocks of the old side.
	Noise *Noise `json:"-"`
	// Seed draws other resamples.
	Seed uint64 `json:"seed,string"`
}

// The defaults of a Config.
const (
	DefaultAlpha = 0.01
	DefaultLeast = 0.03
)

// power is the chance with which the smallest effect that is told would be seen.
const power = 0.80

func (c Config) filled() Config {
	if c.Alpha == 0 {
		c.Alpha = DefaultAlpha
	}
	if c.Least == 0 {
		c.Least = DefaultLeast
	}
	return c
}

// A Verdict says what became of one metric of one trial.
type Verdict string

// The verdicts.
const (
	Better Verdict = "better"
	Worse  Verdict = "WORSE"
	// Same is no difference that the test sees.
	Same Verdict = "no difference"
	// Slight is one that the test sees, but below the least effect or the noise.
	Slight Verdict = "slight"
	// Few is too few pairs for any difference to pass the test.
	Few Verdict = "too few pairs"
)

// A Finding is one metric of one trial on two sides.
type Finding struct {
	Trial  string `json:"trial"` // for people: "redis-token/goredis owners=32 keys=1 hold=1ms"
	Metric string `json:"metric"`
	Wanted string `json:"wanted"` // "higher" or "lower"
	Pairs  int    `json:"pairs"`  // of valid runs in which both have the metric
	// Old and New are the medians over the pairs.
	Old float64 `json:"old"`
	New float64 `json:"new"`
	// Ratio is the geometric mean of new ÷ old over the pairs, with the interval of
	// confidence 1 − Alpha. All are 0 where a value is 0, and High is 0 where it is
	// unbounded.
	Ratio float64 `json:"ratio,omitempty"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
	P     float64 `json:"p"`      // of no difference, two-sided
	Holm  float64 `json:"p_holm"` // P, corrected for all findings of the comparison
	// Band is the A/A noise: what 95 of 100 comparisons of the machine with itself stay
	// below, as a share of 1; 0 if it is not known.
	Band float64 `json:"band,omitempty"`
	// Detectable is the smallest effect that would have been seen with a chance of 80 %, as
	// a share of 1; 0 if it cannot be told.
	Detectable float64 `json:"detectable,omitempty"`
	Verdict    Verdict `json:"verdict"`
	Sentence   string  `json:"sentence"`

	algo   string
	needed int  // pairs that could pass the test
	exact  bool // a single exception breaks what is promised
}

// A Comparison is what two sides say of each other.
type Comparison struct {
	Old      string    `json:"old"`
	New      string    `json:"new"`
	Config   Config    `json:"config"`
	Trials   int       `json:"trials"`  // measured on both sides
	Invalid  int       `json:"invalid"` // pairs left out, as a run of them is not valid
	Reasons  []string  `json:"reasons,omitempty"`
	Alone    int       `json:"alone"` // runs without a counterpart
	Findings []Finding `json:"findings"`
	// Environment lists what differs between the machines and servers of the sides.
	Environment []string `json:"environment,omitempty"`
	// Yardstick tells that a lock in memory moved, too: the machine, the load or the
	// harness did.
	Yardstick bool `json:"yardstick,omitempty"`
	// Drift tells that one side was measured after the other, so that no pair cancels what
	// the machine did meanwhile. Sessions is the number of those that the noise was taken
	// from: one tells nothing of the time between two.
	Drift    bool `json:"drift,omitempty"`
	Sessions int  `json:"noise_sessions"`
}

// Regressed reports whether anything became worse.
func (c *Comparison) Regressed() bool {
	return slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Verdict == Worse })
}

// Compare pairs the runs of both sides and tests each metric. It returns ErrNoPair, with
// what keeps the runs apart, where nothing was measured on both.
func Compare(old, new Side, c Config) (*Comparison, error) {
	c = c.filled()
	old.Runs, new.Runs = results.Relate(old.Runs), results.Relate(new.Runs)
	trials, alone := pairUp(old, new, c.Across)
	if len(trials) == 0 {
		return nil, noPair(old, new, c.Across)
	}
	out := &Comparison{Old: old.Name, New: new.Name, Config: c, Trials: len(trials), Alone: alone, Environment: environment(old.Runs, new.Runs)}
	if c.Noise == nil {
		c.Noise = NoiseOf(old.Runs, c.Across)
	}
	out.Drift, out.Sessions = !overlap(old.Runs, new.Runs), c.Noise.Sessions()
	type sample struct {
		at   int
		logs []float64
	}
	var samples []sample
	for _, t := range trials {
		out.Alone += t.alone
		var valid []pair
		for _, p := range t.pairs {
			if p.valid() {
				valid = append(valid, p)
				continue
			}
			out.Invalid++
			for _, reason := range slices.Concat(p.old.Valid.Reasons, p.new.Valid.Reasons) {
				if !slices.Contains(out.Reasons, reason) {
					out.Reasons = append(out.Reasons, reason)
				}
			}
		}
		if f, broken := promise(t); broken {
			out.Findings = append(out.Findings, f)
		}
		for _, metric := range c.metricsOf(valid) {
			f, logs := weigh(t, valid, metric)
			if f.Pairs == 0 || f.Old == 0 && f.New == 0 { // percentiles of too few values, or nothing happened
				continue
			}
			f.Band = c.Noise.Band(t.id, metric, f.Pairs, out.Drift, c.Seed)
			samples = append(samples, sample{len(out.Findings), logs})
			out.Findings = append(out.Findings, f)
		}
	}
	family := len(samples)
	ps := make([]float64, 0, family)
	sds := make([]float64, 0, family)
	for _, s := range samples {
		f := &out.Findings[s.at]
		sd := 0.0
		if s.logs != nil {
			e := bootstrap(s.logs, c.Alpha, resamples(c.Alpha, family), source(c.Seed, f.Trial, f.Metric))
			f.P, sd = e.p, e.sd
			f.Ratio, f.Low = math.Exp(e.mean), math.Exp(e.mean-e.half)
			if high := math.Exp(e.mean + e.half); !math.IsInf(high, 0) {
				f.High = high
			}
		}
		ps, sds = append(ps, f.P), append(sds, sd)
	}
	for i, corrected := range holm(ps) {
		f := &out.Findings[samples[i].at]
		f.Holm = corrected
		f.judge(c, family, sds[i])
	}
	for i := range out.Findings {
		f := &out.Findings[i]
		f.Sentence = f.sentence(c)
		if results.IsYardstick(f.algo) && (f.Verdict == Worse || f.Verdict == Better) {
			out.Yardstick = true
		}
	}
	return out, nil
}

// metricsOf are the metrics of pairs that are compared, sorted.
func (c Config) metricsOf(pairs []pair) []string {
	found := make(results.Metrics)
	for _, p := range pairs {
		for name := range p.old.Metrics {
			if _, both := p.new.Metrics[name]; !both || results.Better(name) == "" || name == results.Violations ||
				name == results.Efficiency && results.IsYardstick(p.old.Algo) { // it is 1
				continue
			}
			if c.Metrics == nil && p.old.Compared(name) || slices.Contains(c.Metrics, name) {
				found[name] = 0
			}
		}
	}
	return found.Names()
}

// promise tells of overlapping holds on the new side of t where the old one had none. Such
// a run counts also if it is not valid, as it may be for that very reason, and no
// statistics forgive it.
func promise(t trial) (f Finding, broken bool) {
	var old, new float64
	for _, p := range t.pairs {
		old += p.old.Metrics[results.Violations]
		new += p.new.Metrics[results.Violations]
	}
	if old > 0 || new == 0 {
		return f, false
	}
	return Finding{Trial: t.name, Metric: results.Violations, Wanted: "lower", Pairs: len(t.pairs), New: new, Verdict: Worse, algo: t.algo, exact: true}, true
}

// weigh compares a metric of pairs. It returns the logarithms of the ratios, or nil where a
// value is 0: then P is that of the sign test over the pairs that differ.
func weigh(t trial, pairs []pair, metric string) (Finding, []float64) {
	f := Finding{Trial: t.name, Metric: metric, Wanted: results.Better(metric), P: 1, algo: t.algo}
	var olds, news, logs []float64
	more, less, zeros := 0, 0, false
	for _, p := range pairs {
		a, ok := p.old.Metrics[metric]
		b, both := p.new.Metrics[metric]
		if !ok || !both || p.old.Thin(metric) || p.new.Thin(metric) {
			continue
		}
		olds, news = append(olds, a), append(news, b)
		switch {
		case b > a:
			more++
		case b < a:
			less++
		}
		if !(a > 0) || !(b > 0) {
			zeros = true
			continue
		}
		logs = append(logs, math.Log(b/a))
	}
	f.Pairs, f.Old, f.New = len(olds), results.PointOf(olds).Median, results.PointOf(news).Median
	if !zeros {
		return f, logs
	}
	if n := more + less; n > 0 {
		f.Old, f.New = mean(olds), mean(news) // the median of few exceptions is 0
		f.P = min(1, 2*distuv.Binomial{N: float64(n), P: 0.5}.CDF(float64(min(more, less))))
	}
	return f, nil
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// judge gives f its verdict in a family of so many findings, from the spread sd of the
// logarithms.
func (f *Finding) judge(c Config, family int, sd float64) {
	bound := math.Log1p(max(c.Least, f.Band))
	effect := math.Abs(math.Log(f.Ratio))
	if f.Ratio == 0 { // there are zeros
		effect = math.Inf(1)
	}
	switch {
	case f.Ratio > 0 && leastP(f.Pairs)*float64(family) > c.Alpha:
		f.Verdict, f.needed = Few, f.Pairs+1
		for leastP(f.needed)*float64(family) > c.Alpha {
			f.needed++
		}
		return
	case f.Holm > c.Alpha:
		f.Verdict = Same
	case effect <= bound:
		f.Verdict = Slight
	case f.rose() == (f.Wanted == "higher"):
		f.Verdict = Better
	default:
		f.Verdict = Worse
	}
	if f.Ratio > 0 && f.Pairs > 1 {
		se := sd / math.Sqrt(float64(f.Pairs))
		t := distuv.StudentsT{Sigma: 1, Nu: float64(f.Pairs - 1)}
		f.Detectable = math.Expm1(max(t.Quantile(1-c.Alpha/float64(family)/2)*se, bound) + t.Quantile(power)*se)
	}
}

// overlap reports whether the times of two sets of runs do: they were measured together, or
// by turns.
func overlap(a, b []results.Run) bool {
	span := func(runs []results.Run) (from, to time.Time) {
		for i, r := range runs {
			if i == 0 || r.Time.Before(from) {
				from = r.Time
			}
			if i == 0 || r.Time.After(to) {
				to = r.Time
			}
		}
		return from, to
	}
	a1, a2 := span(a)
	b1, b2 := span(b)
	return !a2.Before(b1) && !b2.Before(a1)
}

// rose reports whether new is above old.
func (f *Finding) rose() bool {
	if f.Ratio > 0 {
		return f.Ratio > 1
	}
	return f.New > f.Old
}

// noPair is ErrNoPair, with what keeps the trials that are most alike apart.
func noPair(old, new Side, across []string) error {
	if len(old.Runs) == 0 || len(new.Runs) == 0 {
		return fmt.Errorf("%s and %s: %w", old.Name, new.Name, ErrNoPair)
	}
	best := []string(nil)
	for i := range old.Runs {
		for k := range new.Runs {
			var apart []string
			for _, d := range results.Dimensions() {
				x, y := d.At(&old.Runs[i]), d.At(&new.Runs[k])
				if x != y && !slices.Contains(across, d.Name) {
					apart = append(apart, fmt.Sprintf("%s (%s and %s)", d.Name, orNone(x), orNone(y)))
				}
			}
			if best == nil || len(apart) < len(best) {
				best = apart
			}
		}
		if i > 200 {
			break // a hint, not a search
		}
	}
	if len(best) == 0 {
		return fmt.Errorf("%s and %s: %w in the same block", old.Name, new.Name, ErrNoPair)
	}
	return fmt.Errorf("%s and %s: %w; those most alike differ in %s (-across lets a dimension differ)", old.Name, new.Name, ErrNoPair, strings.Join(best, ", "))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
