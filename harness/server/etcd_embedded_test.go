package server_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls/lock"
)

// builtIn are the options that start the etcd of this test binary.
func builtIn(t lock.Topology) server.Options {
	return server.Options{
		Source: server.Embedded, Embeds: builtin.Embeds(), Topologies: map[string]lock.Topology{"etcd": t},
	}
}

func startEtcd(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), lock.Needs{Kind: "etcd"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// keys is a client of s with a time limit for all that it does.
func keys(t *testing.T, s *server.Server) (context.Context, *clientv3.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	hosts := strings.Split(strings.TrimPrefix(s.Deployment.Nodes[0].Reveal(), "etcd://"), ",")
	c, err := clientv3.New(clientv3.Config{Endpoints: hosts, Logger: zap.NewNop(), Context: ctx})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, c
}

func get(ctx context.Context, t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	r, err := c.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kvs) == 0 {
		return ""
	}
	return string(r.Kvs[0].Value)
}

// The etcd that is built in serves, says what it is, costs what it costs, and leaves
// nothing behind, alone and as one of three.
func TestBuiltInEtcd(t *testing.T) {
	for topology, members := range map[lock.Topology]int{lock.Single: 1, lock.Ensemble: 3} {
		t.Run("topology="+string(topology), func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			s := startEtcd(t, builtIn(topology))
			d := server.Describe(s)
			if d.Source != "embedded" || d.Product != "etcd" || d.Version != version.Version || d.Options != "unsafe-no-fsync" {
				t.Errorf("it is described as %+v", d)
			}
			if len(d.Nodes) != members || len(s.Processes()) != members || slices.ContainsFunc(s.Processes(), func(p server.Process) bool { return p.PID == os.Getpid() }) {
				t.Errorf("%d members want as many processes, and not ours: %v, %v", members, d.Nodes, s.Processes())
			}
			before, err := s.Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx, c := keys(t, s)
			for _, key := range []string{"a", "a/b", "ab"} {
				if _, err := c.Put(ctx, key, "of "+key); err != nil {
					t.Fatal(err)
				}
			}
			if v := get(ctx, t, c, "a/b"); v != "of a/b" {
				t.Errorf("a key has the value %q", v)
			}
			after, err := s.Usage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if after.Cmds-before.Cmds < 4 || !(after.CPU > before.CPU) || !(after.NetBytes > before.NetBytes) || !(s.Memory() > 0) {
				t.Errorf("four requests: %+v, then %+v, and it has %v bytes", before, after, s.Memory())
			}
			if n, err := s.Remove(ctx, "a"); n != 2 || err != nil {
				t.Errorf("removed %d keys, error %v, want 2", n, err)
			}
			if list, err := s.RTT(ctx, 5); len(list) != 5 || err != nil {
				t.Errorf("round trips: %v, %v", list, err)
			}
			processes := s.Processes()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			for _, p := range processes {
				if p.Alive() {
					t.Errorf("process %d goes on after Close", p.PID)
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || err != nil {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// A child can be stopped and killed like an installed server. What it was told
// outlives its end.
func TestBuiltInEtcdFaults(t *testing.T) {
	s := startEtcd(t, builtIn(lock.Single))
	if len(s.Processes()) == 0 {
		if runtime.GOOS == "linux" {
			t.Fatal("it has no process")
		}
		t.Skip("NOT TESTED, because this system does not show its processes")
	}
	ctx, c := keys(t, s)
	if _, err := c.Put(ctx, "k", "kept"); err != nil {
		t.Fatal(err)
	}
	paused, err := fault.Pause{}.Inject(ctx, &fault.Env{Server: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := paused.Heal(ctx); err != nil {
		t.Error(err)
	}
	if v := get(ctx, t, c, "k"); v != "kept" {
		t.Errorf("after the pause the key has the value %q", v)
	}

	first := s.Processes()[0]
	killed, err := s.Kill()
	if err != nil {
		t.Fatal(err)
	}
	if first.Alive() || len(s.Processes()) != 0 {
		t.Errorf("process %d goes on after Kill; there are %v", first.PID, s.Processes())
	}
	if err := killed.Start(ctx, false); err != nil {
		t.Fatal(err)
	}
	if again := s.Processes(); len(again) != 1 || again[0] == first {
		t.Errorf("started again it has the processes %v, and had %v", again, first)
	}
	if v := get(ctx, t, c, "k"); v != "kept" {
		t.Errorf("after its end the key has the value %q", v)
	}

	if killed, err = s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(ctx, true); err != nil {
		t.Fatal(err)
	}
	if v := get(ctx, t, c, "k"); v != "" {
		t.Errorf("started again empty the key has the value %q", v)
	}
}

// Without an address, a program and a container engine the etcd that is built in
// serves, where it is.
func TestBuiltInEtcdIsTheLastSource(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"sh", "mktemp", "rm", "sleep"} { // of the janitor
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err) // without it no server that we start would end with us either
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(bin, "none"))
	o := server.Options{Embeds: builtin.Embeds()}
	s := startEtcd(t, o)
	if s.Source != server.Embedded {
		t.Errorf("it comes from %s", s.Source)
	}
	var sources []server.Source
	for _, f := range server.Find(t.Context(), "etcd", o) {
		sources = append(sources, f.Source)
		if f.OK != (f.Source == server.Embedded) || f.OK && (f.Product != "etcd" || f.Version != version.Version || f.Where == "") {
			t.Errorf("found %+v", f)
		}
	}
	if want := []server.Source{server.URL, server.Binary, server.Docker, server.Embedded}; !slices.Equal(sources, want) {
		t.Errorf("sources %v, want %v", sources, want)
	}

	for _, kind := range []string{"etcd", "zookeeper"} { // neither is built into a program that does not say so
		_, err := server.Start(t.Context(), lock.Needs{Kind: kind}, server.Options{Source: server.Embedded})
		if !errors.Is(err, server.ErrMissing) || !strings.Contains(err.Error(), "scripts/servers "+kind) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A child that cannot serve ends and says why in its last line.
func TestBuiltInEtcdSaysWhyNot(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	at := "http://" + taken.Addr().String()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--name", "m", "--listen-peer-urls", at, "--initial-advertise-peer-urls", at, "--initial-cluster", "m=" + at}, "ddress already in use"},
		{[]string{"--nosuch"}, "-nosuch"},
		{[]string{"--election-timeout", "1"}, "election"},
		{[]string{"run"}, `"run" is no flag of etcd`},
	} {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, self, c.args...)
		cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), builtin.Embeds()["etcd"])
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err = cmd.Run()
		cancel()
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != 1 || !strings.Contains(lines[len(lines)-1], c.want) {
			t.Errorf("%q: %v, stderr %q; want %q in the last line", c.args, err, stderr.String(), c.want)
		}
	}
}
