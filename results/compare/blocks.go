package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lockbench/lockbench/results"
)

// fewestBlocks is the number of valid blocks that a trial needs to be compared with itself:
// two halves of as many as a test takes.
const fewestBlocks = 12

var errFewBlocks = fmt.Errorf("no trial has %d valid blocks, which a comparison with itself takes: measure with -repeat %d or more", fewestBlocks, fewestBlocks)

// A stretch is the valid runs of one trial, one for each block.
type stretch struct {
	name string
	runs []results.Run
}

// blocksOf are the trials with enough valid blocks, by their names.
func blocksOf(runs []results.Run, across []string) (list []stretch) {
	runs = results.Relate(runs)
	for _, same := range byIdentity(runs, across) {
		s := stretch{name: called(same[0], across)}
		at := places(same, false)
		for _, p := range slices.SortedFunc(maps.Keys(at), comparePlaces) {
			if at[p].Valid.OK {
				s.runs = append(s.runs, *at[p])
			}
		}
		if len(s.runs) >= fewestBlocks {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b stretch) int { return cmp.Compare(a.name, b.name) })
	return list
}

// sideOf makes a side of runs whose blocks are numbered anew, so that the first ones of two
// samples are a pair.
func sideOf(name string, runs []results.Run) Side {
	s := Side{Name: name}
	for i, r := range runs {
		r.Session, r.Block = name, i
		s.Runs = append(s.Runs, r)
	}
	return s
}

func oddEven(runs []results.Run, half int) (odd, even []results.Run) {
	for i, r := range runs[:2*half] {
		if i%2 == 0 {
			odd = append(odd, r)
		} else {
			even = append(even, r)
		}
	}
	return odd, even
}

func errFewFor(pairs int) error {
	return fmt.Errorf("no trial has %d valid blocks, which draws of twice %d take: measure with -repeat %d or more", 2*pairs, pairs, 2*pairs)
}
