package harness

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/lockbench/lockbench/harness/affinity"
	"golang.org/x/sys/unix"
)

// crossings is how often a crossing is timed.
const crossings = 15

// idleBefore is how long both threads of a crossing sleep before it: long enough for
// a CPU that has nothing else to do to halt, as it does while a lock is held.
const idleBefore = 500 * time.Microsecond

// crossing is the time from a write to a pipe until the thread that slept in reading
// it runs, at the median: where both are bound to one CPU, and where each is on
// another one, which has to be woken. It is what each of the messages of a hand-over
// takes beyond the work for it, see Load.Pin. A figure that cannot be had is 0: other of
// a process that may use one CPU only, and both where Go lets one thread run at a time,
// because the writer's would keep the reader's out while it sleeps in the kernel.
func crossing() (same, other time.Duration) {
	cpus, err := affinity.Of(os.Getpid())
	if err != nil || len(cpus) == 0 || runtime.GOMAXPROCS(0) < 2 {
		return 0, 0
	}
	last := cpus[len(cpus)-1]
	same = cross(last, last)
	if len(cpus) > 1 {
		other = cross(cpus[0], last)
	}
	return same, other
}

// cross is crossing from one CPU to another, or 0 if that fails.
func cross(from, to int) time.Duration {
	var pipe [2]int
	if unix.Pipe2(pipe[:], unix.O_CLOEXEC) != nil {
		return 0
	}
	defer func() { _ = unix.Close(pipe[0]) }() // of a pipe it cannot fail
	took := make(chan []time.Duration)
	began := time.Now() // what is written is the time since
	go func() { took <- arrivals(to, pipe[0], began) }()
	err := depart(from, pipe[1], began)
	_ = unix.Close(pipe[1])
	all := <-took
	if err != nil || len(all) < crossings {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// depart writes to fd from cpu, crossings times.
func depart(cpu, fd int, began time.Time) error {
	return affinity.On(cpu, func() error {
		for range crossings {
			nanosleep(idleBefore)
			now := binary.NativeEndian.AppendUint64(nil, uint64(time.Since(began)))
			if _, err := unix.Write(fd, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// arrivals reads on cpu what depart writes until fd ends, and returns how long each
// was under way.
func arrivals(cpu, fd int, began time.Time) (took []time.Duration) {
	_ = affinity.On(cpu, func() error { // whose failure shows in what is missing
		var sent [8]byte
		for {
			n, err := unix.Read(fd, sent[:])
			now := time.Since(began)
			switch {
			case errors.Is(err, unix.EINTR):
			case err != nil || n < len(sent):
				return err
			default:
				took = append(took, now-time.Duration(binary.NativeEndian.Uint64(sent[:])))
			}
		}
	})
	return took
}
