package results

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQuantileByOwnerWeighsOwnersAlike(t *testing.T) {
	const limit = int64(time.Minute)
	hog := NewHistogram(limit)
	for range 100_000 {
		if err := hog.Record(100); err != nil {
			t.Fatal(err)
		}
	}
	starving := func() *Histogram { return fill(t, limit, int64(20*time.Second), int64(30*time.Second)) }
	each := []*Histogram{hog, starving(), starving(), starving()}
	var pooled Histogram
	for _, h := range each {
		pooled.Merge(h)
	}
	if got := pooled.Quantile(99); got != 100 {
		t.Fatalf("p99 of all waits = %d: the test is not about a lock that starves", got)
	}
	for _, c := range []struct {
		p    float64
		want time.Duration
	}{{25, 100}, {26, 20 * time.Second}, {62, 20 * time.Second}, {63, 30 * time.Second}, {99, 30 * time.Second}} {
		got, ok := QuantileByOwner(each, c.p)
		if off := float64(got) / float64(c.want); !ok || off < 1 || off > 1.002 {
			t.Errorf("p%v = %v, %v, want %v", c.p, time.Duration(got), ok, c.want)
		}
	}
}

func TestQuantileByOwnerOfOneIsItsQuantile(t *testing.T) {
	const limit = int64(time.Minute)
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 99, 100, 101, 160, 1000, 4603} {
		h := fill(t, limit, waits(r, n, limit)...)
		for _, p := range []float64{50, 90, 99, 99.9, 100} {
			got, ok := QuantileByOwner([]*Histogram{h}, p)
			// Quantile knows the exact minimum, of which the buckets know the upper end.
			if want := h.Quantile(p); !ok || got != want && n > 2 {
				t.Errorf("p%v of %d values = %d, %v, want %d", p, n, got, ok, want)
			}
			twice, ok := QuantileByOwner([]*Histogram{h, h}, p)
			if !ok || twice != got {
				t.Errorf("p%v of it twice = %d, %v, want %d", p, twice, ok, got)
			}
		}
	}
}

func TestQuantileByOwnerNeedsAWaitOfEach(t *testing.T) {
	some, none := fill(t, 1000, 1, 2, 3), NewHistogram(1000)
	for _, each := range [][]*Histogram{nil, {none}, {some, none}, {some, new(Histogram)}} {
		if v, ok := QuantileByOwner(slices.Clone(each), 50); ok {
			t.Errorf("of %d histograms, one of them empty, it is %d", len(each), v)
		}
	}
}

// Many grants of one owner do not make up for the few of the others.
func TestThinByOwner(t *testing.T) {
	for _, c := range []struct {
		grants []int64
		want   int64
		thin   bool
	}{
		{nil, 0, true},
		{[]int64{459}, 459, false},
		{[]int64{458}, 458, true},
		{[]int64{115, 115, 115, 115}, 460, false},
		{[]int64{100, 100, 100, 100}, 400, true},
		{[]int64{1_000_000, 10, 10, 10}, 53, true}, // 16 ÷ 0.300001
		{[]int64{1_000_000, 0}, 0, true},
	} {
		if got := effective(c.grants); got != c.want {
			t.Errorf("%v weigh as much as %d, want %d", c.grants, got, c.want)
		}
		r := Run{Series: &Series{OwnerGrants: c.grants}}
		if got := r.Thin(AcquireByOwner); got != c.thin {
			t.Errorf("%v: thin %v, want %v", c.grants, got, c.thin)
		}
	}
}
