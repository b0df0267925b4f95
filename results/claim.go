package results

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// A Claim is a statement about locks that stored runs bear out or refute: a
// metric of one variant, or its ratio to that of another one which was measured
// beside it, keeps a bound.
type Claim struct {
	Text string // what is claimed, for people
	Of   Pick   // matches one variant
	// Over is the denominator. Where it matches several variants, the best of
	// them by the median counts. Without variants the metric of Of itself is judged.
	Over Pick
	// Least and Most bound the median from below and above; nil does not.
	Least, Most *float64
	// Every has Least and Most bound the value of each block instead: for a
	// promise, which a single exception breaks, and also one in a run that is not valid,
	// which it may be for that very reason.
	Every bool
}

// A Pick says which number of which runs is meant.
type Pick struct {
	// Variants are patterns of path.Match for Group.Name: "redis-token/goredis",
	// "peer-*". A pattern without a slash is matched with the algorithm alone.
	Variants []string
	// At is Run.Trial without the algorithm and its client:
	// "owners=32/keys=1/hold=1ms". Runs that differ in anything else that a
	// trial's name tells are not meant.
	At string
	// Metric is a name of Metrics.
	Metric string
}

// A Verdict is what runs say of a claim.
type Verdict struct {
	Claim Claim
	Of    string // names of the variants that were compared
	Over  string // "" without a denominator
	// Point is the value that was judged, over the blocks in which all of it was
	// measured. It is empty if Missing is not.
	Point   Point
	Held    bool
	Doubt   string // why the runs behind Point may not be believed; "" if they may
	Missing string // what runs the verdict would need; "" if it was reached
}

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

func (p Pick) matches(r *Run) bool {
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
func (p Pick) pick(runs []Run) (map[string]map[beside]reading, error) {
	found := make(map[string]map[beside]reading)
	first := make(map[string]*Run)
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
		if d := differ(first[name], r); d != "" {
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

// Judge says whether runs bear c out. A ratio is taken within each block, whose
// runs were interleaved, and its median over the blocks is judged, or each of them
// if c says Every. Blocks with a run that is not valid count for Every, and else only if
// there is no other; where all are such, Doubt says so.
func (c Claim) Judge(runs []Run) Verdict {
	v := Verdict{Claim: c}
	of, err := c.Of.pick(runs)
	if err != nil {
		v.Missing = err.Error()
		return v
	}
	switch len(of) {
	case 0:
		v.Missing = fmt.Sprintf("no run of %s at %s has %s", strings.Join(c.Of.Variants, ", "), c.Of.At, c.Of.Metric)
		return v
	case 1:
	default:
		v.Missing = "the claim is about one variant, and there are runs of " + strings.Join(slices.Sorted(maps.Keys(of)), ", ")
		return v
	}
	for name := range of {
		v.Of = name
	}
	var values []reading
	if len(c.Over.Variants) == 0 {
		values = slices.Collect(maps.Values(of[v.Of]))
	} else {
		over, err := c.Over.pick(runs)
		if err != nil {
			v.Missing = err.Error()
			return v
		}
		v.Over = best(over, c.Over.Metric)
		if v.Over == "" {
			v.Missing = fmt.Sprintf("no run of %s at %s has %s", strings.Join(c.Over.Variants, ", "), c.Over.At, c.Over.Metric)
			return v
		}
		for at, top := range of[v.Of] {
			if bottom, ok := over[v.Over][at]; ok && bottom.value > 0 {
				values = append(values, reading{top.value / bottom.value, top.valid && bottom.valid, slices.Concat(top.reasons, bottom.reasons)})
			}
		}
	}
	if len(values) == 0 {
		v.Missing = fmt.Sprintf("%s and %s were never measured in one block", v.Of, v.Over)
		return v
	}
	v.weigh(values)
	return v
}

// best is the variant with the best median, "" if there is none.
func best(found map[string]map[beside]reading, metric string) string {
	better := func(a, b float64) int { return cmp.Compare(b, a) }
	if Better(metric) == "lower" {
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
		return PointOf(list).Median
	}
	return slices.MinFunc(names, func(a, b string) int { return better(median(a), median(b)) })
}

// weigh fills the point of v and compares it with the bounds.
func (v *Verdict) weigh(values []reading) {
	var valid, all []float64
	why := make(map[string]int)
	for _, s := range values {
		all = append(all, s.value)
		if s.valid {
			valid = append(valid, s.value)
		}
		for _, r := range s.reasons {
			why[r]++
		}
	}
	if len(valid) == 0 {
		reasons := slices.SortedFunc(maps.Keys(why), func(a, b string) int {
			return cmp.Or(cmp.Compare(why[b], why[a]), cmp.Compare(a, b))
		})
		v.Doubt = "no block is valid"
		if len(reasons) > 0 {
			v.Doubt += ": " + reasons[0]
		}
	}
	c := v.Claim
	if c.Every || v.Doubt != "" {
		valid = all // a block may be invalid for what the claim is about
	}
	v.Point = PointOf(valid)
	least, most := v.Point.Median, v.Point.Median
	if c.Every {
		least, most = v.Point.Min, v.Point.Max
	}
	v.Held = v.Doubt == "" && (c.Least == nil || least >= *c.Least) && (c.Most == nil || most <= *c.Most)
}
