// Package safety plays locks under faults, one cell after the other of the matrix that they
// make, and says what really happened.
//
// A cell is a scene with client processes of its own, which do one thing at a time as they
// are told, so that the order in which things happen is forced and not hoped for. Whether
// two were inside is read off one log whose order needs no clock.
package safety

import (
	"context"
	"slices"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// A Fault is one column of the matrix.
type Fault struct {
	Name string
	Doc  string // one sentence
	// Applies says in a few words why the fault cannot strike v, or "".
	Applies func(v lock.Variant) string
	// Servers says on which servers the fault is played.
	Servers Servers
	// Play brings about the fault in s. An error says that the play proves nothing.
	Play func(ctx context.Context, s *Scene) error
}

// Servers are those that a fault is played on. The zero value is the ones that all cells
// of a lock's needs share, and that no fault may hurt.
type Servers struct {
	// Own asks for servers that no other cell uses at the same time. They are closed
	// afterwards unless Healed says that they are as good as new.
	Own, Healed bool
	// Name tells servers of one need and other Options apart; "" where there are none.
	Name    string
	Options func(o *server.Options) // nil leaves them
	Nodes   int                     // at least; 0 is what the lock needs
	// Spare are further ones, behind those that the lock is opened on.
	Spare int
}

// Faults are all columns, in their order.
func Faults() []Fault {
	return slices.Concat(clientFaults(), redisFaults(), sessionFaults(), crashFaults(), limitFaults(), ensembleFaults(), switchFaults())
}
