package search

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

var searches = flag.Int("searches", 6, "how many searches of each known knee, by as many seeds")

// A station is a server of one queue with Poisson arrivals, whose knee is known in closed
// form: the rate at which the 99th percentile of the response is bound.
type station struct {
	name    string
	service func(*rand.Rand) float64 // in mean services; the mean takes a millisecond
	bound   time.Duration
	knee    float64 // arrivals a second
}

const meanService = 1e6 // ns

// md1 is P(response ≤ t) of M/D/1 at utilisation rho, t in services: the distribution of
// the wait (A. K. Erlang, 1909), moved by the service.
func md1(rho, t float64) float64 {
	t-- // of the wait
	if t < 0 {
		return 0
	}
	sum, factorial := 0.0, 1.0
	for k := 0; k <= int(t); k++ {
		if k > 0 {
			factorial *= float64(k)
		}
		x := rho * (float64(k) - t)
		sum += math.Pow(x, float64(k)) / factorial * math.Exp(-x)
	}
	return (1 - rho) * sum
}

func stations() []station {
	list := []station{
		// M/M/1: the response is exponential with rate µ − λ.
		{name: "M/M/1", service: (*rand.Rand).ExpFloat64, bound: 20 * time.Millisecond, knee: 1000 - math.Log(100)/0.020},
		{name: "M/D/1", service: func(*rand.Rand) float64 { return 1 }, bound: 10 * time.Millisecond},
	}
	low, high := 0.0, 1.0
	for range 60 {
		if mid := (low + high) / 2; md1(mid, 10) > 0.99 {
			low = mid
		} else {
			high = mid
		}
	}
	list[1].knee = 1000 * low
	return list
}

// run is a window of n arrivals by Lindley's recursion (1952), as the harness would have
// stored it. It is counted in buckets of a ten-thousandth of the bound.
func (s station) run(rng *rand.Rand, rate float64, n int) *results.Run {
	const windows, fine = 20, 10_000
	gap := 1e9 / rate / meanService // in services
	most := float64(s.bound) / meanService
	buckets := make([]int, 4*fine)
	r := &results.Run{
		Valid: results.Valid{OK: true}, Load: results.Load{Rate: rate}, Window: time.Duration(float64(n) / rate * 1e9),
		Metrics: results.Metrics{results.AcqRate: rate}, Series: &results.Series{},
		Exact: map[string]results.Exact{results.Response: {Count: int64(n)}},
	}
	wait := 0.0
	const warm = 50_000
	for i := -warm; i < n; i++ {
		work := s.service(rng)
		if i >= 0 {
			buckets[min(int((wait+work)/most*fine), len(buckets)-1)]++
			if (i+1)%(n/windows) == 0 {
				r.Series.Backlog = append(r.Series.Backlog, int64(wait))
			}
		}
		wait = max(0, wait+work-gap*rng.ExpFloat64())
	}
	below := 0
	for i, count := range buckets {
		if below += count; float64(below) >= 0.99*float64(n) {
			r.Metrics[results.Response+"-p99-ns"] = (float64(i) + 0.5) / fine * float64(s.bound)
			break
		}
	}
	return r
}

// The simulation and the closed form agree, else the next test proves nothing.
func TestStations(t *testing.T) {
	for _, s := range stations() {
		p99 := s.run(rand.New(rand.NewPCG(1, 1)), s.knee, 4_000_000).Metrics[results.Response+"-p99-ns"]
		if off := p99/float64(s.bound) - 1; math.Abs(off) > 0.03 {
			t.Errorf("%s at its knee of %.1f/s: p99 %v, want %v", s.name, s.knee, time.Duration(p99), s.bound)
		}
	}
}

// The search finds a knee that is known, by the judgement that real runs get.
func TestKnownKnees(t *testing.T) {
	const arrivals = 1_000_000
	seeds := *searches
	if testing.Short() {
		seeds = 2
	}
	for _, s := range stations() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			slo := results.SLO{{Metric: results.Response + "-p99-ns", Below: s.bound}}
			near, tries := 0, 0
			for seed := range seeds {
				rng := rand.New(rand.NewPCG(uint64(seed), 42))
				r, rates := play(t, Config{Floor: 60 + float64(seed), Tolerance: 0.02}, func(_ int, rate float64) results.Answer {
					return slo.Judge(s.run(rng, rate, arrivals)).Answer
				})
				tries += len(rates)
				off := max(math.Abs(r.Low/s.knee-1), math.Abs(r.High/s.knee-1))
				if r.End != Found || off > 0.10 {
					t.Errorf("seed %d: %+v, and the knee is at %.1f/s; tried %v", seed, r, s.knee, rates)
				}
				if off <= 0.05 {
					near++
				}
			}
			if 100*near < 95*seeds {
				t.Errorf("%d of %d within 5 %% of %.1f/s", near, seeds, s.knee)
			}
			t.Logf("%d of %d within 5 %% of %.1f/s, %.1f runs each", near, seeds, s.knee, float64(tries)/float64(seeds))
		})
	}
}
