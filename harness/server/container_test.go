package server

import (
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/lockbench/lockbench/impls/lock"
)

// contained are the kinds that a family starts in a container, with the product and
// options that ours have and tell, the program that has to run, and what makes the server
// work for a moment.
var contained = []struct {
	kind, product, options, program string
	work                            func(t *testing.T, s *Server)
}{
	{"mysql", "mariadb", "innodb_flush_log_at_trx_commit 1", "mariadbd", func(t *testing.T, s *Server) {
		t.Helper()
		if _, err := s.nodes[0].(*mysqlNode).db.ExecContext(t.Context(), "DO BENCHMARK(200000, SHA2('a', 256))"); err != nil {
			t.Error(err)
		}
	}},
	{"postgresql", "postgresql", "fsync on synchronous_commit on", "postgres", func(t *testing.T, s *Server) {
		t.Helper()
		if _, err := s.nodes[0].(*postgresNode).db.ExecContext(t.Context(), "CREATE TABLE t AS SELECT generate_series(1, 100000)"); err != nil {
			t.Error(err)
		}
	}},
	{"zookeeper", "zookeeper", "tickTime 100 minSessionTimeout 100 maxSessionTimeout 3600000", "java", func(t *testing.T, s *Server) {
		t.Helper()
		if _, err := s.nodes[0].(*keeperNode).conn.Create("/t", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Error(err)
		}
	}},
	{"etcd", "etcd", "", "etcd", func(t *testing.T, s *Server) {
		t.Helper()
		if _, err := s.nodes[0].(*etcdNode).client.Put(t.Context(), "t", ""); err != nil {
			t.Error(err)
		}
	}},
	{"nats", "nats", "sync_interval 2m", "nats-server", func(t *testing.T, s *Server) {
		t.Helper()
		if _, err := s.nodes[0].(*natsNode).js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "t"}); err != nil {
			t.Error(err)
		}
	}},
}

// withImage skips a test loudly if the engine or the image of kind is not here. It
// could be fetched, which a test does not do.
func withImage(t *testing.T, kind string) {
	t.Helper()
	for _, f := range Find(t.Context(), kind, Options{}) {
		if f.Source != Docker || f.OK {
			continue
		}
		if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "docker") {
			t.Fatalf("LOCKBENCH_REQUIRE lists docker: %s: %s", kind, f.Hint)
		}
		t.Skipf("NOT TESTED, because it is not here: %s", f.Hint)
	}
}

// A server of each kind runs in a container as one that is started from its program
// does, and is gone with Close.
func TestContainers(t *testing.T) {
	for _, c := range contained {
		t.Run(c.kind, func(t *testing.T) {
			withImage(t, c.kind)
			leaks := goleak.IgnoreCurrent()
			ctx := t.Context()
			s := start(t, lock.Needs{Kind: c.kind}, Options{Source: Docker})
			if s.Kind != c.kind || s.Source != Docker || s.Product != c.product || s.Version == "" || !strings.Contains(s.Options, c.options) || s.Durable == "" {
				t.Errorf("described as %+v, %s", Describe(s), s.Durable)
			}
			if u, err := url.Parse(s.Deployment.Nodes[0].Reveal()); err != nil || u.Hostname() != "127.0.0.1" {
				t.Errorf("it is not on the loopback: %v, %v", s.Deployment.Nodes, err)
			}
			before, err := s.Usage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			c.work(t, s)
			checkRTT(t, s)
			after, err := s.Usage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			procs := s.Processes()
			for _, p := range s.Relays() {
				if name, err := os.ReadFile(filepath.Join(procDir(p.PID), "comm")); err == nil && strings.TrimSpace(string(name)) != relayName {
					t.Errorf("process %d is %q, which carries nothing to a container", p.PID, name)
				}
			}
			if len(s.Relays()) == 0 && relayed(t) {
				t.Error("the engine publishes ports by a process of its own, and none was found")
			}
			if len(procs) == 0 {
				if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "docker") {
					t.Error("LOCKBENCH_REQUIRE lists docker, but the processes of its engine are not visible here")
				}
				t.Log("NOT TESTED: the processes of the engine are not visible here")
			} else {
				for _, p := range procs {
					if name, err := os.ReadFile(filepath.Join(procDir(p.PID), "comm")); err == nil && !strings.HasPrefix(string(name), c.program) {
						t.Errorf("process %d is %q, want %s only", p.PID, name, c.program)
					}
				}
				if spent := between(before, after).CPU; math.IsNaN(spent) || spent <= 0 {
					t.Errorf("its work took %v ns of CPU time", spent)
				}
			}
			if _, err := s.Kill(); err == nil {
				t.Error("a container could be killed and started again, which would be another one")
			}
			id := s.hosts[0].(*box).id
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, p := range procs {
				if p.Alive() {
					t.Errorf("process %d has outlived its container", p.PID)
				}
			}
			if listens(s.Deployment.Nodes[0]) {
				t.Errorf("%s still listens", s.Deployment.Nodes[0])
			}
			wantGone(t, id)
			goleak.VerifyNone(t, leaks)
		})
	}
}

// relayed tells whether the engine of this machine has a process for a published port.
func relayed(t *testing.T) bool {
	t.Helper()
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	return slices.ContainsFunc(names, func(path string) bool {
		name, err := os.ReadFile(path)
		return err == nil && strings.TrimSpace(string(name)) == relayName
	})
}

// What a container's program said last is in the error, and the container is gone.
func TestContainerThatEnds(t *testing.T) {
	withImage(t, "redis")
	e, err := openEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.close() }()
	image, err := e.image(t.Context(), "redis", "redis:8", Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.launch(t.Context(), imaged{
		kind: "redis", image: image, programs: []string{"nosuch", "redis-server"}, port: "6379/tcp", args: []string{"--port", "6379"},
		first: "echo 'no room for it' >&2; false", ready: redisReady,
	})
	wantError(t, err, "ended at once")
	wantError(t, err, "no room for it")
	_, err = e.launch(t.Context(), imaged{kind: "redis", image: image, programs: []string{"nosuch"}, port: "6379/tcp", ready: redisReady})
	wantError(t, err, "nosuch: not found")
}

// An image that is not there is a missing with the command that gets it, of every
// kind; a topology that is not started in containers is one, too.
func TestNoImage(t *testing.T) {
	for _, k := range Kinds() {
		withImage(t, k.Name)
		o := Options{Source: Docker, Images: map[string]string{k.Name: localImage("no-" + k.Name)}}
		found := false
		for _, f := range Find(t.Context(), k.Name, o) {
			if f.Source == Docker {
				found = true
				if f.OK || !strings.Contains(f.Hint, "scripts/image "+k.Name) {
					t.Errorf("%+v", f)
				}
			}
		}
		if !found {
			t.Errorf("%s: the source Docker is not listed", k.Name)
		}
		for _, topology := range k.Topologies {
			o := Options{Source: Docker, Topologies: map[string]lock.Topology{k.Name: topology}}
			_, err := Start(t.Context(), lock.Needs{Kind: k.Name}, o)
			wantError(t, err, "is started from a program only")
		}
	}
	e, err := openEngine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.close() }()
	_, err = e.image(t.Context(), "nosuch", "", Options{})
	wantError(t, err, "with -nosuch-image")
}
