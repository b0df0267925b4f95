package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// A Claim is a statement about locks that stored runs bear out or refute: a
// metric of one variant, or its ratio to that of another one which was measured
// beside it, keeps a bound.
type Claim struct {
	Text string `json:"claim"` // what is claimed, for people
	Of   Pick   `json:"of"`    // matches one variant
	// Over is the denominator. Where it matches several variants, the best of
	// them by the median counts. Without variants the metric of Of itself is judged.
	Over Pick `json:"over,omitzero"`
	// Least and Most bound the mean over the blocks from below and above; nil does not.
	Least *float64 `json:"least,omitempty"`
	Most  *float64 `json:"most,omitempty"`
	// Every has Least and Most bound the value of each block instead: for a
	// promise, which a single exception breaks, and also one in a run that is not valid,
	// which it may be for that very reason.
	Every bool `json:"every,omitempty"`
}

// A Pick says which number of which runs is meant.
type Pick struct {
	// Variants are patterns of path.Match for Group.Name: "redis-token/goredis",
	// "peer-*". A pattern without a slash is matched with the algorithm alone.
	Variants []string `json:"variants"`
	// At is Run.Trial without the algorithm and its client:
	// "owners=32/keys=1/hold=1ms". Runs that differ in anything else that a
	// trial's name tells are not meant.
	At string `json:"at"`
	// Metric is a name of Metrics.
	Metric string `json:"metric"`
}

// An Outcome says what became of a claim.
type Outcome string

// The outcomes.
const (
	Pass Outcome = "pass"
	Fail Outcome = "FAIL"
	// Undecided is a bound that lies inside the interval: more blocks would tell.
	Undecided Outcome = "not decided"
	// Invalid is a claim of which no block may be believed.
	Invalid Outcome = "INVALID"
	// Missing is a claim that the runs say nothing of.
	Missing Outcome = "?"
)

// A Judgement is what runs say of a claim.
type Judgement struct {
	Claim   Claim   `json:"claim"`
	Outcome Outcome `json:"outcome"`
	Of      string  `json:"of"`   // names of the variants that were compared
	Over    string  `json:"over"` // "" without a denominator
	// Value is the mean over the blocks, of a ratio the geometric one, and Low and High
	// are its interval of confidence 1 − alpha; with Every they are the least and the
	// greatest block. Bounded tells that there are enough blocks for an interval.
	Value   float64 `json:"value"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Bounded bool    `json:"bounded"`
	Blocks  int     `json:"blocks"`
	Left    int     `json:"left_out"` // blocks that are not valid
	// Why says what is in the way of a verdict: why the runs may not be believed, or which
	// are missing; "" if nothing is.
	Why string `json:"why,omitempty"`
}

// DefaultClaimAlpha is one minus the confidence of the interval that is held against the
// bound of a claim.
const DefaultClaimAlpha = 0.05

// Check returns an error if c could never be judged.
func (c Claim) Check() error {
	switch {
	case c.Text == "":
		return fmt.Errorf("a claim needs a text")
	case c.Least == nil && c.Most == nil:
		return fmt.Errorf("%q needs a bound: least or most", c.Text)
	case len(c.Of.Variants) == 0 || c.Of.Metric == "" || c.Of.At == "":
		return fmt.Errorf("%q needs a variant, a metric and what it is at", c.Text)
	case len(c.Over.Variants) > 0 && (c.Over.Metric == "" || c.Over.At == ""):
		return fmt.Errorf("the denominator of %q needs a metric and what it is at", c.Text)
	}
	for _, p := range slices.Concat(c.Of.Variants, c.Over.Variants) {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("%q: %q is no pattern", c.Text, p)
		}
	}
	return nil
}

func (p Pick) matches(r *results.Run) bool {
	rest := strings.TrimPrefix(r.Trial, "algo="+r.Algo+"/")
	rest = strings.TrimPrefix(rest, "client="+r.Client+"/")
	return rest == p.At && slices.ContainsFunc(p.Variants, func(pattern string) bool {
		name := r.Algo
		if strings.Contains(pattern, "/") && r.Client != "" {
			name += "/" + r.Client
		}
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// beside is where runs were interleaved.
type beside struct {
	session string
	block   int
}

// pick collects the values of p by variant and place. Runs of one variant that are no
// repetitions of each other are an error.
func (p Pick) pick(runs []results.Run) (map[string]map[beside]reading, error) {
	found := make(map[string]map[beside]reading)
	first := make(map[string]*results.Run)
	for i := range runs {
		r := &runs[i]
		v, ok := r.Metrics[p.Metric]
		if !ok || !p.matches(r) {
			continue
		}
		name := r.Algo
		if r.Client != "" {
			name += "/" + r.Client
		}
		if found[name] == nil {
			found[name], first[name] = make(map[beside]reading), r
		}
		if d := results.Differ(first[name], r); d != "" {
			return nil, fmt.Errorf("the runs of %s at %s are no repetitions of each other, they differ in %s", name, p.At, d)
		}
		found[name][beside{r.Session, r.Block}] = reading{v, r.Valid.OK, r.Valid.Reasons}
	}
	return found, nil
}

// A reading is one value, or one ratio of two that were measured in one block.
type reading struct {
	value   float64
	valid   bool // the runs that it comes from are
	reasons []string
}

// Judge says whether runs bear c out. A ratio is taken within each block, whose runs were
// interleaved. The mean over the blocks is estimated as by [Compare]: the bound is kept if
// the whole interval of confidence 1 − alpha keeps it, and missed if all of it does not. If
// c says Every, each block has to keep it. Blocks with a run that is not valid count for
// Every, and for nothing else. An alpha of 0 is DefaultClaimAlpha.
func (c Claim) Judge(runs []results.Run, alpha float64) Judgement {
	if alpha == 0 {
		alpha = DefaultClaimAlpha
	}
	v := Judgement{Claim: c, Outcome: Missing}
	values, why := v.readings(runs)
	if v.Why = why; why == "" {
		v.weigh(values, alpha)
	}
	return v
}

// readings are the values that v is about, and fills its variants; why says what is missing.
func (v *Judgement) readings(runs []results.Run) (values []reading, why string) {
	c := v.Claim
	of, err := c.Of.pick(runs)
	if err != nil {
		return nil, err.Error()
	}
	switch len(of) {
	case 0:
		return nil, fmt.Sprintf("no run of %s at %s has %s", strings.Join(c.Of.Variants, ", "), c.Of.At, c.Of.Metric)
	case 1:
	default:
		return nil, "the claim is about one variant, and there are runs of " + strings.Join(slices.Sorted(maps.Keys(of)), ", ")
	}
	for name := range of {
		v.Of = name
	}
	if len(c.Over.Variants) == 0 {
		return inOrder(of[v.Of]), ""
	}
	over, err := c.Over.pick(runs)
	if err != nil {
		return nil, err.Error()
	}
	v.Over = best(over, c.Over.Metric)
	if v.Over == "" {
		return nil, fmt.Sprintf("no run of %s at %s has %s", strings.Join(c.Over.Variants, ", "), c.Over.At, c.Over.Metric)
	}
	ratios := make(map[beside]reading)
	for at, top := range of[v.Of] {
		if bottom, ok := over[v.Over][at]; ok && bottom.value > 0 {
			ratios[at] = reading{top.value / bottom.value, top.valid && bottom.valid, slices.Concat(top.reasons, bottom.reasons)}
		}
	}
	if len(ratios) == 0 {
		return nil, fmt.Sprintf("%s and %s were never measured in one block", v.Of, v.Over)
	}
	return inOrder(ratios), ""
}

// inOrder are the readings by session and block, so that the same runs give the same
// estimate.
func inOrder(found map[beside]reading) (list []reading) {
	for _, at := range slices.SortedFunc(maps.Keys(found), func(a, b beside) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.block, b.block))
	}) {
		list = append(list, found[at])
	}
	return list
}

// best is the variant with the best median, "" if there is none.
func best(found map[string]map[beside]reading, metric string) string {
	better := func(a, b float64) int { return cmp.Compare(b, a) }
	if results.Better(metric) == "lower" {
		better = func(a, b float64) int { return cmp.Compare(a, b) }
	}
	names := slices.Sorted(maps.Keys(found))
	if len(names) == 0 {
		return ""
	}
	median := func(name string) float64 {
		var list []float64
		for _, s := range found[name] {
			list = append(list, s.value)
		}
		return results.PointOf(list).Median
	}
	return slices.MinFunc(names, func(a, b string) int { return better(median(a), median(b)) })
}

// weigh fills what v says of values.
func (v *Judgement) weigh(values []reading, alpha float64) {
	var counted []float64
	reasons := make(map[string]int)
	for _, s := range values {
		if s.valid || v.Claim.Every { // a block may be invalid for what the claim is about
			counted = append(counted, s.value)
		}
		if !s.valid {
			v.Left++
		}
		for _, r := range s.reasons {
			reasons[r]++
		}
	}
	if v.Left == len(values) {
		v.Outcome, v.Why = Invalid, "no block is valid"+commonest(reasons)
	}
	v.Blocks = len(counted)
	switch {
	case v.Blocks == 0:
		return
	case v.Claim.Every:
		v.Left = 0
		v.Value, v.Low, v.High, v.Bounded = results.PointOf(counted).Median, slices.Min(counted), slices.Max(counted), true
	default:
		v.interval(counted, alpha)
	}
	switch {
	case v.Outcome == Invalid:
	case !v.Bounded:
		v.Outcome, v.Why = Undecided, fmt.Sprintf("%d blocks are too few for an interval: measure with -repeat 5 or more", v.Blocks)
	case v.kept(v.Low) && v.kept(v.High):
		v.Outcome = Pass
	case v.Claim.Every || v.missed(v.Low, v.High):
		v.Outcome = Fail
	default:
		v.Outcome, v.Why = Undecided, "the bound lies inside the interval: measure more blocks"
	}
}

// interval estimates the mean of values.
func (v *Judgement) interval(values []float64, alpha float64) {
	logs := len(v.Claim.Over.Variants) > 0 && slices.Min(values) > 0
	if logs {
		values = slices.Clone(values)
		for i, x := range values {
			values[i] = math.Log(x)
		}
	}
	e := bootstrap(values, alpha, fewResamples, source(0, v.Claim.Text))
	v.Value, v.Low, v.High = e.mean, e.mean-e.half, e.mean+e.half
	if v.Bounded = !math.IsInf(e.half, 0); !v.Bounded {
		v.Low, v.High = slices.Min(values), slices.Max(values) // what there is
	}
	if logs {
		v.Value, v.Low, v.High = math.Exp(v.Value), math.Exp(v.Low), math.Exp(v.High)
	}
}

// kept reports whether x keeps the bounds of v.
func (v *Judgement) kept(x float64) bool {
	c := v.Claim
	return (c.Least == nil || x >= *c.Least) && (c.Most == nil || x <= *c.Most)
}

// missed reports whether all of low … high lies beyond one bound.
func (v *Judgement) missed(low, high float64) bool {
	c := v.Claim
	return c.Least != nil && high < *c.Least || c.Most != nil && low > *c.Most
}

// commonest is the most frequent of reasons, after a colon.
func commonest(reasons map[string]int) string {
	list := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	if len(list) == 0 {
		return ""
	}
	return ": " + list[0]
}
