package results

import (
	"cmp"
	"slices"
)

// QuantileByOwner returns the p-th percentile (p from 0 to 100) of the values in
// all histograms of each, where those of one histogram together weigh as much as
// those of any other: the least value that a value of a histogram, both picked by
// chance, does not exceed with a probability of p percent. Of one histogram it is
// its Quantile. It reports whether there is one: there is none of no histograms, or
// if one of them is empty.
func QuantileByOwner(each []*Histogram, p float64) (int64, bool) {
	type bar struct {
		value  int64
		weight float64
	}
	var bars []bar
	for _, h := range each {
		n := h.Exact.Count
		if n == 0 {
			return 0, false
		}
		for value, count := range h.Bars() {
			bars = append(bars, bar{value, float64(count) / float64(n)})
		}
	}
	slices.SortFunc(bars, func(a, b bar) int { return cmp.Compare(a.value, b.value) })
	// The sums are of a million terms at most, and off by less than this.
	const rounding = 1e-9
	want, sum := p/100*float64(len(each))-rounding, 0.0
	for _, b := range bars {
		if sum += b.weight; sum >= want {
			return b.value, true
		}
	}
	return 0, false
}

// effective is how many values of equal weight tell as much as those of owners with
// grants each, of which those of one owner together weigh as much as those of any
// other: (Σw)²/Σw² where w is the weight of a value (Kish, Survey Sampling, 1965,
// section 11.7). It is 0 if an owner has none, or there is none.
func effective(grants []int64) int64 {
	if len(grants) == 0 {
		return 0
	}
	sum := 0.0
	for _, n := range grants {
		if n <= 0 {
			return 0
		}
		sum += 1 / float64(n)
	}
	owners := float64(len(grants))
	return int64(owners*owners/sum + 1e-9) // of equal shares, all of them
}
