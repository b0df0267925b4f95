package bench

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/results"
)

// asCommand, in the environment, makes the test binary behave as the command,
// so that process-level tests need no second build and see the code that is
// being tested, the race detector included.
const asCommand = "LOCKBENCH_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(Main(""))
	}
	builtin.Main()
	harness.Work(impls.All(), revision(""))
	flag.Bool("update", false, "rewrite the golden files")
	// Tests may run where a hang-up is ignored, as nohup has it, and commands inherit that.
	// What is caught here is as usual in them.
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(m.Run())
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// golden compares got with a file in testdata, or rewrites it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if updating() {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (rewrite it with -update):\n%s", path, got)
	}
}

// process is a call of lockbench as a process of its own, which sees no server
// settings of whoever runs the tests.
func process(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "LOCKBENCH_") })
	cmd.Env = append(cmd.Env, asCommand+"=1")
	return cmd
}

type outcome struct {
	status         int
	stdout, stderr string
}

// finish runs cmd to its end. An end by signal is status -1.
func finish(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 20 * time.Second // for a grandchild that keeps the pipes open
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatalf("%v: %v", cmd.Args[1:], err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func lockbench(t testing.TB, args ...string) outcome {
	t.Helper()
	return finish(t, process(t, args...))
}

// call is lockbench within this process, for what needs no process.
func call(t testing.TB, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), commands(""), args, stdio{strings.NewReader(""), &stdout, &stderr})
	return outcome{status, stdout.String(), stderr.String()}
}

// required tells whether a test that needs thing must fail without it.
func required(thing string) bool {
	return slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), thing)
}

// onPath is the program called name. Without it the test is skipped, or fails where
// LOCKBENCH_REQUIRE lists it.
func onPath(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && required(name) {
		t.Fatalf("LOCKBENCH_REQUIRE lists %s: %v", name, err)
	}
	if err != nil {
		t.Skipf("NOT TESTED: there is no %s on PATH", name)
	}
	return path
}

// lacking ends a test whose thing is not there.
func lacking(t testing.TB, thing, why string) {
	t.Helper()
	if required(thing) {
		t.Fatalf("LOCKBENCH_REQUIRE names %s, but %s", thing, why)
	}
	t.Skipf("NOT TESTED: %s; get it with scripts/servers %s", why, thing)
}

// source is where the tests take their servers from: never from an address, and
// from a container only if somebody asks for one elsewhere.
func source(t testing.TB) server.Source {
	t.Helper()
	for _, name := range []string{"redis-server", "valkey-server"} {
		if _, err := exec.LookPath(name); err == nil {
			return server.Binary
		}
	}
	if required("redis") {
		t.Fatal("LOCKBENCH_REQUIRE names redis, but there is no redis-server on PATH")
	}
	return server.Embedded
}

// redisServer starts a server for one test and returns its URL.
func redisServer(t testing.TB) string {
	t.Helper()
	s, err := server.Start(t.Context(), lock.Needs{Kind: "redis"}, server.Options{Source: source(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Deployment.Nodes[0].Reveal()
}

// guarded starts a redis-server that wants a password and returns its URL.
func guarded(t testing.TB, password string) string {
	t.Helper()
	if source(t) != server.Binary {
		lacking(t, "redis", "no redis-server on PATH, which a password is set on")
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		path = "valkey-server"
	}
	for range 5 { // the choice of a port is a race
		port := freePort(t)
		cmd := exec.CommandContext(t.Context(), path, "--bind", "127.0.0.1", "--port", port,
			"--dir", t.TempDir(), "--save", "", "--appendonly", "no", "--requirepass", password)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
		url := "redis://:" + password + "@127.0.0.1:" + port
		for alive := true; alive; {
			conn, err := goredis.Dial(t.Context(), lock.Endpoint(url), lock.Config{}.Filled())
			if err == nil {
				_, err = conn.Do(t.Context(), "PING")
				_ = conn.Close()
			}
			if err == nil {
				return url
			}
			select {
			case <-ended:
				alive = false
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	t.Fatal("redis-server did not start")
	return ""
}

// closed is an address at which nobody listens. A free port might be given to a server
// of another test.
const closed = "127.0.0.1:1"

// freePort is a port of the loopback on which nobody listens yet.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// eventually polls until ok or 30 s have passed.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// oneLine checks that bad input got one clear line.
func oneLine(t testing.TB, o outcome, status int, want string) {
	t.Helper()
	if o.status != status {
		t.Errorf("exit status %d, want %d", o.status, status)
	}
	if strings.Count(o.stderr, "\n") != 1 || !strings.HasPrefix(o.stderr, "lockbench") || !strings.Contains(o.stderr, want) {
		t.Errorf("stderr is %q, want one line with %q", o.stderr, want)
	}
}

// carriedOut tells whether a call measured all it was asked for. On a busy machine none of
// its runs may be valid, which it tells at its end.
func carriedOut(o outcome) bool {
	return o.status == 0 || o.status == exitFailure && unproved.MatchString(o.stderr)
}

// unproved is the line of a run that proves nothing.
var unproved = regexp.MustCompile(`(?m)^lockbench run: (the run is not|none of the \d+ runs is) valid\b.*\n\z`)

// stored reads a results file in which every line must be good.
func stored(t testing.TB, name string) []results.Run {
	t.Helper()
	runs, errs := results.ReadFiles(name)
	for _, err := range errs {
		t.Error(err)
	}
	return runs
}

func TestUsage(t *testing.T) {
	t.Run("nothing", func(t *testing.T) {
		o := call(t)
		if o.status != exitMisuse || !strings.Contains(o.stderr, "lockbench run ") || o.stdout != "" {
			t.Errorf("%+v", o)
		}
	})
	t.Run("help", func(t *testing.T) {
		o := call(t, "help")
		if o.status != 0 || o.stderr != "" {
			t.Errorf("%+v", o)
		}
		for _, c := range commands("") {
			if !strings.Contains(o.stdout, "\n  "+c.name+" ") {
				t.Errorf("help does not name %s", c.name)
			}
		}
	})
	t.Run("unknown", func(t *testing.T) {
		oneLine(t, call(t, "nosuch"), exitMisuse, `there is no command "nosuch"`)
	})
	for _, c := range commands("") {
		t.Run(c.name, func(t *testing.T) {
			for _, args := range [][]string{{c.name, "-h"}, {"help", c.name}} {
				o := call(t, args...)
				if o.status != 0 || o.stderr != "" || !strings.Contains(o.stdout, "usage: lockbench "+c.name) {
					t.Errorf("%q: %+v", args, o)
				}
			}
			oneLine(t, call(t, c.name, "-nosuch"), exitMisuse, "there is no flag -nosuch; lockbench "+c.name+" -h lists them")
		})
	}
}

func TestComplainsInOneLineWithoutSecrets(t *testing.T) {
	var b strings.Builder
	complain(&b, "lockbench", errors.Join(errors.New("one redis://user:canary@host/0"), errors.New("two 'rediss://:canary@h'")))
	if got, want := b.String(), "lockbench: one redis://xxxxx@host/0; two 'rediss://xxxxx@h'\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWithoutSecrets(t *testing.T) {
	for text, want := range map[string]string{
		`invalid value "redis://:pa\"CANARY ss@host" for flag -server`: `invalid value "(not shown, as it may hold a password)" for flag -server`,
		`"root:CANARY@tcp(h:3306)/x" is no source`:                     `"(not shown, as it may hold a password)" is no source`,
		`there is no command "postgres://h/db?password=CANARY"`:        `there is no command "(not shown, as it may hold a password)"`,
		`invalid value "pause@2s" for flag -fault: want kill@2s:2`:     `invalid value "pause@2s" for flag -fault: want kill@2s:2`,
		`want redis://[user:password@]host`:                            `want redis://[user:password@]host`,
	} {
		if got := withoutSecrets(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// brokenWriter is a closed pipe.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	for _, args := range [][]string{
		{"list"}, {"list", "-json"}, {"list", "-md"},
		{"run", "-print"}, {"run", "-print", "-format", "json"},
		{"servers", "-server", "embedded"}, {"servers", "-json", "-server", "embedded"},
	} {
		var stderr strings.Builder
		status := run(context.Background(), commands(""), args, stdio{nil, brokenWriter{}, &stderr})
		if status != exitFailure || !strings.Contains(stderr.String(), "broken pipe") {
			t.Errorf("%q: status %d, stderr %q", args, status, stderr.String())
		}
	}
}

func TestRevision(t *testing.T) {
	if got := revision(""); strings.ContainsAny(got, " \n") {
		t.Errorf("revision %q", got)
	}
	if got := revision("abc+dirty"); got != "abc+dirty" {
		t.Errorf("revision %q, want what the linker was told", got)
	}
}

// linux skips what only Linux can show.
func linux(t testing.TB, what string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skipf("NOT TESTED: %s can only be seen on Linux, this is %s", what, runtime.GOOS)
	}
}

// password is the canary of the tests that look for leaks.
func password() string { return fmt.Sprintf("canary-%d-secret", os.Getpid()) }
