package server

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls/lock"
)

func TestMain(m *testing.M) {
	builtin.Main()
	if what := os.Getenv(childEnv); what != "" {
		kind, src, _ := strings.Cut(what, " ")
		os.Exit(beChild(kind, Source(src)))
	}
	os.Exit(m.Run())
}

// start starts what n needs from src, or skips loudly. What LOCKBENCH_REQUIRE
// lists must not be skipped.
func start(t *testing.T, n lock.Needs, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), n, o)
	if errors.Is(err, ErrMissing) && o.Source != Embedded {
		name := map[Source]string{Binary: "redis", Docker: "docker"}[o.Source]
		if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), name) {
			t.Fatalf("LOCKBENCH_REQUIRE lists %s: %v", name, err)
		}
		t.Skipf("NOT TESTED, because it is not here: %v", err)
	}
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

// eventually polls until ok, and fails the test after a time that no working
// machine needs.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never saw: %s", what)
		}
	}
}

// ownTemp gives the test a temporary directory that nobody else writes to, and
// fails it if something is left there.
func ownTemp(t *testing.T) (dir string, left func() []string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("TMPDIR", dir)
	return dir, func() []string {
		list, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
}

func connect(t *testing.T, e lock.Endpoint) *redis.Client {
	t.Helper()
	o, err := parseRedis(e)
	if err != nil {
		t.Fatal(err)
	}
	o.MaxRetries = -1
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// The version of the embedded server is that of a module, and a test binary does
// not know the versions of its modules.
func TestSources(t *testing.T) {
	for _, src := range []Source{Binary, Docker, Embedded} {
		t.Run(string(src), func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			_, left := ownTemp(t)
			ctx := t.Context()
			s := start(t, lock.Needs{Kind: "redis", Nodes: 3}, Options{Source: src})
			if s.Kind != "redis" || s.Source != src || s.Product == "" || s.Version == "" && src != Embedded || s.Options == "" {
				t.Errorf("not described: %+v", Describe(s))
			}
			if src != Embedded && !strings.Contains(s.Options, "save '' appendonly no") {
				t.Errorf("options %q", s.Options)
			}
			if len(s.Deployment.Nodes) != 3 || len(Describe(s).Nodes) != 3 {
				t.Fatalf("nodes %v", s.Deployment.Nodes)
			}
			for i, e := range s.Deployment.Nodes {
				u, err := url.Parse(e.Reveal())
				if err != nil || u.Hostname() != "127.0.0.1" {
					t.Errorf("node %d is not on the loopback: %v", i, e)
				}
				c := connect(t, e)
				if n, err := c.DBSize(ctx).Result(); err != nil || n != 0 {
					t.Errorf("node %d is not independent: %d keys, %v", i, n, err)
				}
				if err := c.Set(ctx, "a", i, 0).Err(); err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			if src == Binary && len(s.Processes()) != 3 {
				t.Errorf("pids %v, want 3", s.Processes())
			}
			checkUsage(t, s)
			checkRTT(t, s)
			if n, err := s.Remove(ctx, "a", "never-there"); err != nil || n != 3 {
				t.Errorf("Remove = %d, %v; want 3", n, err)
			}

			procs, hosts := s.Processes(), s.hosts
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("second Close: %v", err)
			}
			for _, p := range procs {
				if p.Alive() {
					t.Errorf("process %d is still there", p.PID)
				}
			}
			for _, e := range s.Deployment.Nodes {
				if listens(e) {
					t.Errorf("%s still listens", e)
				}
			}
			for _, h := range hosts {
				if b, ok := h.(*box); ok {
					wantGone(t, b.id)
				}
			}
			if l := left(); len(l) > 0 {
				t.Errorf("left behind: %v", l)
			}
			goleak.VerifyNone(t, leaks)
		})
	}
}

// between is what a server has spent between two readings.
func between(from, to Usage) Usage {
	return Usage{to.Cmds - from.Cmds, to.NetBytes - from.NetBytes, to.CPU - from.CPU, to.Kept - from.Kept}
}

// checkUsage sees that what clients do is counted, and what we do is not.
func checkUsage(t *testing.T, s *Server) {
	t.Helper()
	ctx := t.Context()
	c := connect(t, s.Deployment.Nodes[0])
	if err := c.Set(ctx, "b", "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before, err := s.Usage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.Source == Embedded {
		if !math.IsNaN(before.Cmds) || !math.IsNaN(before.CPU) || !math.IsNaN(before.NetBytes) {
			t.Errorf("the imitation made up a figure: %+v", before)
		}
		_, _ = s.Remove(ctx, "b")
		return
	}
	idle, err := s.Usage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := between(before, idle); d.Cmds != 0 || d.NetBytes != 0 {
		t.Errorf("reading the usage counts itself: %+v", d)
	}
	const sets = 200
	for range sets {
		if err := c.Set(ctx, "b", "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.Usage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	d := between(idle, after)
	// SET b x is *3 $3 SET $1 b $1 x, 27 bytes; +OK is 5.
	if d.Cmds != sets || d.NetBytes != sets*(27+5) {
		t.Errorf("200 SETs cost %+v, want %d commands and %d bytes", d, sets, sets*32)
	}
	if !(d.CPU > 0) {
		t.Errorf("200 SETs cost %v ns of CPU time", d.CPU)
	}
	script := redis.NewScript(`redis.call("SET", KEYS[1], "y") return redis.call("DEL", KEYS[1])`)
	if err := script.Eval(ctx, c, []string{"b"}).Err(); err != nil {
		t.Fatal(err)
	}
	inside, err := s.Usage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := between(after, inside); d.Cmds != 3 {
		t.Errorf("a script of two commands counts as %v, want 3", d.Cmds)
	}
}

// The CPU time of a server is read without a question to it, whose answer would be
// most of what an idle server takes.
func TestCPUAsksNobody(t *testing.T) {
	s := start(t, lock.Needs{Kind: "redis"}, Options{Source: Binary})
	ctx := t.Context()
	before, err := s.Usage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	last := before.CPU
	n := s.nodes[0].(*redisNode)
	read := n.read.Load()
	for range 10 {
		ns, err := s.CPU(ctx)
		if err != nil || ns < last {
			t.Errorf("%v after %v, %v", ns, last, err)
		}
		last = ns
	}
	if runtime.GOOS == "linux" && n.read.Load() != read {
		t.Errorf("the server sent %d bytes", n.read.Load()-read)
	}
	embedded := start(t, lock.Needs{Kind: "redis"}, Options{Source: Embedded})
	if ns, err := embedded.CPU(ctx); !math.IsNaN(ns) || err != nil {
		t.Errorf("embedded: %v, %v", ns, err)
	}
	if ns, err := (&Server{}).CPU(ctx); !math.IsNaN(ns) || err != nil {
		t.Errorf("no nodes: %v, %v", ns, err)
	}
}

func checkRTT(t *testing.T, s *Server) {
	t.Helper()
	list, err := s.RTT(t.Context(), 50)
	if err != nil || len(list) != 50 || slices.Min(list) <= 0 {
		t.Errorf("RTT: %v, %v", list, err)
	}
}

func listens(e lock.Endpoint) bool {
	u, err := url.Parse(e.Reveal())
	if err != nil {
		return false
	}
	c, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

func wantGone(t *testing.T, id string) {
	t.Helper()
	e, err := openEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.close() }()
	eventually(t, "the end of container "+id, func() bool {
		_, err := e.cli.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
		return errdefs.IsNotFound(err)
	})
}

func TestURL(t *testing.T) {
	own := start(t, lock.Needs{Kind: "redis", Nodes: 2}, Options{Source: Binary})
	s := start(t, lock.Needs{Kind: "redis", Nodes: 2}, Options{URLs: map[string][]lock.Endpoint{"redis": own.Deployment.Nodes}})
	if s.Source != URL || s.Version != own.Version || len(s.Processes()) != 0 || len(s.Deployment.Nodes) != 2 {
		t.Errorf("%+v", Describe(s))
	}
	checkUsage(t, s)
	checkRTT(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(own.Processes()) != 2 || !listens(own.Deployment.Nodes[0]) {
		t.Error("Close stopped a server that it had not started")
	}

	twice := []lock.Endpoint{own.Deployment.Nodes[0], own.Deployment.Nodes[0]}
	_, err := Start(t.Context(), lock.Needs{Kind: "redis", Nodes: 2}, Options{URLs: map[string][]lock.Endpoint{"redis": twice}})
	wantError(t, err, "addresses 1 and 2 are one server")
	_, err = Start(t.Context(), lock.Needs{Kind: "redis", Nodes: 3}, Options{URLs: map[string][]lock.Endpoint{"redis": twice}})
	wantError(t, err, "3 independent servers are needed, and 2 addresses were given")
	_, err = Start(t.Context(), lock.Needs{Kind: "redis"}, Options{Source: URL})
	wantError(t, err, "export LOCKBENCH_REDIS_URL=")
	if !errors.Is(err, ErrMissing) {
		t.Errorf("%v is no ErrMissing", err)
	}
}

func TestNothingNeeded(t *testing.T) {
	s, err := Start(t.Context(), lock.Needs{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.Usage(t.Context())
	if err != nil || !math.IsNaN(u.Cmds) {
		t.Errorf("usage %+v, %v", u, err)
	}
	list, err := s.RTT(t.Context(), 3)
	if list != nil || err != nil {
		t.Errorf("RTT %v, %v", list, err)
	}
	if n, err := s.Remove(t.Context(), "a"); n != 0 || err != nil {
		t.Errorf("Remove %d, %v", n, err)
	}
	if d := Describe(s); d.Source != "memory" || d.Kind != "" || d.Nodes != nil {
		t.Errorf("%+v", d)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestRemoveInBatches(t *testing.T) {
	s := start(t, lock.Needs{Kind: "redis"}, Options{Source: Embedded})
	c := connect(t, s.Deployment.Nodes[0])
	var names []string
	for i := range 2*batch + 1 {
		names = append(names, fmt.Sprintf("k%d", i))
		if err := c.Set(t.Context(), names[i], "", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Set(t.Context(), "somebody-else's", "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Remove(t.Context(), names...); n != len(names) || err != nil {
		t.Errorf("removed %d of %d, %v", n, len(names), err)
	}
	if n := c.DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("%d keys left, want the stranger's alone", n)
	}
}

func TestEmbeddedExpires(t *testing.T) {
	s := start(t, lock.Needs{Kind: "redis"}, Options{Source: Embedded})
	ctx := t.Context()
	c := connect(t, s.Deployment.Nodes[0])
	if err := c.Set(ctx, "k", "v", 300*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(ctx, "long", "v", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	exists := redis.NewScript(`return redis.call("EXISTS", KEYS[1])`)
	eventually(t, "the key's expiry", func() bool { return c.SetNX(ctx, "k", "w", 300*time.Millisecond).Val() })
	eventually(t, "the key's expiry inside a script", func() bool { return exists.Run(ctx, c, []string{"k"}).Val() == int64(0) })
	if ttl := c.PTTL(ctx, "long").Val(); ttl <= 0 || ttl >= time.Hour {
		t.Errorf("an hour's lease has %v left", ttl)
	}
}

func TestNeeds(t *testing.T) {
	for _, src := range []Source{Binary, Embedded} {
		start(t, lock.Needs{Kind: "redis", MinVersion: "2.6", Feature: "GETDEL"}, Options{Source: src})
		for _, n := range []struct {
			need lock.Needs
			want string
		}{
			{lock.Needs{Kind: "redis", MinVersion: "99.1"}, "needs redis ≥ 99.1, found "},
			{lock.Needs{Kind: "redis", Feature: "NOSUCHCOMMAND"}, "needs a redis with NOSUCHCOMMAND, found "},
			{lock.Needs{Kind: "redis", Feature: "SET NOSUCHOPTION"}, "needs a redis with SET NOSUCHOPTION"},
		} {
			_, err := Start(t.Context(), n.need, Options{Source: src})
			wantError(t, err, n.want)
			if !errors.Is(err, ErrMissing) {
				t.Errorf("%v is no ErrMissing", err)
			}
		}
	}
	s := start(t, lock.Needs{Kind: "redis", MinVersion: "7.0", Feature: "SET KEEPTTL"}, Options{Source: Binary})
	if ok, err := s.nodes[0].(*redisNode).has(t.Context(), "client tracking"); !ok || err != nil {
		t.Errorf("CLIENT TRACKING: %v, %v", ok, err)
	}
	_, err := Start(t.Context(), lock.Needs{Kind: "nosuch"}, Options{})
	wantError(t, err, `"nosuch" is no kind of server`)
	_, err = Start(t.Context(), lock.Needs{Kind: "redis"}, Options{Source: "nosuch"})
	wantError(t, err, "want url, binary, docker or embedded")
}

func TestOlderThan(t *testing.T) {
	for _, c := range []struct {
		have, want string
		older      bool
	}{
		{"7.0.15", "7.0", false}, {"7.0.15", "7", false}, {"7.0", "7.0.1", true}, {"6.2.14", "7.0", true},
		{"10.0", "9.1", false}, {"8.0-rc1", "8.0", false}, {"", "1", true}, {"8.0", "", false},
	} {
		if got := olderThan(c.have, c.want); got != c.older {
			t.Errorf("olderThan(%q, %q) = %v", c.have, c.want, got)
		}
	}
}

func TestFromEnv(t *testing.T) {
	t.Setenv("LOCKBENCH_REDIS_URL", "redis://a:1, redis://b:2\nredis://c:3")
	t.Setenv("LOCKBENCH_SERVER", "docker")
	t.Setenv("LOCKBENCH_REDIS_IMAGE", "valkey:9")
	o, err := FromEnv()
	if err != nil || len(o.URLs["redis"]) != 3 || o.URLs["redis"][1].Reveal() != "redis://b:2" || o.Source != Docker || o.Images["redis"] != "valkey:9" {
		t.Errorf("%+v, %v", o, err)
	}
	t.Setenv("LOCKBENCH_SERVER", "dokcer")
	_, err = FromEnv()
	wantError(t, err, `LOCKBENCH_SERVER: "dokcer" is no source of servers: want url, binary, docker or embedded`)
	t.Setenv("LOCKBENCH_SERVER", "docker")
	for text, always := range map[string]bool{"always": true, "default": false} {
		t.Setenv("LOCKBENCH_NATS_SYNC", text)
		if o, err := FromEnv(); err != nil || o.SyncAlways != always {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
	t.Setenv("LOCKBENCH_NATS_SYNC", "never")
	_, err = FromEnv()
	wantError(t, err, `LOCKBENCH_NATS_SYNC: "never": want default or always`)
	t.Setenv("LOCKBENCH_NATS_SYNC", "")
	t.Setenv("LOCKBENCH_REDIS_URL", "")
	t.Setenv("LOCKBENCH_SERVER", "")
	t.Setenv("LOCKBENCH_REDIS_IMAGE", "")
	if o, err := FromEnv(); err != nil || len(o.URLs) > 0 || o.Source != "" || len(o.Images) > 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v\nwant %s", err, want)
	} else if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}
