package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockbench/lockbench/impls/lock"
)

// pids are the numbers in file, which a command has written.
func pids(t testing.TB, file string) (list []int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, n)
	}
	return list
}

// lives tells whether pid does, or has not been buried.
func lives(pid int) bool {
	state, _, ok := procStat(strconv.Itoa(pid))
	return ok && state != 'Z' && state != 'X'
}

// family is a command that writes the numbers of a shell and of its child to a file,
// says that it is inside and ends with its standard input. The child starts nothing more:
// who has just forked cannot be stopped while its child is.
func family(file string) []string {
	return []string{"--", "sh", "-c", `echo $$ >"$0"; sh -c 'echo $$ >>"$0"; echo inside; read x; exit 0' "$0"; exit`, file}
}

func TestLockPassesEverySignalToTheGroup(t *testing.T) {
	url := redisServer(t)
	conn := look(t, url)
	for _, s := range []syscall.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGPIPE, syscall.SIGABRT, syscall.SIGWINCH, syscall.SIGIO, syscall.Signal(40),
	} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			file, key, n := filepath.Join(t.TempDir(), "got"), s.String(), strconv.Itoa(int(s))
			const script = `trap 'echo outer >>"$0"; exit 43' "$1"
				sh -c 'trap "echo inner >>\"\$0\"; exit" "$1"; echo inside; while :; do sleep 0.02; done' "$0" "$1"; exit 0`
			h := hold(t, locked(t, url, "-key", key, "--", "bash", "-c", script, file, n))
			if err := h.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if status := h.wait(t); status != 43 {
				t.Errorf("exit status %d; stderr %q", status, h.stderr)
			}
			if got, err := os.ReadFile(file); string(got) != "inner\nouter\n" {
				t.Errorf("the signal came to %q (%v)", got, err)
			}
			if do(t, conn, "EXISTS", key) != int64(0) {
				t.Error("the key is still there")
			}
		})
	}
}

// A signal that ends a process ends one that waits.
func TestLockWaiterEndsOnHangup(t *testing.T) {
	url := redisServer(t)
	h := hold(t, locked(t, url, append([]string{"-key", "k", "-algo", "redis-handoff"}, inside()...)...))
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		waiter := locked(t, url, "-key", "k", "-algo", "redis-handoff", "--", "echo", "in")
		var stderr strings.Builder
		waiter.Stderr = &stderr
		if err := waiter.Start(); err != nil {
			t.Fatal(err)
		}
		// It catches signals before it starts the guard.
		eventually(t, "the waiter has a guard", func() bool { return len(guardsOf(waiter.Process.Pid)) == 1 })
		guard := guardsOf(waiter.Process.Pid)
		if err := waiter.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		_ = waiter.Wait()
		oneLine(t, outcome{waiter.ProcessState.ExitCode(), "", stderr.String()}, 128+int(s), "before the key was held")
		if lives(guard[0]) {
			t.Error("the guard is left")
		}
	}
	if status := h.letGo(t); status != 0 {
		t.Errorf("the holder: %d %s", status, h.stderr)
	}
}

// children are the processes that pid has started.
func children(pid int) (list []int) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, word := range strings.Fields(string(text)) {
			n, _ := strconv.Atoi(word)
			list = append(list, n)
		}
	}
	return list
}

// guardsOf are those of the children of pid that are guards: Go tries out with a child of its
// own what the kernel can.
func guardsOf(pid int) []int {
	return slices.DeleteFunc(children(pid), func(child int) bool {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/environ")
		return !strings.Contains(string(text), guardVariable+"=")
	})
}

// Killed outright, lockbench can do nothing, and no part of its command may go on.
func TestLockKilledEndsTheGroup(t *testing.T) {
	url := redisServer(t)
	// As in a container whose first process is of our session: there the kernel does not
	// continue a group that is stopped when we die.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	for _, c := range []struct{ name, trap, before string }{
		{"at work", "", ""},
		{"deaf", "trap '' HUP TERM INT;", ""},
		{"stopped", "", "stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pids")
			words := family(file)
			words[3] = c.trap + words[3]
			// Its child would end with the pipes of this test otherwise.
			words[3] = strings.ReplaceAll(words[3], "read x", "exec sleep 600")
			h := hold(t, locked(t, url, append([]string{"-key", c.name}, words...)...))
			all := append(pids(t, file), children(h.Process.Pid)...) // and the guard
			if c.before != "" {
				group, err := syscall.Getpgid(all[0])
				if err != nil || syscall.Kill(-group, syscall.SIGSTOP) != nil {
					t.Fatal("the group cannot be stopped", err)
				}
				eventually(t, "lockbench is stopped", func() bool { return halted(h.Process.Pid) && halted(all[0]) })
			}
			if err := h.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = h.Wait()
			for _, pid := range all {
				eventually(t, "the group has ended", func() bool { return !lives(pid) })
			}
		})
	}
}

// What a command leaves behind in its group would work without a lease.
func TestLockEndsWhatTheCommandLeft(t *testing.T) {
	url := redisServer(t)
	conn := look(t, url)
	for _, c := range []struct {
		name, trap string
	}{{"ends on SIGTERM", ""}, {"ignores SIGTERM", "trap '' TERM;"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			o := finish(t, locked(t, url, "-key", c.name, "--", "sh", "-c", c.trap+`sleep 600 >/dev/null 2>&1 & echo $! >"$0"; exit 7`, file))
			if o != (outcome{7, "", ""}) {
				t.Errorf("%+v", o)
			}
			if lives(pids(t, file)[0]) {
				t.Error("a process is left in the group of the command")
			}
			if do(t, conn, "EXISTS", c.name) != int64(0) {
				t.Error("the key is still there")
			}
		})
	}
	t.Run("before the key is free", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "status")
		try := locked(t, url, "-key", "asked", "-wait", "0", "--", "true")
		o := finish(t, locked(t, url, append([]string{"-key", "asked", "--", "sh", "-c", `sh -c '
				trap "\"\$@\"; echo \$? >\"\$0\"; exit" TERM
				echo >"$0.ready"; while :; do sleep 0.02; done' "$0" "$@" >/dev/null 2>&1 &
			until [ -e "$0.ready" ]; do sleep 0.01; done`, file, try.Path}, try.Args[1:]...)...))
		if o != (outcome{0, "", ""}) {
			t.Errorf("%+v", o)
		}
		if got, err := os.ReadFile(file); string(got) != "75\n" {
			t.Errorf("what was left got the key with status %q (%v), want 75", got, err)
		}
	})
	t.Run("lost", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "pids")
		// The shell ends at once, its child is deaf.
		h := hold(t, locked(t, url, "-ttl", "600ms", "-key", "lost", "--", "sh", "-c",
			`sh -c 'trap "" TERM; echo $$ >"$0"; echo inside; exec sleep 600 >/dev/null 2>&1' "$0" & wait`, file))
		if do(t, conn, "DEL", "lost") != int64(1) {
			t.Fatal("the key was not there")
		}
		if status := h.wait(t); status != exitLost {
			t.Errorf("exit status %d: %s", status, h.stderr)
		}
		if lives(pids(t, file)[0]) {
			t.Error("a process is left in the group of the command")
		}
	})
}

// Lockbench and its command stop and go on together.
func TestLockStopsWithItsCommand(t *testing.T) {
	url := redisServer(t)
	for _, c := range []struct {
		name string
		stop func(wrapper, command, group int) error
		cont func(wrapper, command, group int) error
	}{
		{"lockbench", func(w, _, _ int) error { return syscall.Kill(w, syscall.SIGTSTP) }, func(w, _, _ int) error { return syscall.Kill(w, syscall.SIGCONT) }},
		{"command", func(_, c, _ int) error { return syscall.Kill(c, syscall.SIGSTOP) }, func(w, _, _ int) error { return syscall.Kill(w, syscall.SIGCONT) }},
		{"group", func(_, _, g int) error { return syscall.Kill(-g, syscall.SIGTSTP) }, func(_, _, g int) error { return syscall.Kill(-g, syscall.SIGCONT) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pids")
			h := hold(t, locked(t, url, append([]string{"-ttl", "5m", "-key", c.name}, family(file)...)...))
			all := append(pids(t, file), h.Process.Pid)
			group, err := syscall.Getpgid(all[0])
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				var asked time.Time
				eventually(t, "all are stopped", func() bool {
					// Lockbench may have let the group go on only after our last look.
					if time.Since(asked) > 3*time.Second {
						if err := c.stop(h.Process.Pid, all[0], group); err != nil {
							t.Fatal(err)
						}
						asked = time.Now()
					}
					return !slices.ContainsFunc(all, func(pid int) bool { return !halted(pid) })
				})
				if err := c.cont(h.Process.Pid, all[0], group); err != nil {
					t.Fatal(err)
				}
				for _, pid := range all {
					eventually(t, "all go on", func() bool { return !halted(pid) })
				}
			}
			if status := h.letGo(t); status != 0 {
				t.Errorf("exit status %d: %s", status, h.stderr)
			}
		})
	}
}

// A lease that ended while lockbench was stopped is lost, and its command does not go on.
func TestLockContinuedTooLate(t *testing.T) {
	url := redisServer(t)
	conn := look(t, url)
	for _, c := range []struct {
		name string
		stop syscall.Signal
	}{{"with its command", syscall.SIGTSTP}, {"alone", syscall.SIGSTOP}} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "went")
			h := hold(t, locked(t, url, "-ttl", "600ms", "-key", c.name, "--", "bash", "-c",
				`trap 'echo on >"$0"; exit' CONT; echo inside; while :; do sleep 0.02; done`, file))
			if err := h.Process.Signal(c.stop); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is stopped", func() bool { return halted(h.Process.Pid) })
			eventually(t, "the lease has ended", func() bool { return do(t, conn, "EXISTS", c.name) == int64(0) })
			if err := h.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			if status := h.wait(t); status != exitLost {
				t.Errorf("exit status %d: %s", status, h.stderr)
			}
			if !strings.Contains(h.stderr.String(), `the lease on key "`+c.name+`" is lost: ending the command`) {
				t.Errorf("stderr: %q", h.stderr)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("the command went on without a lease")
			}
		})
	}
}

// passed is a lease that has ended a moment ago.
type passed struct{ lock.Lease }

func (passed) Lost() <-chan struct{} { return nil }

func (passed) Deadline() time.Time { return time.Now().Add(-time.Nanosecond) }

// The clock tells of the end before those who watch it have been woken.
func TestLockGoneByTheClock(t *testing.T) {
	if !gone(t.Context(), passed{}) {
		t.Error("a lease whose deadline has passed counts as held")
	}
}

// The program that a signal ends has the status of that signal, as before.
func TestLockStatusOfASignal(t *testing.T) {
	h := hold(t, locked(t, redisServer(t), append([]string{"-key", "k"}, inside()...)...))
	if err := h.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if status := h.wait(t); status != 128+int(syscall.SIGHUP) {
		t.Errorf("exit status %d: %s", status, h.stderr)
	}
}

// nohup stays what it is.
func TestLockIgnoresWhatItIsTold(t *testing.T) {
	cmd := locked(t, redisServer(t), append([]string{"-key", "k"}, inside()...)...)
	path := cmd.Path
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args = sh, append([]string{"sh", "-c", `trap '' HUP; exec "$0" "$@"`, path}, cmd.Args[1:]...)
	h := hold(t, cmd)
	if err := h.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := h.Process.Signal(syscall.SIGWINCH); err != nil { // passed on, and ignored
		t.Fatal(err)
	}
	if status := h.letGo(t); status != 0 {
		t.Errorf("exit status %d: %s", status, h.stderr)
	}
}
