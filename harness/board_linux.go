package harness

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/lockbench/lockbench/results"
)

// processes says that owners can live in processes of their own here.
const processes = true

// DefaultProcs is Load.Procs of a measurement that is told nothing else: locks are for
// processes.
func DefaultProcs() int { return 8 }

// newMemory is a file in memory, which has no name on any disk: there, writing it back
// would stall those that write to it.
func newMemory() (*os.File, error) {
	fd, err := unix.MemfdCreate("lockbench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making memory to share: %w", os.NewSyscallError("memfd_create", err))
	}
	return os.NewFile(uintptr(fd), "lockbench"), nil
}

// clearMemory makes file all zero, and as long as the board of a run under l.
func clearMemory(file *os.File, l results.Load) error {
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("clearing the shared memory: %w", err)
	}
	if err := file.Truncate(int64(boardSize(l))); err != nil {
		return fmt.Errorf("sizing the shared memory: %w", err)
	}
	return nil
}

// mapBoard maps file, which clearMemory has sized for l. Close unmaps it: then nobody
// may touch it.
func mapBoard(file *os.File, l results.Load) (*board, error) {
	return mapped(int(file.Fd()), unix.MAP_SHARED, l)
}

// ownBoard is the board of a run in this process alone.
func ownBoard(l results.Load) (*board, error) {
	return mapped(-1, unix.MAP_SHARED|unix.MAP_ANON, l)
}

// mapFile maps the first size bytes of the file fd, which all that map it share.
func mapFile(fd int, size int64) ([]byte, error) {
	memory, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("sharing memory: %w", os.NewSyscallError("mmap", err))
	}
	return memory, nil
}

// unmapFile undoes mapFile. Nobody may touch the memory any more.
func unmapFile(memory []byte) error { return os.NewSyscallError("munmap", unix.Munmap(memory)) }

func mapped(fd, flags int, l results.Load) (*board, error) {
	memory, err := unix.Mmap(fd, 0, boardSize(l), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, fmt.Errorf("taking memory for the run: %w", os.NewSyscallError("mmap", err))
	}
	b, err := on(memory, l)
	if err != nil {
		return nil, err
	}
	b.close = func() error { return os.NewSyscallError("munmap", unix.Munmap(memory)) }
	return b, nil
}
