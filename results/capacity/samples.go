package capacity

import (
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/lockbench/lockbench/results"
)

// samples is a distribution as it was measured. The zero value is always 0.
type samples struct {
	values []int64 // ns, rising
	upTo   []int64 // how many samples are at most values[i]
	mean   float64
}

// sampled is the histogram name of r, empty if it has none.
func sampled(r *results.Run, name string) (samples, error) {
	text, ok := r.Hist[name]
	if !ok {
		return samples{}, nil
	}
	h, err := results.DecodeHistogram(text, r.Exact[name])
	if err != nil {
		return samples{}, fmt.Errorf("capacity: %s of run %s: %w", name, r.ID, err)
	}
	var s samples
	n := int64(0)
	for value, count := range h.Bars() {
		n += count
		s.values, s.upTo = append(s.values, value), append(s.upTo, n)
	}
	if n > 0 {
		s.mean = h.Mean()
	}
	return s, nil
}

// n is how many samples there are.
func (s samples) n() int64 {
	if len(s.upTo) == 0 {
		return 0
	}
	return s.upTo[len(s.upTo)-1]
}

// draw is one sample by chance, in ns.
func (s samples) draw(r *rand.Rand) int64 {
	n := s.n()
	if n == 0 {
		return 0
	}
	rank := r.Int64N(n)
	return s.values[sort.Search(len(s.upTo), func(i int) bool { return s.upTo[i] > rank })]
}

// less is s with every sample lower by d, and none below 0.
func (s samples) less(d int64) samples {
	out := samples{upTo: s.upTo, mean: max(0, s.mean-float64(d))}
	for _, v := range s.values {
		out.values = append(out.values, max(0, v-d))
	}
	return out
}
