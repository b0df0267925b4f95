// Package search finds the highest rate at which something meets its objective: it doubles
// the rate until one fails, bisects down to a tolerance, and confirms what it found, by
// measuring it and its neighbours again and again. It measures nothing itself: it says which
// rate comes next, and is told what became of it.
//
//	s := search.New(search.Config{Floor: 100})
//	for rate, ok := s.Next(); ok; rate, ok = s.Next() {
//		s.Tell(measure(rate))
//	}
//	found := s.Result()
package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/lockbench/lockbench/results"
)

// A Config says what to search. The zero value of each field but Floor is its default.
type Config struct {
	Floor     float64 // the rate to begin with, above 0
	Least     float64 // the lowest that makes sense; 0 is Floor ÷ 1024
	Most      float64 // the highest; 0 is no bound
	Tolerance float64 // High ÷ Low − 1 to stop at; 0 is DefaultTolerance
	Confirm   int     // rounds of the confirmation; 0 is DefaultConfirm
	Restarts  int     // how often a confirmation may contradict what was found; 0 is 3
}

// The defaults of a Config.
const (
	DefaultTolerance = 0.05
	DefaultConfirm   = 5
)

// An End says why a search is over; "" is that it is not.
type End string

// The ends.
const (
	Found    End = "found"    // the interval is as narrow as asked, and confirmed
	Harness  End = "harness"  // likewise, but above it the harness or the machine was the limit
	Ceiling  End = "ceiling"  // the highest rate met the objective
	Floor    End = "floor"    // the lowest one did not
	Unsteady End = "unsteady" // confirmations contradicted the search each time; see Result
)

// A Result is what is known so far.
type Result struct {
	// Low is a rate at which the objective was met, High one at which it was not; 0 is none.
	// Where the search ended Unsteady, Low is the highest rate up to which each answer was
	// that it is met, and High the next one that was tried.
	Low, High float64
	End       End
	// Limited says that at High the harness or the machine was the limit.
	Limited bool
}

// The phases, as they are stored.
const (
	doubling   = "double"
	halving    = "halve"
	bisecting  = "bisect"
	confirming = "confirm"
)

// A vote counts the answers at one rate of a confirmation.
type vote struct {
	rate                 float64
	met, missed, limited int
}

func (v *vote) tell(a results.Answer) {
	switch a {
	case results.Met:
		v.met++
	case results.Missed:
		v.missed++
	case results.Limited, results.Unknown:
		v.limited++
	}
}

// against is how many did not meet it.
func (v *vote) against() int { return v.missed + v.limited }

// loses tells that most of n rounds will have been against it, whatever the rest says.
func (v *vote) loses(n int) bool { return 2*v.against() > n }

// A Search is under way between New and the last Next. It is used by one goroutine.
type Search struct {
	c         Config
	phase     string
	low, high float64 // met and not met last; 0 is none yet
	limited   bool    // at high the harness was the limit
	next      float64
	end       End

	all      []vote  // every answer so far, by rate
	votes    [3]vote // of a confirmation: the rate below, the winner, the one above
	told     int     // answers in this confirmation
	restarts int
}

// New begins a search. It panics if Floor is not above 0, or Tolerance below 0.
func New(c Config) *Search {
	if !(c.Floor > 0) || c.Tolerance < 0 || c.Confirm < 0 {
		panic(fmt.Sprintf("search: no such search: %+v", c))
	}
	if c.Least <= 0 {
		c.Least = c.Floor / 1024
	}
	if c.Most <= 0 {
		c.Most = math.Inf(1)
	}
	if c.Tolerance == 0 {
		c.Tolerance = DefaultTolerance
	}
	if c.Confirm == 0 {
		c.Confirm = DefaultConfirm
	}
	if c.Restarts == 0 {
		c.Restarts = 3
	}
	c.Least, c.Most = neat(c.Least), neat(c.Most)
	return &Search{c: c, phase: doubling, next: min(max(neat(c.Floor), c.Least), c.Most)}
}

// neat is x with four digits, so that the names of trials stay short.
func neat(x float64) float64 {
	if math.IsInf(x, 0) {
		return x
	}
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // what was just formatted
	return y
}

// Next is the rate to measure, or false once the search is over. It does not change until
// Tell.
func (s *Search) Next() (rate float64, ok bool) {
	if s.end != "" {
		return 0, false
	}
	return s.next, true
}

// Phase is what the next rate is for: "double", "halve", "bisect" or "confirm".
func (s *Search) Phase() string { return s.phase }

// Result is what is known. Before the search is over it has no End.
func (s *Search) Result() Result {
	return Result{Low: s.low, High: s.high, End: s.end, Limited: s.limited && s.high > 0}
}

// Tell says what became of the rate of Next. Anything but results.Met counts as not met.
func (s *Search) Tell(a results.Answer) {
	if s.end != "" {
		return
	}
	i, known := slices.BinarySearchFunc(s.all, s.next, func(v vote, rate float64) int { return cmp.Compare(v.rate, rate) })
	if !known {
		s.all = slices.Insert(s.all, i, vote{rate: s.next})
	}
	s.all[i].tell(a)
	if s.phase == confirming {
		s.confirm(a)
		return
	}
	if a == results.Met {
		s.low = s.next
	} else {
		s.high, s.limited = s.next, a != results.Missed
	}
	s.onward()
}

// onward chooses the rate that follows from low and high.
func (s *Search) onward() {
	narrow := (1 + s.c.Tolerance) * (1 + 1e-9)
	switch {
	case s.high == 0 && s.low >= s.c.Most:
		s.end = Ceiling
	case s.high == 0:
		s.phase, s.next = doubling, min(neat(2*s.low), s.c.Most)
	case s.low == 0 && s.high <= s.c.Least:
		s.end = Floor
	case s.low == 0:
		s.phase, s.next = halving, max(neat(s.high/2), s.c.Least)
	default:
		s.phase, s.next = bisecting, neat(math.Sqrt(s.low*s.high))
		if s.high/s.low <= narrow || s.next <= s.low || s.next >= s.high {
			s.begin()
		}
	}
}

// begin starts the confirmation of low, between its neighbours.
func (s *Search) begin() {
	s.phase, s.told = confirming, 0
	below := max(neat(s.low/(1+s.c.Tolerance)), s.c.Least)
	s.votes = [3]vote{{rate: min(below, s.low)}, {rate: s.low}, {rate: s.high}}
	s.next = s.votes[s.turn()].rate
}

// turn is whose turn it is: each round goes the other way than the one before, so that a
// machine that drifts treats all three alike.
func (s *Search) turn() int {
	i := s.told % 3
	if s.told/3%2 == 1 {
		i = 2 - i
	}
	return i
}

// undisputed is the highest rate up to which each answer was that the objective is met, the
// next one that was tried, and whether the harness was mostly the limit there; 0 is none.
func (s *Search) undisputed() (low, high float64, limited bool) {
	for _, v := range s.all {
		if v.against() > 0 {
			return low, v.rate, v.limited > v.missed
		}
		low = v.rate
	}
	return low, 0, false
}

// confirm takes an answer of a confirmation. The search was wrong if the winner fails in most
// rounds, or the rate above it in none. Of the interval that remains, the lower end met the
// objective in each round and the upper one did not.
func (s *Search) confirm(a results.Answer) {
	n := s.c.Confirm
	below, winner, above := &s.votes[0], &s.votes[1], &s.votes[2]
	s.votes[s.turn()].tell(a)
	s.told++
	again := func(low, high float64, limited bool) {
		s.low, s.high, s.limited = low, high, limited
		if s.restarts++; s.restarts > s.c.Restarts {
			s.end = Unsteady
			s.low, s.high, s.limited = s.undisputed()
			return
		}
		s.onward()
	}
	switch {
	case winner.loses(n):
		// It once met the objective by luck.
		high := winner
		if below.loses(n) {
			high = below
		}
		low := 0.0 // what is below has to be found anew
		if below.met > 0 && below.against() == 0 && below.rate < winner.rate {
			low = below.rate
		}
		again(low, high.rate, high.limited > high.missed)
		return
	case s.told < 3*n:
		s.next = s.votes[s.turn()].rate
		return
	case above.against() == 0:
		// The one that failed did so by bad luck, or while somebody disturbed it. Less than
		// each round does not tell: at the knee itself some runs meet the objective.
		again(above.rate, 0, false)
		return
	}
	s.end = Found
	switch {
	case winner.against() == 0:
		s.limited = above.limited > above.missed
	case below.against() == 0 && below.rate < winner.rate:
		s.low, s.high, s.limited = below.rate, winner.rate, winner.limited > winner.missed
	default:
		// Neither met it each time, so that a rate farther down has to.
		high, limited := below.rate, below.limited > below.missed
		if below.against() == 0 { // it is the winner, as low as makes sense
			high, limited = winner.rate, winner.limited > winner.missed
		}
		s.end = ""
		again(0, high, limited)
		return
	}
	if s.limited {
		s.end = Harness
	}
}
