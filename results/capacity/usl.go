package capacity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// USL is the Universal Scalability Law,
//
//	X(N) = λ·N / (1 + σ·(N − 1) + κ·N·(N − 1))
//
// where λ is the throughput of one owner, σ the share of the work that is done one after
// the other, and κ what each pair of owners costs each other. The source is Gunther,
// Guerrilla Capacity Planning (2007). It is for throughput over many keys: a single key
// has σ near 1, and then the law says no more than [ClosedBound]. [FitUSL] makes one.
type USL struct {
	Sigma  float64 `json:"sigma"`
	Kappa  float64 `json:"kappa"`
	Lambda float64 `json:"lambda"` // unit of the throughput that it was fitted to
	// The 95 % intervals over draws of the residuals.
	SigmaBand  Interval `json:"sigma_band"`
	KappaBand  Interval `json:"kappa_band"`
	LambdaBand Interval `json:"lambda_band"`
	R2         float64  `json:"r2"` // share of the variance that the law explains
	// RunsP is the chance of residuals with so few changes of sign if the law holds: where
	// it is small they have a structure, and the law is another one.
	RunsP   float64 `json:"runs_p"`
	Largest float64 `json:"largest_n"` // the largest N of the fit
}

// Scaling is one throughput at N concurrent owners.
type Scaling struct{ N, X float64 }

const (
	fewestN       = 4    // different N, for three parameters
	uslDraws      = 200  // of the bootstrap
	structured    = 0.05 // RunsP from below which the residuals have a structure
	leastVariance = 0.9  // R2 below which the law explains too little
)

// FitUSL fits the law by least squares, with σ, κ ≥ 0: without that bound noise makes κ
// negative, and the peak no number. The error wraps [ErrRange] if there are fewer than 4
// different N, or some that are below 1 or no number. Equal points give equal fits.
func FitUSL(points []Scaling) (USL, error) {
	points = slices.Clone(points)
	slices.SortFunc(points, func(a, b Scaling) int {
		switch {
		case a.N < b.N:
			return -1
		case a.N > b.N:
			return 1
		}
		return 0
	})
	different := 0
	for i, p := range points {
		if !finite(p.N, p.X) || p.N < 1 || p.X <= 0 {
			return USL{}, fmt.Errorf("%w: a throughput of %g at N = %g", ErrRange, p.X, p.N)
		}
		if i == 0 || p.N != points[i-1].N {
			different++
		}
	}
	if different < fewestN {
		return USL{}, fmt.Errorf("%w: %d different N, and the law needs %d", ErrRange, different, fewestN)
	}
	u, err := leastSquares(points)
	if err != nil {
		return USL{}, err
	}
	u.Largest = points[len(points)-1].N
	residuals := make([]float64, len(points))
	mean, left, whole := 0.0, 0.0, 0.0
	for _, p := range points {
		mean += p.X / float64(len(points))
	}
	for i, p := range points {
		residuals[i] = p.X - u.at(p.N)
		left += residuals[i] * residuals[i]
		whole += (p.X - mean) * (p.X - mean)
	}
	if whole > 0 {
		u.R2 = 1 - left/whole
	}
	u.RunsP = runsTest(residuals)
	u.bands(points, residuals)
	return u, nil
}

// leastSquares fits the three parameters. For given σ and κ the best λ is known, so the
// search is over two, as squares of numbers without a bound.
func leastSquares(points []Scaling) (USL, error) {
	of := func(x []float64) (u USL, cost float64) {
		u = USL{Sigma: x[0] * x[0], Kappa: x[1] * x[1], Lambda: 1}
		xg, gg := 0.0, 0.0
		for _, p := range points {
			g := u.at(p.N)
			xg, gg = xg+p.X*g, gg+g*g
		}
		u.Lambda = xg / gg
		scale := 0.0
		for _, p := range points {
			d := p.X - u.at(p.N)
			cost, scale = cost+d*d, scale+p.X*p.X
		}
		return u, cost / scale
	}
	var best USL
	least := math.Inf(1)
	for _, start := range [][]float64{{0.2, 0.01}, {0.05, 0.1}, {0.9, 0.001}} {
		found, err := optimize.Minimize(optimize.Problem{Func: func(x []float64) float64 { _, c := of(x); return c }}, start,
			&optimize.Settings{Converger: &optimize.FunctionConverge{Relative: 1e-12, Absolute: 1e-16, Iterations: 100}, MajorIterations: 2000},
			&optimize.NelderMead{SimplexSize: 0.02})
		if found == nil {
			return USL{}, fmt.Errorf("capacity: fitting the Universal Scalability Law: %w", err)
		}
		if u, c := of(found.X); c < least {
			best, least = u, c
		}
	}
	if !finite(best.Sigma, best.Kappa, best.Lambda) || best.Lambda <= 0 {
		return USL{}, fmt.Errorf("%w: the Universal Scalability Law fits no parameters to these throughputs", ErrRange)
	}
	return best, nil
}

// bands draws residuals anew onto the fitted line and fits again.
func (u *USL) bands(points []Scaling, residuals []float64) {
	r := rand.New(rand.NewPCG(1, 1))
	var sigma, kappa, lambda []float64
	for range uslDraws {
		drawn := slices.Clone(points)
		for i := range drawn {
			drawn[i].X = max(u.at(drawn[i].N)+residuals[r.IntN(len(residuals))], math.SmallestNonzeroFloat64)
		}
		if v, err := leastSquares(drawn); err == nil {
			sigma, kappa, lambda = append(sigma, v.Sigma), append(kappa, v.Kappa), append(lambda, v.Lambda)
		}
	}
	band := func(values []float64) Interval {
		slices.Sort(values)
		at := func(p float64) float64 { return values[int(math.Round(p*float64(len(values)-1)))] }
		if len(values) == 0 {
			return Interval{}
		}
		return Interval{at(0.025), at(0.5), at(0.975)}
	}
	u.SigmaBand, u.KappaBand, u.LambdaBand = band(sigma), band(kappa), band(lambda)
}

// at is the law at n, wherever that lies.
func (u USL) at(n float64) float64 {
	return u.Lambda * n / (1 + u.Sigma*(n-1) + u.Kappa*n*(n-1))
}

// Throughput is X(n). The error wraps [ErrRange] beyond [Reach] times the largest N of the
// fit, below 1, and if the law is rejected.
func (u USL) Throughput(n float64) (float64, error) {
	if why := u.Rejected(); why != "" {
		return 0, fmt.Errorf("%w: %s", ErrRange, why)
	}
	if !finite(n) || n < 1 || n > Reach*u.Largest {
		return 0, fmt.Errorf("%w: N = %g, and the law was fitted up to %g, of which %d times is the most", ErrRange, n, u.Largest, Reach)
	}
	return u.at(n), nil
}

// Peak is where throughput is highest, N = √((1 − σ)/κ), and how high it is there. The
// error wraps [ErrRange] if there is no peak (κ = 0 or σ ≥ 1), or beyond [Reach] times the
// largest N.
func (u USL) Peak() (n, x float64, err error) {
	if u.Kappa <= 0 || u.Sigma >= 1 {
		return 0, 0, fmt.Errorf("%w: the law has no peak with σ = %.3g and κ = %.3g", ErrRange, u.Sigma, u.Kappa)
	}
	n = math.Max(1, math.Floor(math.Sqrt((1-u.Sigma)/u.Kappa)))
	x, err = u.Throughput(n)
	return n, x, err
}

// Rejected says why the law must not be used, or is "".
func (u USL) Rejected() string {
	switch {
	case u.R2 < leastVariance:
		return fmt.Sprintf("USL rejected: it explains %.0f %% of the variance", 100*u.R2)
	case u.RunsP < structured:
		return fmt.Sprintf("USL rejected: its residuals have structure (runs test, p = %.2g)", u.RunsP)
	}
	return ""
}

// runsTest is the chance that signs in random order have as few runs as those of x have,
// or fewer (Wald and Wolfowitz, 1940; exact). Zeros are left out; it is 1 if one sign
// is all.
func runsTest(x []float64) float64 {
	plus, minus, runs, last := 0, 0, 0, 0.0
	for _, v := range x {
		if v == 0 {
			continue
		}
		sign := math.Copysign(1, v)
		if sign > 0 {
			plus++
		} else {
			minus++
		}
		if sign != last {
			runs, last = runs+1, sign
		}
	}
	if plus == 0 || minus == 0 {
		return 1
	}
	p := 0.0
	for r := 2; r <= runs; r++ {
		p += runsChance(r, plus, minus)
	}
	return min(p, 1)
}

// runsChance is the chance of exactly r runs in a random order of a and b signs.
func runsChance(r, a, b int) float64 {
	all := choose(a+b, a)
	k := r / 2
	if r%2 == 0 {
		return 2 * choose(a-1, k-1) * choose(b-1, k-1) / all
	}
	return (choose(a-1, k)*choose(b-1, k-1) + choose(a-1, k-1)*choose(b-1, k)) / all
}

// choose is n over k, 0 where there is none.
func choose(n, k int) float64 {
	if k < 0 || k > n {
		return 0
	}
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return math.Round(c)
}
