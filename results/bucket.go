package results

import "math"

// A live view, an exporter and a heat map need counts that can be read while they grow,
// and few of them. They share exponential buckets, as OpenTelemetry and the native
// histograms of Prometheus have them: at scale n bucket i holds the durations in
// (2^((i−1)/2^n), 2^(i/2^n)] seconds.
const (
	// LiveScale is the scale of what is counted while a run goes on: eight buckets for
	// each doubling, each 9 % wider than the one before.
	LiveScale = 3
	// HeatScale is that of [Heat]: two buckets for each doubling.
	HeatScale = 1

	// MinBucket and MaxBucket are the first and the last bucket at LiveScale. Shorter
	// and longer durations count in them: 1 ns, and 4 096 s.
	MinBucket = -30 << LiveScale
	MaxBucket = 12 << LiveScale
)

// BucketOf is the bucket at LiveScale of a duration of ns. Those below 1 ns are in the
// first bucket. It does not allocate, and takes no logarithm: it stands on the path on
// which operations are recorded.
func BucketOf(ns int64) int {
	if ns <= 1 {
		return MinBucket
	}
	// The exponent gives the doubling, and the fraction in [1, 2) the part of it. A
	// sixteenth of that range holds at most one end of a bucket. There is no branch, since
	// none of latencies would be foreseen.
	bits := math.Float64bits(float64(ns) * 1e-9)
	fraction := int64(bits & (1<<52 - 1))
	part := ends[fraction>>48]
	above := uint64(part.fraction-fraction) >> 63
	i := (int(bits>>52)-1023)<<LiveScale + int(part.before) + int(above)
	return min(max(i, MinBucket), MaxBucket)
}

// An end is where a bucket ends within a doubling: the fraction of the floating-point
// number 2^(before/8).
type end struct{ before, fraction int64 }

// ends has, for each sixteenth of a doubling, the first end of a bucket that is not before
// it.
var ends = func() (list [16]end) {
	for i := range list {
		before := 0
		for math.Exp2(float64(before)/(1<<LiveScale)) < 1+float64(i)/16 {
			before++
		}
		fraction := int64(1 << 52) // beyond all fractions: the doubling ends
		if before < 1<<LiveScale {
			fraction = int64(math.Float64bits(math.Exp2(float64(before)/(1<<LiveScale))) & (1<<52 - 1))
		}
		list[i] = end{int64(before), fraction}
	}
	return list
}()

// Coarser is the bucket at HeatScale that holds bucket i at LiveScale.
func Coarser(i int) int {
	const by = LiveScale - HeatScale
	return (i + 1<<by - 1) >> by
}

// BucketEnd is the longest duration in bucket i at that scale, in ns.
func BucketEnd(i, scale int) float64 { return 1e9 * math.Exp2(math.Ldexp(float64(i), -scale)) }

// BucketQuantile is about the p-th percentile (p from 0 to 100) of durations of which
// count(i) lie in bucket i at LiveScale, in ns: to within 5 %, by interpolation. It is 0
// if there are none.
func BucketQuantile(p float64, count func(i int) int64) float64 {
	n := int64(0)
	for i := MinBucket; i <= MaxBucket; i++ {
		n += count(i)
	}
	if n == 0 {
		return 0
	}
	rank, below := p/100*float64(n), int64(0)
	for i := MinBucket; i <= MaxBucket; i++ {
		here := count(i)
		if here > 0 && float64(below+here) >= rank {
			into := max(0, rank-float64(below)) / float64(here)
			return 1e9 * math.Exp2((float64(i-1)+into)/(1<<LiveScale))
		}
		below += here
	}
	return BucketEnd(MaxBucket, LiveScale)
}
