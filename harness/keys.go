package harness

import (
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
)

// keyNames are the names of n keys of the run id. On a cluster they are spread:
// the braces give each a slot of its own, or nearly. Either way all names that a
// variant derives from a key belong to the slot of the key.
func keyNames(id string, n int, spread bool) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "lb:{" + id + "}:" + strconv.Itoa(i)
		if spread {
			names[i] = "lb:" + id + ":{" + strconv.Itoa(i) + "}"
		}
	}
	return names
}

// zipf is the cumulative distribution of P(k) ∝ 1/k^s over n keys (G. K. Zipf,
// 1949), nil if s is 0. A table, because the sampler of math/rand/v2 needs
// s > 1 and the skews seen in practice are about 1.
func zipf(n int, s float64) []float64 {
	if s == 0 || n == 1 {
		return nil
	}
	cdf := make([]float64, n)
	sum := 0.0
	for k := range cdf {
		sum += math.Pow(float64(k+1), -s)
		cdf[k] = sum
	}
	for k := range cdf {
		cdf[k] /= sum
	}
	return cdf
}

// pickKey draws a key: by cdf, or evenly from n keys if it is nil.
func pickKey(r *rand.Rand, n int, cdf []float64) int {
	switch {
	case n == 1:
		return 0
	case cdf == nil:
		return r.IntN(n)
	}
	return min(sort.SearchFloat64s(cdf, r.Float64()), n-1)
}
