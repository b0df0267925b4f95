package fault

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An alarm wakes one goroutine at a set time. A timer of the Go runtime is late
// by up to a millisecond where nothing else happens, because it ends a wait that
// the kernel counts in whole ones; a timer that is a file wakes the same wait to
// the microsecond.
type alarm struct{ f *os.File }

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &alarm{os.NewFile(uintptr(fd), "timerfd")}, nil
}

// set has wait return once, d from now; what was set before is forgotten.
func (a *alarm) set(d time.Duration) {
	raw, err := a.f.SyscallConn()
	if err != nil {
		return // closed
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))} // 0 would turn it off
	_ = raw.Control(func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), 0, &spec, nil) })
}

// wait returns true when the alarm rings, and false once it is closed.
func (a *alarm) wait() bool {
	var count [8]byte
	_, err := a.f.Read(count[:])
	return err == nil
}

func (a *alarm) close() { _ = a.f.Close() }
