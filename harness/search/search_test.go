package search

import (
	"math"
	"slices"
	"testing"

	"github.com/lockbench/lockbench/results"
)

// play answers a search with what answer says of the n-th try, from 0, at a rate, and
// returns the result and the rates.
func play(t *testing.T, c Config, answer func(n int, rate float64) results.Answer) (Result, []float64) {
	t.Helper()
	s := New(c)
	var rates []float64
	for rate, ok := s.Next(); ok; rate, ok = s.Next() {
		if again, _ := s.Next(); again != rate {
			t.Fatalf("Next says %g and then %g, without an answer between", rate, again)
		}
		if len(rates) > 500 {
			t.Fatalf("no end after %d tries: %v", len(rates), rates)
		}
		s.Tell(answer(len(rates), rate))
		rates = append(rates, rate)
	}
	if s.Tell(results.Met); s.Result().End == "" {
		t.Error("an answer after the end has reopened the search")
	}
	return s.Result(), rates
}

// below meets the objective up to knee.
func below(knee float64) func(int, float64) results.Answer {
	return func(_ int, rate float64) results.Answer {
		if rate <= knee {
			return results.Met
		}
		return results.Missed
	}
}

func TestSearch(t *testing.T) {
	limitedAbove := func(limit, knee float64) func(int, float64) results.Answer {
		return func(_ int, rate float64) results.Answer {
			switch {
			case rate > limit:
				return results.Limited
			case rate > knee:
				return results.Missed
			}
			return results.Met
		}
	}
	for _, tc := range []struct {
		name   string
		c      Config
		answer func(int, float64) results.Answer
		knee   float64 // lies in the interval
		end    End
	}{
		{"above the floor", Config{Floor: 100}, below(777), 777, Found},
		{"below the floor", Config{Floor: 1000}, below(77), 77, Found},
		{"at the floor", Config{Floor: 100}, below(100), 100, Found},
		{"narrow", Config{Floor: 100, Tolerance: 0.005}, below(777), 777, Found},
		{"beyond the most", Config{Floor: 100, Most: 500}, below(777), 0, Ceiling},
		{"below the least", Config{Floor: 100, Least: 30}, below(7), 0, Floor},
		{"the harness first", Config{Floor: 100}, limitedAbove(500, 900), 500, Harness},
		{"the lock first", Config{Floor: 100}, limitedAbove(900, 500), 500, Found},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, rates := play(t, tc.c, tc.answer)
			if r.End != tc.end || r.Limited != (tc.end == Harness) {
				t.Fatalf("ended as %+v, want %s; tried %v", r, tc.end, rates)
			}
			switch tc.end {
			case Ceiling:
				if r.Low != tc.c.Most || r.High != 0 {
					t.Errorf("found %+v", r)
				}
				return
			case Floor:
				if r.Low != 0 || r.High != tc.c.Least {
					t.Errorf("found %+v", r)
				}
				return
			}
			tolerance := tc.c.Tolerance
			if tolerance == 0 {
				tolerance = DefaultTolerance
			}
			if r.Low > tc.knee || r.High <= tc.knee || r.High/r.Low > 1+tolerance+1e-3 { // rates have four digits
				t.Errorf("found %+v, want an interval of %g around %g", r, tolerance, tc.knee)
			}
			// The confirmation has each of its three rates five times, interleaved.
			last := rates[len(rates)-15:]
			for i := 0; i+5 < len(last); i += 6 {
				if !slices.Equal(last[i:i+3], []float64{last[0], last[1], last[2]}) || !slices.Equal(last[i+3:i+6], []float64{last[2], last[1], last[0]}) {
					t.Errorf("confirmed in the order %v", last)
				}
			}
			if last[1] != r.Low || last[2] != r.High {
				t.Errorf("confirmed %v, and found %+v", last, r)
			}
		})
	}
}

// One wrong answer, wherever it falls, does not move the result.
func TestOneWrongAnswer(t *testing.T) {
	const knee = 777
	right, rates := play(t, Config{Floor: 10}, below(knee))
	for wrong := range rates {
		r, tried := play(t, Config{Floor: 10}, func(n int, rate float64) results.Answer {
			a := below(knee)(n, rate)
			if n != wrong {
				return a
			}
			if a == results.Met {
				return results.Missed
			}
			return results.Met
		})
		// In the confirmation, a rate that failed once has to give way to the next one.
		step := 1 + DefaultTolerance + 1e-3
		if r.End != Found || r.Low > knee || r.High < knee/step || r.Low < right.Low/(step*step) || r.High > right.High*step {
			t.Errorf("with the answer at try %d (%g/s) turned round: %+v, want about %+v; tried %v", wrong, rates[wrong], r, right, tried)
		}
	}
}

// Whom no answer binds is not searched for ever, and the result is no interval that most
// of the answers contradict.
func TestUnsteady(t *testing.T) {
	// What once failed is met from then on, and what was met fails.
	seen := make(map[float64]int)
	r, _ := play(t, Config{Floor: 100}, func(_ int, rate float64) results.Answer {
		seen[rate]++
		if (rate < 1000) == (seen[rate] == 1) {
			return results.Met
		}
		return results.Missed
	})
	if r.End != Unsteady && r.End != Floor {
		t.Errorf("ended as %+v", r)
	}
}

// What nobody contradicted remains when a search ends without a knee.
func TestUnsteadyKeepsWhatIsUndisputed(t *testing.T) {
	seen := make(map[float64]int)
	r, rates := play(t, Config{Floor: 100}, func(_ int, rate float64) results.Answer {
		seen[rate]++
		switch {
		case rate <= 250, rate <= 400 && seen[rate]%2 == 1:
			return results.Met
		}
		return results.Missed
	})
	low, high := 0.0, math.Inf(1)
	for _, rate := range rates {
		if rate > 400 || rate > 250 && seen[rate] > 1 {
			high = min(high, rate)
		}
	}
	for _, rate := range rates {
		if rate < high {
			low = max(low, rate)
		}
	}
	if r.End != Unsteady || r.Low != low || r.High != high || low < 200 {
		t.Errorf("ended as %+v, want what nobody contradicted, %g to %g; tried %v", r, low, high, rates)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{{}, {Floor: -1}, {Floor: math.NaN()}, {Floor: 1, Tolerance: -1}, {Floor: 1, Confirm: -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("New(%+v) makes a search", c)
				}
			}()
			New(c)
		}()
	}
}
