package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fileTimer is a timerfd. The kernel's high-resolution timer makes the file
// readable, and that wakes the runtime's poller at once; the poller's own time-out
// would be of whole milliseconds.
type fileTimer struct {
	file *os.File
	fd   int   // of file, whose Fd would make it block
	zero int64 // CLOCK_MONOTONIC when the run's clock was 0
	spec unix.ItimerSpec
	buf  [8]byte // for the number of rings
}

func newFileTimer(c clock) (timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	t := &fileTimer{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd, zero: c.monotonic}
	// NewFile says nothing of a file that the poller refuses, whose Read would not
	// wait. Such a file has no deadlines either.
	if err := t.file.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *fileTimer) arm(at int64) error {
	t.spec.Value = unix.NsecToTimespec(max(t.zero+at, 1)) // 0 would stop it
	return unix.TimerfdSettime(t.fd, unix.TFD_TIMER_ABSTIME, &t.spec, nil)
}

func (t *fileTimer) wait() error {
	_, err := io.ReadFull(t.file, t.buf[:])
	return err
}

func (t *fileTimer) close() error { return t.file.Close() }

// newTimers makes n timers on c, all of one kind: a machine without timerfd has
// those of the runtime.
func newTimers(n int, c clock) (list []timer, kind string, err error) {
	for i := range n {
		t, err := newFileTimer(c)
		switch {
		case err == nil:
			list = append(list, t)
			continue
		case i == 0 && !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE):
			return runtimeTimers(n, c)
		}
		for _, t := range list {
			err = errors.Join(err, t.close())
		}
		return nil, "", fmt.Errorf("making timer %d of %d: %w", i+1, n, err)
	}
	return list, TimerFD, nil
}

// enoughFiles says what to do where this process may not open as many files as
// timers and connections take beside those that it has open.
func enoughFiles(timers, conns int) error {
	var limit unix.Rlimit
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return nil //nolint:nilerr // what is not known is seen when it fails
	}
	if need := uint64(len(open) + timers + conns); need > limit.Cur {
		return fmt.Errorf("%d files are needed (%d timers of the owners, %d connections, %d that are open), and the limit is %d: give fewer owners, or raise it (ulimit -n %d)",
			need, timers, conns, len(open), limit.Cur, need)
	}
	return nil
}
