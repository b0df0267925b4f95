package results

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A bucket holds what its bounds say, by logarithms.
func TestBucketOf(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		ns := int64(math.Exp2(2 + 38*rng.Float64()))
		i := BucketOf(ns)
		exact := 8 * math.Log2(float64(ns)*1e-9)
		if near := math.Abs(exact - math.Round(exact)); near > 1e-9 && i != int(math.Ceil(exact)) {
			t.Fatalf("%d ns is in bucket %d, and %v lies beneath its end", ns, i, exact)
		}
		if j := Coarser(i); float64(ns) > BucketEnd(j, HeatScale)*(1+1e-12) || float64(ns) <= BucketEnd(j-1, HeatScale)*(1-1e-12) {
			t.Fatalf("%d ns is not in bucket %d of the coarser", ns, j)
		}
	}
	// The end of a bucket belongs to it: a second is 2⁰.
	for ns, want := range map[int64]int{
		1e9: 0, 1e9 + 1: 1, 5e8: -8, 5e8 + 1: -7, 2e9: 8,
		math.MinInt64: MinBucket, -1: MinBucket, 0: MinBucket, 1: MinBucket, 5e12: MaxBucket, math.MaxInt64: MaxBucket,
	} {
		if got := BucketOf(ns); got != want {
			t.Errorf("%d ns is in bucket %d, want %d", ns, got, want)
		}
	}
}

func TestBucketQuantile(t *testing.T) {
	if got := BucketQuantile(50, func(int) int64 { return 0 }); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	counts := make(map[int]int64)
	var all []int64
	for range 20_000 {
		ns := int64(1e6 * math.Exp(rng.NormFloat64()))
		all = append(all, ns)
		counts[BucketOf(ns)]++
	}
	slices.Sort(all)
	for _, p := range []float64{1, 50, 90, 99} {
		want := float64(all[int(p/100*float64(len(all)))])
		if got := BucketQuantile(p, func(i int) int64 { return counts[i] }); math.Abs(got/want-1) > 0.05 {
			t.Errorf("p%v is %v, want %v", p, got, want)
		}
	}
}

func BenchmarkBucketOf(b *testing.B) {
	sum := 0
	for i := range b.N {
		sum += BucketOf(int64(i) * 977)
	}
	if sum == 1 {
		b.Log(sum)
	}
}
