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
	key, owner   int
	take, shared bool
}

// inside is who has a key: a writer, or so many readers.
type inside struct{ writer, readers int }

// mutex is free, or has a writer or readers. Only the writer gives back what is its own.
func mutex() porcupine.Model {
	free := inside{writer: -1}
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
			o, in := input.(mutexOp), state.(inside)
			switch {
			case o.take && o.shared:
				return in.writer == free.writer, inside{in.writer, in.readers + 1}
			case o.take:
				return in == free, inside{writer: o.owner}
			case o.shared:
				return in.readers > 0, inside{in.writer, in.readers - 1}
			}
			return in.writer == o.owner, free
		},
	}
}

// operations are those of a history. One that was refused did nothing. A hold ends when its
// process does; one that has no end has none.
func operations(events []harness.Event) (list []porcupine.Operation) {
	type who struct{ actor, key int }
	called, within := map[who]int64{}, map[who][]bool{} // each hold, whether as a reader
	ending := map[who]int{}                             // its release among list
	for _, e := range events {
		w := who{e.Actor, e.Key}
		op := func(w who, take, shared bool, from, to int64) {
			list = append(list, porcupine.Operation{ClientId: w.actor, Input: mutexOp{w.key, w.actor, take, shared}, Call: from, Return: to})
		}
		switch e.Deed {
		case harness.Called:
			called[w] = e.Ticket
		case harness.Granted:
			op(w, true, e.Shared, called[w], e.Ticket)
			within[w] = append(within[w], e.Shared)
		case harness.Left:
			n := len(within[w])
			if n == 0 {
				continue
			}
			ending[w] = len(list)
			op(w, false, within[w][n-1], e.Ticket, math.MaxInt64)
			within[w] = within[w][:n-1]
		case harness.Released, harness.Lost, harness.Unfreed:
			if i, ok := ending[w]; ok {
				list[i].Return = e.Ticket
				delete(ending, w)
			}
		case harness.Killed:
			for w, holds := range within {
				if w.actor != e.Actor {
					continue
				}
				for _, shared := range holds {
					op(w, false, shared, e.Ticket, e.Ticket)
				}
				delete(within, w)
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
