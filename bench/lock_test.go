package bench

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// locked is `lockbench lock` on url with the words of rest.
func locked(t testing.TB, url string, rest ...string) *exec.Cmd {
	return process(t, append([]string{"lock", "-redis", url}, rest...)...)
}

// look opens a connection to url to see what is there.
func look(t testing.TB, url string) wire.Conn {
	t.Helper()
	conn, err := goredis.Dial(t.Context(), lock.Endpoint(url), lock.Config{}.Filled())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func do(t testing.TB, conn wire.Conn, args ...any) any {
	t.Helper()
	reply, err := conn.Do(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// A holder is a command that runs under a lock until it is let go.
type holder struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stderr *strings.Builder
}

// hold starts cmd, which has to print a line when it is inside and to end when
// its standard input does, and waits for that line.
func hold(t testing.TB, cmd *exec.Cmd) *holder {
	t.Helper()
	h := &holder{Cmd: cmd, stderr: new(strings.Builder)}
	cmd.Stderr = h.stderr
	cmd.WaitDelay = 20 * time.Second // for a grandchild that keeps the pipes open
	var err error
	if h.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		_ = cmd.Wait()
		t.Fatalf("not inside: %q %v %s", line, err, h.stderr)
	}
	return h
}

// letGo ends the holder and returns its exit status.
func (h *holder) letGo(t testing.TB) int {
	t.Helper()
	_ = h.stdin.Close()
	return h.wait(t)
}

func (h *holder) wait(t testing.TB) int {
	t.Helper()
	var ended *exec.ExitError
	if err := h.Wait(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return h.ProcessState.ExitCode()
}

// inside is a command that fulfils what hold asks for.
func inside() []string { return []string{"--", "sh", "-c", "echo inside; cat >/dev/null"} }

func TestLockExcludes(t *testing.T) {
	url := redisServer(t)
	conn := look(t, url)
	for _, client := range []string{"goredis", "redigo"} {
		t.Run(client, func(t *testing.T) {
			const key = "orders/42 {ü}" // verbatim
			h := hold(t, locked(t, url, append([]string{"-algo", "redis-token", "-client", client, "-key", key}, inside()...)...))
			if do(t, conn, "EXISTS", key) != int64(1) {
				t.Errorf("there is no key %q", key)
			}
			second := locked(t, url, "-algo", "redis-token", "-client", client, "-key", key, "-wait", "200ms", "--", "echo", "in")
			o := finish(t, second)
			oneLine(t, o, exitTimeout, "is held by another owner; gave up after 200ms")
			if o.stdout != "" {
				locktest.Violation(t, "the command ran beside the holder: %q", o.stdout)
			}
			other := finish(t, locked(t, url, "-algo", "redis-token", "-key", "another", "-wait", "5s", "--", "echo", "in"))
			if other.status != 0 || other.stdout != "in\n" {
				t.Errorf("another key: %+v", other)
			}
			if status := h.letGo(t); status != 0 {
				t.Errorf("the holder's exit status is %d: %s", status, h.stderr)
			}
			if do(t, conn, "EXISTS", key) != int64(0) {
				t.Error("the key is still there")
			}
			again := finish(t, locked(t, url, "-algo", "redis-token", "-client", client, "-key", key, "--", "echo", "in"))
			if again.status != 0 || again.stdout != "in\n" || again.stderr != "" {
				t.Errorf("%+v", again)
			}
		})
	}
}

// Many processes count in a file without another protection.
func TestLockProtectsACounter(t *testing.T) {
	url := redisServer(t)
	file := filepath.Join(t.TempDir(), "n")
	if err := os.WriteFile(file, []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	const n = 12
	done := make(chan outcome, n)
	for range n {
		cmd := locked(t, url, "-key", "counter", "--", "sh", "-c", `n=$(cat "$0"); sleep 0.01; echo $((n + 1)) >"$0"`, file)
		go func() { done <- finish(t, cmd) }()
	}
	for range n {
		if o := <-done; o.status != 0 {
			t.Errorf("%+v", o)
		}
	}
	if b, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(b)) != strconv.Itoa(n) {
		locktest.Violation(t, "counted to %q (%v), want %d", b, err, n)
	}
}

func TestLockPassesOnExitStatus(t *testing.T) {
	url := redisServer(t)
	conn := look(t, url)
	notExecutable := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notExecutable, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		cmd    []string
		status int
		said   string
	}{
		{"success", []string{"true"}, 0, ""},
		{"failure", []string{"sh", "-c", "exit 3"}, 3, ""},
		{"75", []string{"sh", "-c", "exit 75"}, 75, ""},
		{"signal", []string{"sh", "-c", "kill -9 $$"}, 128 + 9, ""},
		{"not found", []string{"nosuch-command"}, 127, "not found"},
		{"no file", []string{"./nosuch-command"}, 127, "no such file"},
		{"not executable", []string{notExecutable}, 126, "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := finish(t, locked(t, url, append([]string{"-key", "k", "--"}, c.cmd...)...))
			if c.said != "" {
				oneLine(t, o, c.status, c.said)
			} else if o.status != c.status || o.stderr != "" {
				t.Errorf("%+v, want status %d", o, c.status)
			}
			if do(t, conn, "EXISTS", "k") != int64(0) {
				t.Error("the key is still there")
			}
		})
	}
}

func TestLockPassesOnItsStreams(t *testing.T) {
	cmd := locked(t, redisServer(t), "-key", "k", "--", "sh", "-c", "cat; echo to stderr >&2")
	cmd.Stdin = strings.NewReader("to stdin\n")
	if o := finish(t, cmd); o != (outcome{0, "to stdin\n", "to stderr\n"}) {
		t.Errorf("%+v", o)
	}
}

func TestLockToken(t *testing.T) {
	url := redisServer(t)
	show := []string{"-key", "k", "--", "sh", "-c", `echo "token=$LOCKBENCH_TOKEN"`}
	var last uint64
	for range 3 {
		o := finish(t, locked(t, url, append([]string{"-algo", "redis-fenced"}, show...)...))
		n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(o.stdout, "token=")), 10, 64)
		if err != nil || n <= last {
			t.Fatalf("%+v after token %d", o, last)
		}
		last = n
	}
	// The token of an outer lock is no token of this one.
	cmd := locked(t, url, append([]string{"-algo", "redis-token"}, show...)...)
	cmd.Env = append(cmd.Env, "LOCKBENCH_TOKEN=7")
	if o := finish(t, cmd); o.stdout != "token=\n" || o.status != 0 {
		t.Errorf("%+v", o)
	}
}

func TestLockLost(t *testing.T) {
	url := redisServer(t)
	conn := look(t, url)
	for _, c := range []struct{ name, script string }{
		{"ends on SIGTERM", "echo inside; exec cat >/dev/null"},
		{"ignores SIGTERM", "trap '' TERM; echo inside; cat >/dev/null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			key := "lost " + c.name
			h := hold(t, locked(t, url, "-algo", "redis-watchdog", "-ttl", "600ms", "-key", key, "--", "sh", "-c", c.script))
			if do(t, conn, "DEL", key) != int64(1) {
				t.Fatal("the key was not there")
			}
			if status := h.wait(t); status != exitLost {
				t.Errorf("exit status %d, want %d", status, exitLost)
			}
			if got := h.stderr.String(); got != "lockbench lock: the lease on key \""+key+"\" is lost: ending the command\n" {
				t.Errorf("stderr: %q", got)
			}
		})
	}
	t.Run("noticed at the release", func(t *testing.T) {
		t.Parallel()
		h := hold(t, locked(t, url, append([]string{"-algo", "redis-token", "-key", "late"}, inside()...)...))
		if do(t, conn, "DEL", "late") != int64(1) {
			t.Fatal("the key was not there")
		}
		if status := h.letGo(t); status != exitLost || !strings.Contains(h.stderr.String(), "was lost while the command ran") {
			t.Errorf("exit status %d, stderr %q", status, h.stderr)
		}
	})
	t.Run("not renewed", func(t *testing.T) {
		t.Parallel()
		h := hold(t, locked(t, url, append([]string{"-algo", "redis-token", "-ttl", "700ms", "-key", "short"}, inside()...)...))
		if status := h.wait(t); status != exitLost {
			t.Errorf("exit status %d, stderr %q", status, h.stderr)
		}
	})
}

func TestLockForwardsSignals(t *testing.T) {
	url := redisServer(t)
	conn := look(t, url)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			const script = "trap 'exit 41' INT; trap 'exit 42' TERM; echo inside; while :; do sleep 0.02; done"
			want := 41
			if s == syscall.SIGTERM {
				want = 42
			}
			h := hold(t, locked(t, url, "-key", "k", "--", "sh", "-c", script))
			if err := h.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			// The shell may say on stderr that its sleep was terminated; we say nothing.
			if status := h.wait(t); status != want || strings.Contains(h.stderr.String(), "lockbench") {
				t.Errorf("exit status %d, want %d; stderr %q", status, want, h.stderr)
			}
			if do(t, conn, "EXISTS", "k") != int64(0) {
				t.Error("the key is still there")
			}
		})
	}
	t.Run("while waiting", func(t *testing.T) {
		h := hold(t, locked(t, url, append([]string{"-key", "k"}, inside()...)...))
		waiter := locked(t, url, "-key", "k", "--", "echo", "in")
		var stderr, stdout strings.Builder
		waiter.Stderr, waiter.Stdout = &stderr, &stdout
		if err := waiter.Start(); err != nil {
			t.Fatal(err)
		}
		// It waits once it polls: two clients of the lock are connected then,
		// beside ours.
		eventually(t, "the waiter polls", func() bool {
			list, err := conn.Do(t.Context(), "INFO", "clients")
			text, ok := list.(string)
			if err != nil || !ok || !strings.Contains(text, "connected_clients") {
				return true // the embedded server does not tell
			}
			_, n, _ := strings.Cut(text, "connected_clients:")
			n, _, _ = strings.Cut(n, "\r")
			count, _ := strconv.Atoi(n)
			return count >= 3
		})
		if err := waiter.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = waiter.Wait()
		if got := waiter.ProcessState.ExitCode(); got != 128+int(syscall.SIGINT) && got != -1 || stdout.Len() > 0 {
			t.Errorf("exit status %d, stdout %q, stderr %q", got, &stdout, &stderr)
		}
		if status := h.letGo(t); status != 0 {
			t.Errorf("the holder: %d %s", status, h.stderr)
		}
	})
}

// When lockbench is killed nobody renews the lease, so the command must not go on.
func TestLockKilledEndsItsCommand(t *testing.T) {
	linux(t, "a child that ends with its parent")
	file := filepath.Join(t.TempDir(), "pid")
	h := hold(t, locked(t, redisServer(t), "-key", "k", "--", "sh", "-c", `echo $$ >"$0"; echo inside; exec sleep 600`, file))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.Wait()
	eventually(t, "the command has ended", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ") // a zombie until somebody reaps it
	})
}

// The command gets the three standard streams and no connection of ours.
func TestLockHandsOnNoConnection(t *testing.T) {
	linux(t, "/proc/self/fd")
	o := finish(t, locked(t, redisServer(t), "-key", "k", "--", "sh", "-c", "ls -l /proc/$$/fd"))
	if o.status != 0 || !strings.Contains(o.stdout, "1 -> pipe:") || strings.Contains(o.stdout, "socket:") {
		t.Errorf("%+v", o)
	}
}

func TestLockBadInput(t *testing.T) {
	url := "redis://" + closed
	for _, c := range []struct {
		name   string
		args   string
		status int
		want   string
	}{
		{"no key", "-redis " + url + " -- true", exitMisuse, "-key is missing"},
		{"no command", "-redis " + url + " -key k", exitMisuse, "the command is missing"},
		{"no server", "-key k -- true", exitMisuse, "no server named: a lock needs one that the others see too, by -redis URL or LOCKBENCH_REDIS_URL"},
		{"own server", "-server binary -key k -- true", exitMisuse, "there is no flag -server"},
		{"algo", "-algo nosuch -redis " + url + " -key k -- true", exitMisuse, `there is no algorithm "nosuch"`},
		{"near algo", "-algo redis-tokens -redis " + url + " -key k -- true", exitMisuse, "did you mean redis-token?"},
		{"client", "-client nosuch -redis " + url + " -key k -- true", exitMisuse, "there are goredis, redigo and rueidis"},
		{"client of one", "-algo zk-sequential -client nosuch -key k -- true", exitMisuse, "leave -client away"},
		{"no SQL server", "-algo sql-advisory -key k -- true", exitMisuse, "by -mysql URL, LOCKBENCH_MYSQL_URL, -postgresql URL or LOCKBENCH_POSTGRESQL_URL"},
		{"two SQL servers", "-algo sql-advisory -mysql mysql://u@" + closed + "/d -postgresql postgres://u@" + closed + "/d -key k -- true", exitMisuse,
			"servers of mysql and postgresql are named, which do not exclude each other's holders: name one, or say -client mysql or -client pgx"},
		{"server of another kind", "-postgresql postgres://u@" + closed + "/d -key k -- true", exitMisuse, "-postgresql names a server, but redis-watchdog does not run on postgresql"},
		{"server of another client", "-algo sql-advisory -client mysql -postgresql postgres://u@" + closed + "/d -key k -- true", exitMisuse,
			"-postgresql names a server, but sql-advisory/mysql does not run on postgresql: leave it away, or choose a lock that does, such as sql-"},
		{"PostgreSQL is taken", "-algo sql-advisory -postgresql postgres://u@" + closed + "/d -key k -- true", exitFailure, "postgres://xxxxx@"},
		{"MySQL is taken", "-algo sql-advisory -mysql mysql://u@" + closed + "/d -key k -- true", exitFailure, "refused"},
		{"no readers", "-shared -redis " + url + " -key k -- true", exitMisuse, "redis-watchdog has no readers, so it cannot be -shared; there are redis-rw and zk-rw"},
		{"no try", "-wait 0 -algo peer-zk -zookeeper zookeeper://" + closed + " -key k -- true", exitMisuse, "peer-zk cannot try once, it can only wait"},
		{"no try of a reader", "-wait 0 -shared -algo redis-rw -redis " + url + " -key k -- true", exitMisuse, "no lock can try once to read"},
		{"in memory", "-algo local-mutex -redis " + url + " -key k -- true", exitMisuse, "excludes nobody else"},
		{"two servers", "-redis " + url + "," + url + " -key k -- true", exitMisuse, "takes 1 server, 2 are named"},
		{"two for a majority", "-algo redis-redlock -redis " + url + "," + url + " -key k -- true", exitFailure, "an odd number of independent servers from 3, and 2 are given: it goes on without 1 of 3"},
		{"wait", "-wait soon -redis " + url + " -key k -- true", exitMisuse, "want a time with its unit"},
		{"endless wait", "-wait 2562047h -redis " + url + " -key k -- true", exitMisuse, "-wait: want at most 876000h0m0s"},
		{"endless lease", "-ttl 2562047h -redis " + url + " -key k -- true", exitMisuse, "-ttl: want at most 876000h0m0s"},
		{"long session", "-algo zk-sequential -ttl 600h -zookeeper zookeeper://" + closed + " -key k -- true", exitFailure, "at most 596h31m23.647s"},
		{"closed port", "-redis " + url + " -key k -- true", exitFailure, "refused"},
		{"MariaDB", "-redis redis://" + unfriendly(t) + " -key k -- true", exitFailure, "no Redis"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			oneLine(t, lockbench(t, append([]string{"lock"}, strings.Fields(c.args)...)...), c.status, c.want)
		})
	}
}

// A lock on several kinds of servers runs on the one that is named.
func TestLockOnTheServerNamed(t *testing.T) {
	s, err := server.Start(t.Context(), lock.Needs{Kind: "postgresql"}, server.Options{Source: server.Binary})
	if errors.Is(err, server.ErrMissing) {
		lacking(t, "postgresql", "there is no PostgreSQL")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	url := s.Deployment.Nodes[0].Reveal()
	o := lockbench(t, "lock", "-algo", "sql-advisory", "-postgresql", url, "-key", "k", "--", "echo", "in")
	if o != (outcome{0, "in\n", ""}) {
		t.Errorf("%+v", o)
	}
	// A flag goes before the environment.
	cmd := process(t, "lock", "-algo", "sql-advisory", "-postgresql", url, "-key", "k", "--", "echo", "in")
	cmd.Env = append(cmd.Env, "LOCKBENCH_MYSQL_URL=mysql://u@"+closed+"/d")
	if o := finish(t, cmd); o != (outcome{0, "in\n", ""}) {
		t.Errorf("%+v", o)
	}
}

// A lock on a majority runs on as many servers as are named.
func TestLockOnSeveral(t *testing.T) {
	three := strings.Join([]string{redisServer(t), redisServer(t), redisServer(t)}, ",")
	o := lockbench(t, "lock", "-redis", three, "-algo", "redis-redlock", "-key", "k", "--", "echo", "in")
	if o.status != 0 || o.stdout != "in\n" {
		t.Errorf("%+v", o)
	}
}

func TestLockWaitsForTheKey(t *testing.T) {
	url := redisServer(t)
	h := hold(t, locked(t, url, append([]string{"-key", "k"}, inside()...)...))
	waiter := locked(t, url, "-key", "k", "-wait", "60s", "--", "echo", "in")
	got := make(chan outcome, 1)
	go func() { got <- finish(t, waiter) }()
	select {
	case o := <-got:
		t.Fatalf("it did not wait: %+v", o)
	case <-time.After(300 * time.Millisecond):
	}
	h.letGo(t)
	if o := <-got; o.status != 0 || o.stdout != "in\n" {
		t.Errorf("%+v", o)
	}
}
