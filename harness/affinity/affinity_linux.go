package affinity

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Of lists the CPUs on which the first thread of the process pid may run, in
// rising order. The error wraps os.ErrProcessDone if there is no such process.
func Of(pid int) ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return nil, failed("CPUs of", pid, err)
	}
	var cpus []int
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
			left--
		}
	}
	return cpus, nil
}

// passes bounds how often Set looks for threads that others have made meanwhile.
const passes = 100

// Set lets all threads of the process pid run on cpus only, and so those that
// they will make, and the processes. The error wraps os.ErrProcessDone if there is
// no such process; after any error some of the threads may be bound.
//
// A thread takes the CPUs of the one that makes it, so while some are not bound
// yet more of that kind may come: Set goes over all until it finds nothing to do.
func Set(pid int, cpus []int) error {
	var want unix.CPUSet
	for _, cpu := range cpus {
		want.Set(cpu)
	}
	for range passes {
		threads, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*"))
		if len(threads) == 0 {
			return failed("binding", pid, unix.ESRCH)
		}
		changed := false
		for _, t := range threads {
			id, err := strconv.Atoi(filepath.Base(t))
			if err != nil {
				continue // the kernel names threads by numbers only
			}
			did, err := bind(id, want)
			if err != nil && !errors.Is(err, unix.ESRCH) { // which has ended meanwhile
				return failed("binding", pid, err)
			}
			changed = changed || did
		}
		if !changed {
			return nil
		}
	}
	return failed("binding", pid, fmt.Errorf("its threads do not stay on CPUs %s", Text(cpus)))
}

// bind binds one thread, and tells whether it was not so before.
func bind(thread int, want unix.CPUSet) (changed bool, err error) {
	var now unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &now); err != nil || now == want {
		return false, err
	}
	return true, unix.SchedSetaffinity(thread, &want)
}

// On runs f on a thread that may use cpu only, and gives the thread back as it was:
// the first one of a process would stay bound if its goroutine just ended. Its error
// is that of f, or says that the thread could not be bound.
func On(cpu int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return failed("CPUs of a thread of", os.Getpid(), err)
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return failed("binding a thread of", os.Getpid(), err)
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &before))
}

func failed(what string, pid int, err error) error {
	if errors.Is(err, unix.ESRCH) {
		err = os.ErrProcessDone
	}
	return fmt.Errorf("affinity: %s process %d: %w", what, pid, err)
}
