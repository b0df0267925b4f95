//go:build unix && !linux

package bench

import "syscall"

// seesStops: a stop of the command alone is not seen here, only one of ours.
const seesStops = false

// childAttr makes a process a member of group.
func childAttr(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group}
}

// guardAttr makes a process the leader of a group.
func guardAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func stopSignal(int) syscall.Signal { return 0 }

func halted(int) bool { return false }

// others is not known here: what the command has left in its group is killed at once.
func (*processGroup) others() bool { return false }
