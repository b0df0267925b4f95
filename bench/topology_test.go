package bench

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// fromProgram ends a test that needs servers which work together and finds no
// program to start them from: as a failure wherever redis is required, whatever
// else it was found as.
func fromProgram(t *testing.T, topology lock.Topology) {
	t.Helper()
	if src := source(t); src != server.Binary {
		lacking(t, "redis", "a "+string(topology)+" is started from a program only, and redis is "+string(src)+" here")
	}
}

// group starts servers that work together, and returns their URL.
func group(t *testing.T, topology lock.Topology) string {
	t.Helper()
	fromProgram(t, topology)
	s, err := server.Start(t.Context(), lock.Needs{Kind: "redis"}, server.Options{Source: server.Binary, Topologies: map[string]lock.Topology{"redis": topology}})
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

// What cannot run on a cluster is left out by name, and the record says what the
// rest ran on.
func TestRunCluster(t *testing.T) {
	fromProgram(t, lock.Cluster)
	out := filepath.Join(t.TempDir(), "runs.jsonl")
	o := lockbench(t, small(t, "-redis-topology", "cluster", "-algo", "redis-token,redis-multi,redis-redlock", "-keys", "8",
		"-yardstick=false", "-out", out)...)
	if o.status != 0 {
		t.Fatalf("%+v", o)
	}
	for _, want := range []string{"left out redis-multi/goredis: it needs all keys on one server", "left out redis-redlock", " cluster (binary) at redis+cluster://"} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, o.stderr)
		}
	}
	runs := stored(t, out)
	if len(runs) != 1 || runs[0].Algo != "redis-token" || runs[0].Server.Topology != "cluster" || len(runs[0].Server.Nodes) != 3 {
		t.Errorf("%d runs, the first %s on %+v", len(runs), runs[0].Algo, runs[0].Server)
	}
}

// An address may name several hosts.
func TestTopologyByAddress(t *testing.T) {
	for _, topology := range []lock.Topology{lock.Cluster, lock.Sentinel} {
		url := group(t, topology)
		for _, client := range []string{"goredis", "redigo", "rueidis"} {
			o := lockbench(t, "lock", "-redis", url, "-algo", "redis-fenced", "-client", client, "-key", "lb:{"+string(topology)+"}:k", "--", "true")
			if o.status != 0 {
				t.Errorf("%s, %s: %+v", topology, client, o)
			}
		}
		if o := lockbench(t, "servers", "-redis", url); o.status != 0 || !strings.Contains(o.stdout, url) {
			t.Errorf("%s: %+v", topology, o)
		}
		if o := lockbench(t, "lock", "-redis", url, "-algo", "redis-redlock", "-key", "k", "--", "true"); o.status != exitMisuse || !strings.Contains(o.stderr, "independent servers, and a "+string(topology)+" is one") {
			t.Errorf("%s: %+v", topology, o)
		}
	}
	if o := lockbench(t, "lock", "-redis", "redis+cluster://h:1", "-algo", "redis-multi", "-key", "k", "--", "true"); o.status != exitMisuse || !strings.Contains(o.stderr, "all keys on one server") {
		t.Errorf("%+v", o)
	}
}
