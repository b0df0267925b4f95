package bench

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A desk is a terminal with somebody who reads and types at it.
type desk struct {
	keys *os.File
	mu   sync.Mutex
	seen strings.Builder
}

// withoutTerminal skips a test on a system that makes no terminals, or fails it where
// LOCKBENCH_REQUIRE lists them.
func withoutTerminal(t testing.TB, err error) {
	t.Helper()
	if required("terminal") {
		t.Fatalf("LOCKBENCH_REQUIRE lists terminal: %v", err)
	}
	t.Skipf("NOT TESTED: no terminal: %v", err)
}

// sit starts cmd as the first process of a session on a new terminal.
func sit(t testing.TB, cmd *exec.Cmd) *desk {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		withoutTerminal(t, err)
	}
	t.Cleanup(func() { _ = keys.Close() })
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		withoutTerminal(t, err)
	}
	defer func() { _ = screen.Close() }()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	d := &desk{keys: keys}
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := keys.Read(b)
			d.mu.Lock()
			d.seen.Write(b[:n])
			d.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return d
}

func (d *desk) sees(t testing.TB, text string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			d.mu.Lock()
			defer d.mu.Unlock()
			t.Logf("on the screen: %q", d.seen.String())
		}
	}()
	eventually(t, "the screen shows "+text, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return strings.Contains(d.seen.String(), text)
	})
}

func (d *desk) types(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(d.keys, text); err != nil {
		t.Fatal(err)
	}
}

// under is a call of lock by a shell on a terminal. In the script "$@" is the call.
func under(t testing.TB, script string, rest ...string) *exec.Cmd {
	t.Helper()
	cmd := locked(t, redisServer(t), append([]string{"-key", "k", "--"}, rest...)...)
	bash := onPath(t, "bash")
	cmd.Args = append([]string{"bash", "-c", script, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = bash
	return cmd
}

// The command is who reads from the terminal and whom its keys interrupt, and the shell
// has the terminal again afterwards.
func TestLockHasTheTerminal(t *testing.T) {
	cmd := under(t, `"$0" "$@"; echo "status $?"; read y; echo "after: $y"`,
		"bash", "-c", `set -- $(</proc/$$/stat); echo "foreground: $(($5 == $8))"
			trap "echo interrupted; exit 9" INT; read x; echo "read: $x"; while :; do sleep 0.02; done`)
	d := sit(t, cmd)
	d.sees(t, "foreground: 1") // before it asks for it
	d.types(t, "one\n")
	d.sees(t, "read: one")
	d.types(t, "\x03")
	d.sees(t, "interrupted")
	d.sees(t, "status 9")
	d.types(t, "two\n")
	d.sees(t, "after: two")
}

// In a pipeline the terminal is the others' until the command asks for it.
func TestLockGetsTheTerminalItAsksFor(t *testing.T) {
	cmd := under(t, `"$0" "$@" | cat; read y; echo "after: $y"`, "bash", "-c", `echo asks; read x; echo "read: $x"`)
	d := sit(t, cmd)
	d.sees(t, "asks")
	d.types(t, "one\n")
	d.sees(t, "read: one")
	d.types(t, "two\n")
	d.sees(t, "after: two")
}

// A job that is stopped by its key gives the terminal to the shell, and gets it back.
func TestLockIsAJob(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	cmd := under(t, `set -m; "$0" "$@"; echo "stopped: $?"; read y; echo "shell: $y"; fg >/dev/null; echo "status $?"; read z; echo "after: $z"`,
		"bash", "-c", `echo $$ $PPID >"$0"; echo inside; read x; echo "read: $x"; exit 5`, file)
	d := sit(t, cmd)
	d.sees(t, "inside")
	d.types(t, "\x1a")
	d.sees(t, "stopped: ")
	for _, pid := range pids(t, file) {
		eventually(t, "the job is stopped", func() bool { return halted(pid) })
	}
	d.types(t, "one\n")
	d.sees(t, "shell: one")
	for _, pid := range pids(t, file) {
		eventually(t, "the job goes on", func() bool { return !halted(pid) })
	}
	d.types(t, "two\n")
	d.sees(t, "read: two")
	d.sees(t, "status 5")
	d.types(t, "three\n")
	d.sees(t, "after: three")
}

// A wrapper that is killed leaves the terminal to the shell. That may be a moment after the
// shell has seen it end, and until then the shell cannot read.
func TestLockKilledLeavesTheTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	cmd := under(t, `"$0" "$@"; echo "status $?"; until read y; do sleep 0.02; done; echo "after: $y"`, "bash", "-c", `echo $PPID >"$0"; echo inside; exec sleep 600`, file)
	d := sit(t, cmd)
	d.sees(t, "inside")
	if err := syscall.Kill(pids(t, file)[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.sees(t, "status 137")
	d.types(t, "one\n")
	d.sees(t, "after: one")
}
