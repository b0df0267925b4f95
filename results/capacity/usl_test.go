package capacity

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// readme are the throughputs that README.md and cmd/usl/example.csv of
// github.com/codahale/usl publish together with their fit.
func readme() []Scaling {
	return []Scaling{{1, 65}, {18, 996}, {36, 1652}, {72, 1853}, {108, 1829}, {144, 1775}, {216, 1702}}
}

// contended are the throughputs of model_test.go of github.com/codahale/usl, for N from 1.
func contended() (points []Scaling) {
	for i, x := range []float64{
		955.16, 1878.91, 2688.01, 3548.68, 4315.54, 5130.43, 5931.37, 6531.08, 7219.8, 7867.61, 8278.71, 8646.7,
		9047.84, 9426.55, 9645.37, 9897.24, 10097.6, 10240.5, 10532.39, 10798.52, 11151.43, 11518.63, 11806, 12089.37,
		12075.41, 12177.29, 12211.41, 12158.93, 12155.27, 12118.04, 12140.4, 12074.39,
	} {
		points = append(points, Scaling{float64(i + 1), x})
	}
	return points
}

// TestPublishedUSL compares with the parameters that others published for their data.
func TestPublishedUSL(t *testing.T) {
	for _, c := range []struct {
		name                 string
		points               []Scaling
		sigma, kappa, lambda float64
		n, x                 float64
	}{
		{"README.md", readme(), 0.0277299, 0.000104343, 89.9878, 96, 1883.76},
		{"model_test.go", contended(), 0.02671591, 7.690945e-4, 995.6486, 35, 12341.745},
	} {
		u, err := FitUSL(c.points)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.name+": sigma", u.Sigma, c.sigma, 1e-3)
		near(t, c.name+": kappa", u.Kappa, c.kappa, 1e-3)
		near(t, c.name+": lambda", u.Lambda, c.lambda, 1e-3)
		if n := math.Floor(math.Sqrt((1 - u.Sigma) / u.Kappa)); n != c.n {
			t.Errorf("%s: the peak is at %g, want %g", c.name, n, c.n)
		}
		near(t, c.name+": throughput at the peak", u.at(c.n), c.x, 1e-4)
		if !u.SigmaBand.Holds(u.Sigma) || !u.LambdaBand.Holds(u.Lambda) {
			t.Errorf("%s: the fit lies outside of its own intervals: %+v", c.name, u)
		}
	}
}

// TestUSLRejected has residuals with structure: throughput that falls off a cliff.
func TestUSLRejected(t *testing.T) {
	u, err := FitUSL(contended())
	if err != nil {
		t.Fatal(err)
	}
	if why := u.Rejected(); !strings.Contains(why, "USL rejected") {
		t.Errorf("residuals that keep their sign for long are not seen: p = %g", u.RunsP)
	}
	if _, err := u.Throughput(4); !errors.Is(err, ErrRange) {
		t.Errorf("a rejected law still answers: %v", err)
	}
}

func TestUSLRange(t *testing.T) {
	law := USL{Sigma: 0.05, Kappa: 0.001, Lambda: 100}
	var points []Scaling
	for i, n := range []float64{1, 2, 4, 8, 16, 32} {
		points = append(points, Scaling{n, law.at(n) * (1 + 0.001*float64(1-2*(i%2)))})
	}
	u, err := FitUSL(points)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "sigma", u.Sigma, law.Sigma, 0.05)
	if x, err := u.Throughput(64); err != nil || math.Abs(x-law.at(64)) > 0.05*law.at(64) {
		t.Errorf("at twice the largest N: %g, %v; want about %g", x, err, law.at(64))
	}
	for _, n := range []float64{0, 64.5, math.NaN()} {
		if _, err := u.Throughput(n); !errors.Is(err, ErrRange) {
			t.Errorf("N = %g: %v, want a refusal", n, err)
		}
	}
	if n, _, err := u.Peak(); err != nil || math.Abs(n-30) > 1 {
		t.Errorf("the peak is at %g (%v), want 30", n, err)
	}
}

// TestRunsTest compares with all orders of the signs, counted one by one.
func TestRunsTest(t *testing.T) {
	const n = 9
	for _, sample := range [][]float64{{1, 1, 1, 1, -1, -1, -1, -1, -1}, {1, -1, 1, -1, 1, -1, 1, -1, -1}, {1, 1, -1, -1, 1, 1, -1, -1, -1}} {
		runsOf := func(positive func(int) bool) (runs, plus int) {
			for i := range n {
				if i == 0 || positive(i) != positive(i-1) {
					runs++
				}
				if positive(i) {
					plus++
				}
			}
			return runs, plus
		}
		runs, plus := runsOf(func(i int) bool { return sample[i] > 0 })
		few, all := 0, 0
		for bits := range 1 << n {
			r, p := runsOf(func(i int) bool { return bits>>i&1 == 1 })
			if p == plus {
				all++
				if r <= runs {
					few++
				}
			}
		}
		near(t, "the chance", runsTest(sample), float64(few)/float64(all), 1e-9)
	}
}
