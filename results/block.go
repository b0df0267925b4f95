package results

import (
	"math"
	"slices"
	"time"
)

// How uneven the yardstick may be: a block in which it is further off its median over the
// blocks was disturbed. It takes three blocks to say so, and holds that a mutex in memory
// spends most of its time in.
const (
	maxUneven    = 0.10
	minBlocks    = 3
	minEvenHolds = time.Millisecond
)

// Latest are runs without those that were measured again in the same block.
func Latest(runs []Run) []Run {
	last := make(map[place]int)
	for i := range runs {
		at := placeOf(&runs[i])
		last[at] = max(last[at], runs[i].Again)
	}
	return slices.DeleteFunc(slices.Clone(runs), func(r Run) bool { return r.Again < last[placeOf(&r)] })
}

// place is where a run stands among those of its command.
type place struct {
	session string
	block   int
	trial   string
}

func placeOf(r *Run) place { return place{r.Session, r.Block, r.Trial} }

// Uneven returns those of runs that were measured in a disturbed block: beside a yardstick
// in memory that was more than a tenth off its median over the blocks. It judges closed
// loops with holds of 1 ms and more in at least three blocks, and none that a number of
// attempts bounds. Yardsticks are among them.
func Uneven(runs []Run) (list []Run) {
	type pair struct {
		session string
		block   int
		load    string
	}
	of := func(r *Run) pair { return pair{r.Session, r.Block, loadOf(r)} }
	rates := make(map[pair][]float64) // of all blocks, so that of a pair the block is 0
	for i := range runs {
		if r := &runs[i]; evens(r) {
			all := of(r)
			all.block = 0
			rates[all] = append(rates[all], r.Metrics[AcqRate])
		}
	}
	off := make(map[pair]bool)
	for i := range runs {
		r := &runs[i]
		all := of(r)
		all.block = 0
		if !evens(r) || len(rates[all]) < minBlocks {
			continue
		}
		median := PointOf(rates[all]).Median
		off[of(r)] = math.Abs(r.Metrics[AcqRate]-median) > maxUneven*median
	}
	for i := range runs {
		if off[of(&runs[i])] {
			list = append(list, runs[i])
		}
	}
	return list
}

// evens reports whether r is a yardstick by which blocks are judged.
func evens(r *Run) bool {
	return r.Algo == YardstickOf(r.Load) && !r.Load.Open() && r.Load.Ops == 0 && r.Load.Hold.Mean >= minEvenHolds
}
