package bench

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seesStops: the kernel tells when a child was stopped, without reaping it.
const seesStops = true

// childAttr makes a process a member of group, and ends it when we are killed.
func childAttr(group int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: group, Pdeathsig: syscall.SIGKILL}
}

// guardAttr makes a process the leader of a group, which goes on when we are killed even
// where the group is stopped.
func guardAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT}
}

// stopSignal is the signal that has stopped the child pid since this was last asked, or 0.
func stopSignal(pid int) syscall.Signal {
	// A siginfo_t: signal, errno and code, on 64 bits a gap, then pid, uid and status.
	var info [32]int32
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, unix.P_PID, uintptr(pid), uintptr(unsafe.Pointer(&info)), unix.WSTOPPED|unix.WNOHANG, 0, 0)
	at := 2 + int(unsafe.Sizeof(uintptr(0))/4)
	if errno != 0 || info[at] != 0 && int(info[at]) != pid {
		return 0
	}
	return syscall.Signal(info[at+2])
}

// halted tells whether pid is stopped.
func halted(pid int) bool {
	state, _, ok := procStat(strconv.Itoa(pid))
	return ok && state == 'T'
}

// others tells whether the group has members beside its guard that are not dead.
func (g *processGroup) others() bool {
	dir, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false
	}
	guard := g.guard.Process.Pid
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' || name == strconv.Itoa(guard) {
			continue
		}
		if state, group, ok := procStat(name); ok && group == guard && state != 'Z' && state != 'X' {
			return true
		}
	}
	return false
}

// procStat is the state and the group of a process.
func procStat(pid string) (state byte, group int, ok bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, 0, false
	}
	// Its name, in brackets, may hold anything.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 3 {
		return 0, 0, false
	}
	group, err = strconv.Atoi(string(f[2]))
	return f[0][0], group, err == nil
}
