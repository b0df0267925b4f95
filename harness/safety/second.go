package safety

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockbench/lockbench/harness"
)

// The second opinion: the same history as operations on a mutex, checked for
// linearizability (A. Athalye, "Porcupine: A Fast Linearizability Checker in Go"). A scene
// has a few dozen of them, so that the search, which may take exponential time and memory,
// is over at once; one that is not says nothing.

// secondWithin bounds the search.
const secondWithin = 5 * time.Second

// mutexOp is an operation on the mutex of a key: one client takes it, or gives it back.
type mutexOp struct {
	key, owner int
	take       bool
}

// mutex is free or has an owner. Only the owner gives it back.
func mutex() porcupine.Model {
	const free = -1
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			by := map[int][]porcupine.Operation{}
			for _, o := range history {
				k := o.Input.(mutexOp).key
				by[k] = append(by[k], o)
			}
			var parts [][]porcupine.Operation
			for _, part := range by {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() any { return free },
		Step: func(state, input, _ any) (bool, any) {
			o, owner := input.(mutexOp), state.(int)
			if o.take {
				return owner == free, o.owner
			}
			return owner == o.owner, free
		},
	}
}

// operations are those of a history. One that was refused did nothing. A hold ends when its
// process does; one that has no end has none.
func operations(events []harness.Event) (list []porcupine.Operation) {
	type who struct{ actor, key int }
	called, inside := map[who]int64{}, map[who]bool{}
	ending := map[who]int{} // its release among list
	for _, e := range events {
		w := who{e.Actor, e.Key}
		op := func(take bool, from, to int64) {
			list = append(list, porcupine.Operation{ClientId: e.Actor, Input: mutexOp{e.Key, e.Actor, take}, Call: from, Return: to})
		}
		switch e.Deed {
		case harness.Called:
			called[w] = e.Ticket
		case harness.Granted:
			op(true, called[w], e.Ticket)
			inside[w] = true
		case harness.Left:
			ending[w] = len(list)
			op(false, e.Ticket, math.MaxInt64)
			delete(inside, w)
		case harness.Released, harness.Lost, harness.Unfreed:
			if i, ok := ending[w]; ok {
				list[i].Return = e.Ticket
				delete(ending, w)
			}
		case harness.Killed:
			for w := range inside {
				if w.actor == e.Actor {
					list = append(list, porcupine.Operation{ClientId: e.Actor, Input: mutexOp{w.key, w.actor, false}, Call: e.Ticket, Return: e.Ticket})
					delete(inside, w)
				}
			}
		}
	}
	return list
}

// second returns an error if the second opinion on events is another than that of the
// sweep, which found so many overlaps, or if there is none.
func second(events []harness.Event, overlaps int) error {
	legal := porcupine.CheckOperationsTimeout(mutex(), operations(events), secondWithin)
	if want := map[bool]porcupine.CheckResult{true: porcupine.Ok, false: porcupine.Illegal}[overlaps == 0]; legal != want {
		return fmt.Errorf("two judges disagree: the sweep found %d overlaps, and the history is %q to a linearizability checker", overlaps, legal)
	}
	return nil
}
