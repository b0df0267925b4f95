package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The example of R's p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
func TestHolm(t *testing.T) {
	got := holm([]float64{0.01, 0.04, 0.03, 0.005})
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if math.Abs(got[i]-want) > 1e-12 {
			t.Fatalf("got %v", got)
		}
	}
	if got := holm([]float64{0.9, 0.8}); !slices.Equal(got, []float64{1, 1}) {
		t.Errorf("got %v", got)
	}
}

// The intervals hold the mean about as often as they say, also of few and of skewed values.
func TestBootstrapCovers(t *testing.T) {
	for _, c := range []struct {
		name string
		draw func(*rand.Rand) float64
		mean float64
		n    int
	}{
		{"normal", func(r *rand.Rand) float64 { return r.NormFloat64() }, 0, 6},
		{"normal", func(r *rand.Rand) float64 { return r.NormFloat64() }, 0, 20},
		{"exponential", func(r *rand.Rand) float64 { return r.ExpFloat64() }, 1, 20},
	} {
		rng := rand.New(rand.NewPCG(5, 6))
		const draws = 400
		inside, alarms := 0, 0
		for range draws {
			values := make([]float64, c.n)
			for i := range values {
				values[i] = c.draw(rng) - c.mean
			}
			e := bootstrap(values, 0.05, fewResamples, rng)
			if math.Abs(e.mean) <= e.half {
				inside++
			}
			if e.p <= 0.05 {
				alarms++
			}
		}
		if inside < draws*90/100 || inside > draws*99/100 {
			t.Errorf("%d values, %s: %d of %d intervals hold the mean, want 0.95 of them", c.n, c.name, inside, draws)
		}
		if alarms > draws*10/100 || alarms < draws*1/100 {
			t.Errorf("%d values, %s: %d of %d p-values are up to 0.05", c.n, c.name, alarms, draws)
		}
	}
}

// Few values tell little, and never more than the number of their resamples.
func TestBootstrapOfFew(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, values := range [][]float64{nil, {3}} {
		if e := bootstrap(values, 0.01, fewResamples, rng); e.p != 1 || !math.IsInf(e.half, 1) {
			t.Errorf("%v: %+v", values, e)
		}
	}
	if e := bootstrap([]float64{1, 1, 1, 1}, 0.01, fewResamples, rng); e.p != 1.0/64 || e.half != 0 {
		t.Errorf("%+v", e)
	}
	if e := bootstrap([]float64{0, 0, 0}, 0.01, fewResamples, rng); e.p != 1 {
		t.Errorf("%+v", e)
	}
	if e := bootstrap([]float64{1, 1.01, 0.99}, 0.01, mostResamples, rng); e.p < 1.0/9 || !math.IsInf(e.half, 1) {
		t.Errorf("three values were enough: %+v", e)
	}
}
