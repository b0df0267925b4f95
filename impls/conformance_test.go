package impls_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// TestMain lets more tests run at once than there are processors, unless
// -parallel says otherwise: most cases of the suite wait for a lease to end,
// and a wait costs no processor.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "24"); err != nil {
			fmt.Fprintln(os.Stderr, "setting -parallel:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// required reports whether LOCKBENCH_REQUIRE lists what.
func required(what string) bool {
	return slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), what)
}

// TestConformance runs the suite over every variant, on the best server that
// this machine has.
func TestConformance(t *testing.T) {
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	conform(t, o, impls.All(), true)
}

// TestConformanceEmbedded runs it once more on the imitation in this process,
// which is what a user without a server has.
func TestConformanceEmbedded(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: -short leaves out the embedded server")
	}
	served := slices.DeleteFunc(impls.All(), func(v lock.Variant) bool { return v.Needs.Kind == "" })
	conform(t, server.Options{Source: server.Embedded}, served, false)
}

// TestConformanceCluster runs it on a cluster of three. The cases that put a relay
// between client and server are left to the single server, because the nodes of
// a cluster tell the client their own addresses.
func TestConformanceCluster(t *testing.T) {
	variants := slices.DeleteFunc(impls.All(), func(v lock.Variant) bool {
		return v.Needs.Kind != "redis" || v.Unsuited(lock.Cluster) != ""
	})
	if len(variants) < 2*14 {
		t.Errorf("%d variants suit a cluster, want all single-key ones on each client", len(variants))
	}
	if testing.Short() {
		// One for each way to use a server: a command, a script with one key and
		// with several, a command that blocks, and messages of both kinds.
		few := []string{"redis-token", "redis-token-native", "redis-fenced", "redis-blpop", "redis-reentrant", "redis-handoff"}
		variants = slices.DeleteFunc(variants, func(v lock.Variant) bool { return !slices.Contains(few, v.Algo) })
		t.Logf("NOT RUN: -short leaves out all but %s", strings.Join(few, ", "))
	}
	conform(t, onBinary(t, lock.Cluster), variants, true)
}

// onBinary are the options that start what t names from the installed program,
// whatever address is given, or skip the test loudly.
func onBinary(t *testing.T, topology lock.Topology) server.Options {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	o.URLs, o.Source, o.Topology = nil, server.Binary, topology
	for _, f := range server.Find(t.Context(), "redis", o) {
		if f.Source == server.Binary && !f.OK {
			if required("redis") {
				t.Fatalf("LOCKBENCH_REQUIRE lists redis: %s", f.Hint)
			}
			t.Skipf("NOT RUN: %s", f.Hint)
		}
	}
	return o
}

// conform runs the suite over variants, on one server for each need, which
// ought to be a real one or need not.
func conform(t *testing.T, o server.Options, variants []lock.Variant, genuine bool) {
	servers := map[lock.Needs]*server.Server{}
	for _, v := range variants {
		s, asked := servers[v.Needs]
		if !asked {
			s = start(t, v.Needs, o, genuine)
			servers[v.Needs] = s
		}
		t.Run(v.Name(), func(t *testing.T) {
			if s == nil {
				t.Skipf("NOT RUN: there is no %s; scripts/newer gets a server that has more, and LOCKBENCH_REDIS_SERVER names it", v.Needs)
			}
			// On a cluster the loads need not be large: they are on the single server.
			options := locktest.Options{Short: testing.Short() || s.Source == server.Embedded || s.Topology() == lock.Cluster}
			if v.Needs.Kind != "" {
				options.Remove = s.Remove
			}
			if v.Needs.Kind == "redis" {
				nodes := s.Members
				if nodes == nil {
					nodes = s.Deployment.Nodes
				}
				options.Find = func(ctx context.Context, part string) ([]string, error) { return find(ctx, nodes, part) }
			}
			locktest.Run(t, v, s.Deployment, options)
		})
	}
}

// start provides what n names until the end of t, or nil if that is a feature
// that no server here has and that is not required.
func start(t *testing.T, n lock.Needs, o server.Options, genuine bool) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), n, o)
	if n.Feature != "" && errors.Is(err, server.ErrMissing) && (!genuine || !required("valkey9")) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if n.Kind == "" {
		return s
	}
	t.Logf("%s: %s %s, source %s, %v", n, s.Product, s.Version, s.Source, s.Deployment.Nodes)
	if genuine && s.Source == server.Embedded {
		if required(n.Kind) {
			t.Fatalf("LOCKBENCH_REQUIRE lists %s, but the server is the embedded imitation", n.Kind)
		}
		t.Logf("NOT A REAL SERVER: the suite runs on an imitation of %s inside this process, which proves little; "+
			"`lockbench servers` says how to get a real one", n.Kind)
	}
	return s
}

// find lists the names that contain part on the redis servers at nodes.
func find(ctx context.Context, nodes []lock.Endpoint, part string) (names []string, err error) {
	for _, node := range nodes {
		found, err := scan(ctx, node, "*"+part+"*")
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	return names, nil
}

func scan(ctx context.Context, node lock.Endpoint, pattern string) (names []string, err error) {
	o, err := redis.ParseURL(node.Reveal())
	if err != nil {
		return nil, err
	}
	c := redis.NewClient(o)
	defer func() { err = errors.Join(err, c.Close()) }()
	it := c.Scan(ctx, 0, pattern, 1000).Iterator()
	for it.Next(ctx) {
		names = append(names, it.Val())
	}
	return names, it.Err()
}
