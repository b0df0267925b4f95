package server

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string][]lock.Endpoint{
		"":                               nil,
		" redis://a:1, redis://b:2\n":    {"redis://a:1", "redis://b:2"},
		"redis://a:1,redis://b:2":        {"redis://a:1", "redis://b:2"},
		"redis+cluster://a:1,b:2":        {"redis+cluster://a:1,b:2"},
		"redis+cluster://a:1,b:2 c:3":    {"redis+cluster://a:1,b:2", "c:3"},
		"redis://a:1,b:2":                {"redis://a:1", "b:2"},
		"zookeeper://a:1,b:2,c:3/lb,":    {"zookeeper://a:1,b:2,c:3/lb"},
		"etcd://a:1,etcd://b:2 etcd://c": {"etcd://a:1", "etcd://b:2", "etcd://c"},
		"redis+sentinel://a:1,b:2/m/1,":  {"redis+sentinel://a:1,b:2/m/1"},
		"redis+cluster://a:1,redis://b":  {"redis+cluster://a:1", "redis://b"},
	} {
		if got := Addresses(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// startGroup starts what t names from the installed program, until the end of
// the test.
func startGroup(t *testing.T, topology lock.Topology) *Server {
	t.Helper()
	return start(t, lock.Needs{Kind: "redis"}, Options{
		Source: Binary, Topologies: map[string]lock.Topology{"redis": topology},
		Programs: map[string]string{"redis": os.Getenv(envProgram)},
	})
}

// A cluster is one address for three servers, whose keys are removed wherever
// they live.
func TestCluster(t *testing.T) {
	t.Parallel()
	s := startGroup(t, lock.Cluster)
	d := Describe(s)
	if len(s.Deployment.Nodes) != 1 || s.Deployment.Nodes[0].Topology() != lock.Cluster || len(d.Nodes) != 3 || d.Topology != "cluster" {
		t.Fatalf("deployment %v, described as %+v", s.Deployment, d)
	}
	if n := len(s.Processes()); n != 3 {
		t.Errorf("%d processes, want 3", n)
	}
	before, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: hostsOf(t, s.Deployment.Nodes[0])})
	defer func() { _ = c.Close() }()
	var names []string
	const keys = 1200 // more than one batch, and some for each node
	for i := range keys {
		names = append(names, fmt.Sprintf("lb:{%d}:k", i))
	}
	_, err = c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, name := range names {
			p.Set(t.Context(), name, 1, 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if spent := between(before, after); spent.Cmds < keys || !(spent.CPU > 0) {
		t.Errorf("%d keys cost %+v", keys, spent)
	}
	if n, err := s.Remove(t.Context(), names...); n != keys || err != nil {
		t.Errorf("Remove: %d, %v; want %d", n, err, keys)
	}
	if list, err := s.RTT(t.Context(), 3); len(list) != 3 || err != nil {
		t.Errorf("RTT: %v, %v", list, err)
	}

	// What runs already is found by its address, and a node of it is no server.
	given := func(list ...lock.Endpoint) Options {
		return Options{URLs: map[string][]lock.Endpoint{"redis": list}}
	}
	again, err := Start(t.Context(), lock.Needs{Kind: "redis"}, given(s.Deployment.Nodes...))
	if err != nil {
		t.Fatal(err)
	}
	if again.Version != s.Version || again.Source != URL || len(Describe(again).Nodes) != 3 {
		t.Errorf("by its address: %+v", Describe(again))
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	one, _, err := s.Deployment.Nodes[0].Split()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		o    Options
		n    lock.Needs
		want string
	}{
		{"a node as a server", given(one[0]), lock.Needs{Kind: "redis"}, "redis+cluster://"},
		{"two clusters", given(s.Deployment.Nodes[0], s.Deployment.Nodes[0]), lock.Needs{Kind: "redis"}, "one cluster is enough"},
		{"a mixture", given(one[0], s.Deployment.Nodes[0]), lock.Needs{Kind: "redis"}, "single servers"},
		{"several nodes", given(s.Deployment.Nodes...), lock.Needs{Kind: "redis", Nodes: 5}, "needs 5 independent servers"},
	} {
		s, err := Start(t.Context(), c.n, c.o)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

// A container and the imitation are no cluster, and say so.
func TestClusterMissing(t *testing.T) {
	t.Parallel()
	for _, source := range []Source{Docker, Embedded, URL} {
		for _, topology := range []lock.Topology{lock.Cluster, lock.Sentinel} {
			s, err := Start(t.Context(), lock.Needs{Kind: "redis"}, Options{Source: source, Topologies: map[string]lock.Topology{"redis": topology}})
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), string(topology)) {
				t.Errorf("%s of %s: %v, want ErrMissing", topology, source, err)
			}
		}
	}
}

// Behind sentinels the keys are those of the master, whichever server that is.
func TestSentinel(t *testing.T) {
	t.Parallel()
	s := startGroup(t, lock.Sentinel)
	d := Describe(s)
	if len(s.Deployment.Nodes) != 1 || s.Deployment.Nodes[0].Topology() != lock.Sentinel || len(d.Nodes) != 1 || d.Topology != "sentinel" {
		t.Fatalf("deployment %v, described as %+v", s.Deployment, d)
	}
	if n := len(s.Processes()); n != 5 {
		t.Errorf("%d processes, want 5", n)
	}
	o, err := redis.ParseURL(d.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	defer func() { _ = c.Close() }()
	if err := c.Set(t.Context(), "lb:{x}:k", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Remove(t.Context(), "lb:{x}:k", "lb:{x}:none"); n != 1 || err != nil {
		t.Errorf("Remove: %d, %v; want 1", n, err)
	}
	u, err := s.Usage(t.Context())
	if err != nil || !(u.Cmds > 0) || !(u.CPU > 0) {
		t.Errorf("Usage: %+v, %v", u, err)
	}
	wrong := lock.Endpoint(strings.TrimSuffix(s.Deployment.Nodes[0].Reveal(), "lockbench") + "another")
	again, err := Start(t.Context(), lock.Needs{Kind: "redis"}, Options{URLs: map[string][]lock.Endpoint{"redis": {wrong}}})
	if err == nil {
		_ = again.Close()
	}
	if err == nil || !strings.Contains(err.Error(), `no master "another"`) {
		t.Errorf("a name that nobody knows: %v", err)
	}
}

// hostsOf lists host:port of the nodes that e names.
func hostsOf(t *testing.T, e lock.Endpoint) (list []string) {
	t.Helper()
	nodes, _, err := e.Split()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		list = append(list, strings.TrimPrefix(n.Reveal(), "redis://"))
	}
	return list
}
