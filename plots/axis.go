package plots

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// An axis is a scale with its unit in words and its ticks. Ticks without a label
// are minor.
type axis struct {
	title    string
	log      bool
	min, max float64
	ticks    []plot.Tick
}

// ownersAxis has a tick at every measured number of owners and nowhere else.
func ownersAxis(owners []int) axis {
	a := axis{title: "owners competing (log scale)", log: true}
	if len(owners) == 0 {
		return a
	}
	lo, hi := float64(owners[0]), float64(owners[len(owners)-1])
	a.min, a.max = lo/1.12, hi*1.12
	if lo == hi {
		a.title, a.min, a.max = "owners competing", lo/2, hi*2
	}
	for _, n := range owners {
		a.ticks = append(a.ticks, plot.Tick{Value: float64(n), Label: strconv.Itoa(n)})
	}
	return a
}

// logAxis covers lo … hi, both positive, from one tick to another: ticks at 1, 2
// and 5 times the powers of ten, labelled by u as densely as the range allows.
func logAxis(title string, lo, hi float64, u unit) axis {
	a := axis{title: title, log: true}
	if !(lo > 0) || !(hi >= lo) || math.IsInf(hi, 1) {
		lo, hi = 1, 10
	}
	first, last := int(math.Floor(math.Log10(lo)))-1, int(math.Ceil(math.Log10(hi)))+1
	labelled := []float64{1, 2, 5}
	switch span := math.Log10(hi / lo); {
	case span > 6:
		labelled = nil // every second power of ten, below
	case span > 2.7:
		labelled = []float64{1}
	}
	steps := []float64{1, 2, 5}
	if math.Log10(hi/lo) > 2.7 {
		steps = []float64{1, 5}
	}
	a.min, a.max = math.Pow10(first), math.Pow10(last)
	for e := first; e <= last; e++ {
		for _, s := range steps {
			v := s * math.Pow10(e)
			if v <= lo*(1+1e-9) {
				a.min = max(a.min, v)
			}
			if v >= hi*(1-1e-9) {
				a.max = min(a.max, v)
			}
		}
	}
	for e := first; e <= last; e++ {
		for s := 1; s <= 9; s++ {
			v := float64(s) * math.Pow10(e)
			if v < a.min*(1-1e-9) || v > a.max*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			for _, l := range labelled {
				if float64(s) == l {
					t.Label = u(v)
				}
			}
			if labelled == nil && s == 1 && e%2 == 0 {
				t.Label = u(v)
			}
			a.ticks = append(a.ticks, t)
		}
	}
	// A range between two steps would have no number at all.
	named := 0
	for _, t := range a.ticks {
		if t.Label != "" {
			named++
		}
	}
	if named < 2 && len(a.ticks) > 0 {
		for i := range a.ticks {
			if a.ticks[i].Value == a.min || a.ticks[i].Value == a.max {
				a.ticks[i].Label = u(a.ticks[i].Value)
			}
		}
	}
	return a
}

// linearAxis covers lo … hi with about five labelled ticks at 1, 2 or 5 times a
// power of ten.
func linearAxis(title string, lo, hi float64, u unit) axis {
	a := axis{title: title}
	if !(hi > lo) || math.IsInf(hi-lo, 0) {
		hi = lo + 1
	}
	step := math.Pow10(int(math.Floor(math.Log10((hi - lo) / 4))))
	for _, f := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(f*step) <= 6 {
			step *= f
			break
		}
	}
	first, last := math.Floor(lo/step+1e-9), math.Ceil(hi/step-1e-9)
	a.min, a.max = first*step, last*step
	for i := first; i <= last; i++ {
		a.ticks = append(a.ticks, plot.Tick{Value: i * step, Label: u(i * step)})
	}
	return a
}

// thin keeps at most n of the labels of a, evenly from its first one.
func (a *axis) thin(n int) {
	var named []int
	for i, t := range a.ticks {
		if t.Label != "" {
			named = append(named, i)
		}
	}
	step := (len(named) + n - 1) / n
	for k, i := range named {
		if k%step != 0 {
			a.ticks[i].Label = ""
		}
	}
}

// valueAxis is linear from 0 where all values lie within a factor of five, and
// logarithmic otherwise, which its title then says.
func valueAxis(title string, lo, hi float64, u unit) axis {
	if lo > 0 && hi/lo > 5 {
		return logAxis(title+", log scale", lo, hi, u)
	}
	return linearAxis(title, 0, hi*1.05, u)
}

// percentileAxis is the one of HdrHistogram's plots: 1/(1−p), logarithmic, so
// that every further nine takes the same room. It reaches from the median to the
// percentile that n values resolve.
func percentileAxis(n int64) axis {
	a := axis{title: "percentile", log: true, min: 2, max: max(float64(n), 100)}
	nines := []string{"", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"}
	a.ticks = append(a.ticks, plot.Tick{Value: 2, Label: "50" + space + "%"})
	for i := 1; i < len(nines) && math.Pow10(i) <= a.max*1.0001; i++ {
		a.ticks = append(a.ticks, plot.Tick{Value: math.Pow10(i), Label: nines[i] + space + "%"})
	}
	return a
}
