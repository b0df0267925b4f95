package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// small is a grid of a few short runs on a server that the tests may use.
func small(t testing.TB, args ...string) []string {
	return append([]string{"run", "-server", string(source(t)), "-algo", "redis-token", "-client", "goredis",
		"-owners", "2", "-warmup", "0", "-for", "100ms", "-grow", "1"}, args...)
}

func TestRunStoresAndShows(t *testing.T) {
	out := filepath.Join(t.TempDir(), "runs.jsonl")
	o := lockbench(t, small(t, "-algo", "redis-token,local-none", "-repeat", "2", "-out", out)...)
	if !carriedOut(o) {
		t.Fatalf("%+v", o)
	}
	runs := stored(t, out)
	var order []string
	for _, r := range runs {
		order = append(order, r.Algo)
		if e := r.Metrics[results.Efficiency]; r.Algo == results.Yardstick && r.Valid.OK && e != 1 {
			t.Errorf("the yardstick's efficiency is %v", e)
		} else if r.Algo == "redis-token" && e == 0 && runs[r.Block*3].Valid.OK {
			t.Errorf("redis-token in block %d has no efficiency", r.Block)
		}
		if r.Session != runs[0].Session || r.Session == "" {
			t.Errorf("session %q", r.Session)
		}
	}
	want := "local-mutex local-none redis-token local-mutex redis-token local-none"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	for _, text := range []string{"redis-token", "local-mutex", "server: " + runs[2].Server.Product, "stored: 6 runs in " + out + "\nnext: lockbench plot -in " + out + " -out "} {
		if !strings.Contains(o.stdout, text) {
			t.Errorf("stdout lacks %q:\n%s", text, o.stdout)
		}
	}
	line := regexp.MustCompile(`(?m)^\[3/6\] redis-token/goredis procs=8 owners=2 keys=1 hold=1ms block 1: \d+ acq/s, `)
	if !line.MatchString(o.stderr) || strings.Count(o.stderr, "\n[") != 6 {
		t.Errorf("progress:\n%s", o.stderr)
	}
	// A second call appends.
	if o := lockbench(t, small(t, "-out", out)...); !carriedOut(o) || len(stored(t, out)) != 8 {
		t.Errorf("%+v", o)
	}
}

func TestRunFormats(t *testing.T) {
	t.Run("json", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "runs.jsonl")
		o := lockbench(t, small(t, "-format", "json", "-out", out)...)
		file, err := os.ReadFile(out)
		if err != nil || !carriedOut(o) {
			t.Fatalf("%v %+v", err, o)
		}
		if o.stdout != string(file) || len(stored(t, out)) != 2 {
			t.Errorf("stored %q, printed %q", file, o.stdout)
		}
	})
	t.Run("benchfmt", func(t *testing.T) {
		o := lockbench(t, small(t, "-format", "benchfmt")...)
		line := regexp.MustCompile(`(?m)^BenchmarkLock/algo=redis-token/client=goredis/procs=8/owners=2/keys=1/hold=1ms\S* \d+ \S+ ns/op .*acq/s`)
		if !carriedOut(o) || !line.MatchString(o.stdout) || strings.Contains(o.stdout, "server:  ") {
			t.Errorf("%+v", o)
		}
		// Of what says little in a comparison nothing is printed, unless it is asked for.
		if strings.Contains(o.stdout, "little-error") {
			t.Errorf("more than what locks are compared by:\n%s", o.stdout)
		}
		o = lockbench(t, small(t, "-format", "benchfmt", "-metrics", "all")...)
		if !carriedOut(o) || !line.MatchString(o.stdout) || !strings.Contains(o.stdout, " little-error") {
			t.Errorf("all metrics: %+v", o)
		}
	})
}

// unfriendly listens and greets like MariaDB: its handshake begins with the
// length of the packet and protocol version 10.
func unfriendly(t *testing.T) string {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = conn.Write([]byte("\x4a\x00\x00\x00\x0a10.11.6-MariaDB\x00\x01\x00\x00\x00abcdefgh\x00"))
				_, _ = conn.Read(make([]byte, 512))
				_, _ = conn.Write([]byte("\x21\x00\x00\x01\xff\x84\x04#08S01Got packets out of order"))
			}()
		}
	}()
	return l.Addr().String()
}

func TestRunBadInput(t *testing.T) {
	out := filepath.Join(t.TempDir(), "nosuch", "x.jsonl")
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"algo", []string{"-algo", "nosuch"}, exitMisuse, `no variant matches "nosuch"; see lockbench list`},
		{"near", []string{"-algo", "redis-tokne"}, exitMisuse, "did you mean redis-token?"},
		{"client", []string{"-client", "nosuch"}, exitMisuse, "there are goredis, redigo, rueidis, "},
		{"owners", []string{"-owners", "x"}, exitMisuse, `invalid value "x" for flag -owners: want whole numbers from 1`},
		{"no owners", []string{"-owners", "0"}, exitMisuse, "-owners: want whole numbers from 1"},
		{"hold", []string{"-hold", "1"}, exitMisuse, "-hold: "},
		{"time", []string{"-for", "-1s"}, exitMisuse, "want a time with its unit"},
		{"endless lease", []string{"-ttl", "2562047h"}, exitMisuse, "-ttl: want a time with its unit, such as 500ms or 2s, above 0 and at most 876000h0m0s"},
		{"endless fault", []string{"-fault", "pause@2562047h+1h"}, exitMisuse, "\"2562047h\" is no time after the start"},
		{"fault", []string{"-fault", "explode"}, exitMisuse, "pause@2s+300ms"},
		{"seed", []string{"-seed", "-1"}, exitMisuse, "want a whole number from 0"},
		{"format", []string{"-format", "xml"}, exitMisuse, "want text, json or benchfmt"},
		{"metrics", []string{"-format", "benchfmt", "-metrics", "some"}, exitMisuse, "-metrics: want few or all"},
		{"metrics of text", []string{"-metrics", "all"}, exitMisuse, "-metrics is for -format benchfmt"},
		{"source", []string{"-server", "cloud"}, exitMisuse, "want url, binary, docker or embedded"},
		{"topology", []string{"-redis-topology", "ring"}, exitMisuse, "want single, cluster or sentinel"},
		{"other topology", []string{"-redis-topology", "cluster", "-redis", "redis://127.0.0.1"}, exitFailure, "a cluster is asked for"},
		{"no cluster", []string{"-redis", "redis+cluster://" + closed}, exitFailure, "refused"},
		{"no master", []string{"-redis", "redis+sentinel://" + closed}, exitMisuse, "-redis: the address names no master"},
		{"contradiction", []string{"-server", "embedded", "-redis", "redis://127.0.0.1"}, exitMisuse, "give one of them"},
		{"flag", []string{"-nosuch"}, exitMisuse, "there is no flag -nosuch; lockbench run -h lists them"},
		{"word", []string{"redis-token"}, exitMisuse, "1 word too many"},
		{"no directory", []string{"-out", out}, exitFailure, "no such file or directory"},
		{"closed port", []string{"-redis", "redis://" + closed}, exitFailure, "refused"},
		{"MariaDB", []string{"-redis", "redis://" + unfriendly(t)}, exitFailure, "edis"},
		{"no URL", []string{"-redis", "::"}, exitMisuse, "-redis: the address is no Redis URL: want redis://[user:password@]host[:port]"},
		{"no URL of MySQL", []string{"-mysql", "u:canary@h/db"}, exitMisuse, "-mysql: the address is no URL of a MySQL"},
		{"no URL of PostgreSQL", []string{"-postgresql", "mysql://u:canary@h/db"}, exitMisuse, "-postgresql: the address is no URL of a PostgreSQL"},
		{"no URL of ZooKeeper", []string{"-zookeeper", "http://h"}, exitMisuse, "-zookeeper: the address is no URL of a ZooKeeper"},
		{"no URL of etcd", []string{"-algo", "local-mutex", "-etcd", "http://u:canary@h"}, exitMisuse, "want etcd://[USER:PASSWORD@]HOST[:PORT]"},
		{"URL of another kind", []string{"-algo", "redis-token", "-etcd", "etcd://" + closed}, exitMisuse, "-etcd names a server, but redis-token/goredis does not run on etcd: leave it away, or choose a lock that does, such as etcd-mutex"},
		{"URL that none needs", []string{"-algo", "redis-*", "-mysql", "mysql://u@" + closed + "/d"}, exitMisuse, "-mysql names a server, but none of the chosen locks runs on mysql"},
		{"URL that a profile does not need", []string{"-profile", "redis", "-mysql", "mysql://u@" + closed + "/d"}, exitMisuse, "none of the chosen locks runs on mysql"},
		{"url without address", []string{"-server", "url", "-algo", "redis-token"}, exitFailure, "LOCKBENCH_REDIS_URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := lockbench(t, append([]string{"run"}, c.args...)...)
			// A missing server is named first, and then that nothing is left.
			if c.name == "url without address" {
				if o.status != c.status || !strings.Contains(o.stderr, c.want) || strings.Count(o.stderr, "\n") != 2 {
					t.Errorf("%+v", o)
				}
				return
			}
			oneLine(t, o, c.status, c.want)
			if strings.Contains(o.stderr, "canary") {
				t.Errorf("the password is in %q", o.stderr)
			}
		})
	}
}

func TestRunBadEnvironment(t *testing.T) {
	cmd := process(t, "run")
	cmd.Env = append(cmd.Env, "LOCKBENCH_SERVER=cloud")
	oneLine(t, finish(t, cmd), exitMisuse, `LOCKBENCH_SERVER: "cloud" is no source`)
}

func TestRunGoesOnWithoutAMissingServer(t *testing.T) {
	o := lockbench(t, "run", "-server", "url", "-algo", "redis-token,local-none", "-owners", "2", "-for", "50ms", "-warmup", "0")
	if !carriedOut(o) || !strings.Contains(o.stderr, "left out redis-token/goredis: ") ||
		!strings.Contains(o.stdout, "local-none") {
		t.Errorf("%+v", o)
	}
}

func TestRunWrongPassword(t *testing.T) {
	url := guarded(t, password())
	for name, bad := range map[string]string{
		"wrong":   strings.Replace(url, password(), password()+"x", 1),
		"missing": strings.Replace(url, ":"+password()+"@", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			o := lockbench(t, "run", "-algo", "redis-token", "-redis", bad)
			oneLine(t, o, exitFailure, "password")
			if strings.Contains(o.stdout+o.stderr, "canary") {
				t.Errorf("it tells the password: %+v", o)
			}
		})
	}
}

// A password appears nowhere: not in output, results or plots, not even if it is
// put where it does not belong.
func TestPasswordStaysSecret(t *testing.T) {
	url := guarded(t, password())
	dir := t.TempDir()
	out := filepath.Join(dir, "runs.jsonl")
	byFlag := lockbench(t, "run", "-algo", "redis-token", "-redis", url, "-owners", "2", "-for", "100ms", "-warmup", "0", "-out", out)
	if !carriedOut(byFlag) {
		t.Fatalf("%+v", byFlag)
	}
	cmd := process(t, "run", "-algo", "redis-token", "-owners", "2", "-for", "100ms", "-warmup", "0", "-format", "json")
	cmd.Env = append(cmd.Env, "LOCKBENCH_REDIS_URL="+url)
	byEnvironment := finish(t, cmd)
	if !carriedOut(byEnvironment) || !strings.Contains(byEnvironment.stdout, `"source":"url"`) {
		t.Fatalf("%+v", byEnvironment)
	}
	all := []outcome{
		byFlag, byEnvironment,
		lockbench(t, "servers", "-redis", url),
		lockbench(t, "servers", "-json", "-redis", url),
		lockbench(t, "run", "-print", "-redis", url),
		lockbench(t, "plot", "-out", dir, out),
		lockbench(t, "show", out),
		lockbench(t, "lock", "-redis", url, "-key", "k", "--", "true"),
		// Misplaced:
		lockbench(t, "run", url),
		lockbench(t, "run", "-algo", url),
		lockbench(t, "run", "-owners", url),
		lockbench(t, "run", "-server", url),
		lockbench(t, "run", "-out", url),
		lockbench(t, "run", "-="+url),
		lockbench(t, "run", "-scenario", url),
		lockbench(t, "run", "-redis", strings.Replace(url, "redis:", "http:", 1)),
		lockbench(t, "plot", url),
		lockbench(t, "show", url),
		lockbench(t, "show", "-algo", url, out),
		lockbench(t, "lock", "-redis", url+"/x", "-key", "k", "--", "true"),
		lockbench(t, "lock", "-redis", url, "-algo", url, "-key", "k", "--", "true"),
		lockbench(t, url),
	}
	for _, o := range all {
		if strings.Contains(o.stdout+o.stderr, "canary") {
			t.Errorf("it tells the password: %+v", o)
		}
	}
	for i := range 8 {
		if !carriedOut(all[i]) {
			t.Errorf("call %d failed: %+v", i, all[i])
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files (%v)", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("canary")) {
			t.Errorf("%s holds the password", f.Name())
		}
	}
}

func TestRunFullDisk(t *testing.T) {
	linux(t, "a full disk (/dev/full)")
	o := lockbench(t, small(t, "-out", "/dev/full")...)
	var said []string
	for line := range strings.Lines(o.stderr) {
		if strings.HasPrefix(line, "lockbench") {
			said = append(said, line)
		}
	}
	if o.status != exitFailure || len(said) != 1 || !strings.Contains(said[0], "no space left on device") || !strings.Contains(said[0], "0 runs are safe") {
		t.Errorf("%+v", o)
	}
}

// A long run that can be stopped after its first finished trial.
type longRun struct {
	cmd    *exec.Cmd
	dir    string // TMPDIR of the run
	out    string // its results file
	port   string // of its server, "" if that is embedded
	stdout *bytes.Buffer
	stderr []string // read to its end by rest
	rest   func()
}

func startLongRun(t *testing.T) *longRun {
	t.Helper()
	r := &longRun{dir: t.TempDir(), out: filepath.Join(t.TempDir(), "runs.jsonl"), stdout: new(bytes.Buffer)}
	cmd := process(t, small(t, "-for", "1500ms", "-repeat", "100", "-yardstick=false", "-out", r.out)...)
	cmd.Env = append(cmd.Env, "TMPDIR="+r.dir)
	cmd.Stdout = r.stdout
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.cmd = cmd
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(pipe)
	address := regexp.MustCompile(`redis://127\.0\.0\.1:(\d+)`)
	for lines.Scan() {
		r.stderr = append(r.stderr, lines.Text())
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			r.port = m[1]
		}
		if strings.HasPrefix(lines.Text(), "[  1/100]") {
			r.rest = func() {
				for lines.Scan() {
					r.stderr = append(r.stderr, lines.Text())
				}
			}
			return r
		}
	}
	t.Fatalf("no trial finished: %q", r.stderr)
	return nil
}

// nothingLeft waits until the server and the directory of r are gone.
func (r *longRun) nothingLeft(t *testing.T) {
	t.Helper()
	if r.port == "" {
		t.Fatalf("no server was named: %q", r.stderr)
	}
	eventually(t, "the server is gone", func() bool {
		conn, err := net.DialTimeout("tcp4", "127.0.0.1:"+r.port, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	eventually(t, "TMPDIR is empty", func() bool {
		left, err := os.ReadDir(r.dir)
		return err == nil && len(left) == 0
	})
}

func TestKillLeavesNothing(t *testing.T) {
	r := startLongRun(t)
	if left, _ := os.ReadDir(r.dir); source(t) == "binary" && len(left) == 0 {
		t.Error("nothing in TMPDIR while it runs: this test looks in the wrong place")
	}
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	r.rest()
	_ = r.cmd.Wait() // killed
	r.nothingLeft(t)
	if runs := stored(t, r.out); len(runs) != 1 {
		t.Errorf("%d runs are in the file, want 1", len(runs))
	}
}

func TestInterruptKeepsWhatIsFinished(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			r := startLongRun(t)
			if err := r.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			r.rest()
			err := r.cmd.Wait()
			var ended *exec.ExitError
			if !errors.As(err, &ended) || ended.ExitCode() != exitInterrupted {
				t.Errorf("%v, want exit status %d", err, exitInterrupted)
			}
			runs := stored(t, r.out)
			if len(runs) < 1 || len(runs) > 3 {
				t.Errorf("%d runs are in the file", len(runs))
			}
			last := r.stderr[len(r.stderr)-1]
			if !strings.HasPrefix(last, "lockbench run: interrupted: ") || !strings.HasSuffix(last, " of 100 trials are in "+r.out) {
				t.Errorf("last line: %q", last)
			}
			if !strings.Contains(r.stdout.String(), "redis-token") {
				t.Errorf("no table:\n%s", r.stdout)
			}
			r.nothingLeft(t)
		})
	}
}

func TestServers(t *testing.T) {
	o := lockbench(t, "servers", "-json")
	var list []struct {
		Kind, Product, Version, Source, Hint string
		OK, Used                             bool
	}
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil || o.status != 0 {
		t.Fatalf("%v: %+v", err, o)
	}
	used := map[string]int{}
	for _, s := range list {
		if s.Used {
			used[s.Kind]++
			if want := string(source(t)); s.Kind == "redis" && s.Source != want && s.Source != "docker" {
				t.Errorf("run would use %s, want %s", s.Source, want)
			}
		}
		// The version of miniredis is that of its module, which no test binary records.
		if s.OK == (s.Hint != "") || s.OK && (s.Product == "" || s.Version == "" && s.Product != "miniredis") {
			t.Errorf("%+v", s)
		}
	}
	for kind, n := range used {
		if n != 1 {
			t.Errorf("%d sources of %s are used", n, kind)
		}
	}
	if used["redis"] != 1 || len(list) < 4 {
		t.Errorf("of %d these are used: %v", len(list), used)
	}
	text := lockbench(t, "servers")
	if strings.Count(text.stdout, "\n* redis ") != 1 || text.status != 0 {
		t.Errorf("%+v", text)
	}
	forced := lockbench(t, "servers", "-server", "embedded")
	if !regexp.MustCompile(`(?m)^\* redis +embedded `).MatchString(forced.stdout) {
		t.Errorf("%+v", forced)
	}
	none := lockbench(t, "servers", "-redis", "redis://"+closed)
	if none.status != exitFailure || strings.Contains(none.stdout, "\n* redis ") || !strings.Contains(none.stderr, "would find no server") {
		t.Errorf("%+v", none)
	}
}
