package server

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time in ns of the process pid: of all its threads, those that
// have ended included, which a sum over the threads of /proc would forget (a JVM
// ends some of them under load). It is the clock that clock_getcpuclockid(3) names,
// and unlike the ticks of /proc/PID/stat it does not count in steps of 10 ms.
func cpuTime(pid int) (ns float64, ok bool) {
	const sched = 2 // CPUCLOCK_SCHED of the kernel's posix-timers.h: what the scheduler has counted
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, false
	}
	return float64(t.Nano()), true
}

// readyTime is how long in ns the threads of pid that live have stood ready without a CPU:
// the second figure of their schedstat (Documentation/scheduler/sched-stats.rst of the
// kernel).
func readyTime(pid int) (ns float64, ok bool) {
	files, err := filepath.Glob(filepath.Join(procDir(pid), "task", "*", "schedstat"))
	if err != nil {
		return 0, false
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended meanwhile
		}
		var used, ready float64
		if _, err := fmt.Sscan(string(text), &used, &ready); err != nil {
			return 0, false
		}
		ns, ok = ns+ready, true
	}
	return ns, ok
}
