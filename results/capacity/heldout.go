package capacity

import (
	"context"
	"math"
	"slices"

	"github.com/lockbench/lockbench/results"
)

// judge compares m with valid runs that it was not calibrated with.
func (m *Model) judge(ctx context.Context, first *results.Run, held []*results.Run) (Errors, error) {
	var e Errors
	var throughput, p99 []float64
	for _, r := range held {
		if usable(r, first) != nil {
			e.Refused++
			continue
		}
		p, err := m.Predict(ctx, r.Load, Options{Plans: manyPlans, Seed: seed})
		if ctx.Err() != nil {
			return Errors{}, ctx.Err()
		}
		name := results.Acquire
		if r.Load.Rate > 0 {
			name = results.Wait
		}
		measured, ok := r.Metrics[name+"-p99-ns"]
		if err != nil || !ok || measured <= 0 {
			e.Refused++
			continue
		}
		e.Runs++
		throughput = append(throughput, off(p.Rate.Mid, r.Metrics[results.AcqRate]))
		p99 = append(p99, off(p.P99.Mid, measured))
		if p.P99.Holds(measured) {
			e.Inside++
		}
	}
	e.Throughput, e.P99 = median(throughput), median(p99)
	return e, nil
}

func off(predicted, measured float64) float64 { return math.Abs(predicted-measured) / measured }

// median is that of values, of which it changes the order; 0 if there are none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	slices.Sort(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
