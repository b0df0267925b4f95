//go:build !linux

package harness

import (
	"errors"
	"os"
	"unsafe"

	"github.com/lockbench/lockbench/results"
)

// processes says that all owners live in this process here: the processes of a run
// need a file in memory, and one monotonic clock whose value the system tells.
const processes = false

// DefaultProcs is Load.Procs of a measurement that is told nothing else.
func DefaultProcs() int { return 0 }

var errNoProcesses = errors.New("owners can live in processes of their own on Linux only: give -procs 0")

func newMemory() (*os.File, error) { return nil, errNoProcesses }

func clearMemory(*os.File, results.Load) error { return errNoProcesses }

func mapBoard(*os.File, results.Load) (*board, error) { return nil, errNoProcesses }

func mapFile(int, int64) ([]byte, error) { return nil, errNoProcesses }

func unmapFile([]byte) error { return errNoProcesses }

// ownBoard is the board of a run in this process alone.
func ownBoard(l results.Load) (*board, error) {
	words := make([]uint64, (boardSize(l)+7)/8)
	b, err := on(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), boardSize(l)), l)
	if err == nil {
		b.close = func() error { return nil }
	}
	return b, err
}
