package compare

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// An estimate is the mean of a sample, by the studentised bootstrap. The mean of a resample
// is measured in its own standard errors, as few values do not tell how far they scatter.
// (B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", §12.5 and §16.4.)
type estimate struct {
	mean float64
	half float64 // half the width of the interval; infinite for fewer than two values
	sd   float64 // of the values
	p    float64 // of a mean of 0, two-sided
}

const (
	fewResamples  = 5_000
	mostResamples = 200_000
	enoughBeyond  = 20 // resamples beyond the mean that settle that p is not small
)

// resamples is how many it takes to tell a p of alpha ÷ family from a lesser one.
func resamples(alpha float64, family int) int {
	return min(max(int(10*float64(max(family, 1))/alpha), fewResamples), mostResamples)
}

// bootstrap estimates the mean of values, with the interval of confidence 1 − alpha. It
// draws at most n resamples for p, and stops early where p is plainly large (J. Besag,
// P. Clifford, "Sequential Monte Carlo p-values", 1991). The same rng gives the same
// estimate. Without values the mean is 0 and p is 1.
func bootstrap(values []float64, alpha float64, n int, rng *rand.Rand) estimate {
	if len(values) < 2 {
		e := estimate{half: math.Inf(1), p: 1}
		if len(values) == 1 {
			e.mean = values[0]
		}
		return e
	}
	e := estimate{p: 1}
	e.mean, e.sd = stat.MeanStdDev(values, nil)
	se := e.sd / math.Sqrt(float64(len(values)))
	if e.sd <= 1e-12*math.Abs(e.mean) || e.sd == 0 {
		e.sd = 0
		if e.mean != 0 {
			e.p = leastP(len(values)) // every resample says the same
		}
		return e
	}
	t := math.Abs(e.mean) / se
	beyond, drawn := 0, 0
	distances := make([]float64, 0, fewResamples)
	for drawn < fewResamples || drawn < n && beyond < enoughBeyond {
		d := distance(values, e.mean, rng)
		if drawn++; d >= t {
			beyond++
		}
		if len(distances) < fewResamples {
			distances = append(distances, d)
		}
	}
	e.p = max(float64(beyond+1)/float64(drawn+1), leastP(len(values)))
	slices.Sort(distances)
	e.half = stat.Quantile(1-alpha, stat.Empirical, distances, nil) * se
	return e
}

// distance is how far the mean of a resample is from the mean of values, in standard
// errors of the resample; infinite where all that was drawn is alike.
func distance(values []float64, mean float64, rng *rand.Rand) float64 {
	n := len(values)
	var sum, squares float64
	for range n {
		d := values[rng.IntN(n)] - mean
		sum += d
		squares += d * d
	}
	m := sum / float64(n)
	variance := (squares - sum*m) / float64(n-1)
	if variance <= 1e-12*squares/float64(n) {
		return math.Inf(1)
	}
	return math.Abs(m) / math.Sqrt(variance/float64(n))
}

// leastP is the least p that n values can have: the share of the resamples that draw the
// same value n times, which are beyond any distance.
func leastP(n int) float64 {
	if n < 2 {
		return 1
	}
	return math.Pow(float64(n), float64(1-n))
}

// holm returns the p-values corrected for how many they are: with those up to alpha
// rejected, the chance of a single false one is at most alpha. (S. Holm, "A Simple
// Sequentially Rejective Multiple Test Procedure", 1979.)
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	out := make([]float64, len(p))
	last := 0.0
	for rank, i := range order {
		last = max(last, min(1, p[i]*float64(len(p)-rank)))
		out[i] = last
	}
	return out
}

// source is the random source for what, so that no estimate depends on which others are
// made, or in which order.
func source(seed uint64, what ...string) *rand.Rand {
	h := fnv.New64a()
	for _, w := range what {
		_, _ = h.Write([]byte(w + "\x00")) // it never fails
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}
