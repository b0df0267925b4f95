package impls_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/etcd"
	"github.com/lockbench/lockbench/impls/lock"
)

// TestMain lets more tests run at once than there are processors, unless
// -parallel says otherwise: most cases of the suite wait for a lease to end,
// and a wait costs no processor. Where there is no Redis, fewer do: its imitation
// shares the processors with the tests, whose leases would end meanwhile.
func TestMain(m *testing.M) {
	builtin.Main()
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		most := "64"
		if _, err := exec.LookPath("redis-server"); err != nil {
			most = "16"
		}
		if err := flag.Set("test.parallel", most); err != nil {
			fmt.Fprintln(os.Stderr, "setting -parallel:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// fromEnv are the servers that the environment names, or those of this machine.
func fromEnv(t testing.TB) server.Options {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	o.Embeds = builtin.Embeds()
	return o
}

// required reports whether LOCKBENCH_REQUIRE lists what.
func required(what string) bool {
	return slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), what)
}

// lacking skips a test that needs a server that start did not find.
func lacking(t *testing.T, n lock.Needs) {
	t.Helper()
	if n.Kind == "redis" {
		t.Skipf("NOT RUN: there is no %s; scripts/newer gets a server that has more, and LOCKBENCH_REDIS_SERVER names it", n)
	}
	t.Skipf("NOT RUN: there is no %s; get it with scripts/servers %s", n, n.Kind)
}

// TestConformance runs the suite over every variant, on the best server that
// this machine has.
func TestConformance(t *testing.T) {
	o := fromEnv(t)
	conform(t, o, impls.All(), locktest.Options{}, true)
}

// TestConformanceEmbedded runs it once more on what a user without a server has: the
// imitation of Redis in this process, and the etcd in a child process.
func TestConformanceEmbedded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT RUN: -short leaves out the embedded server")
	}
	served := slices.DeleteFunc(impls.All(), func(v lock.Variant) bool { return v.Needs.Kind != "redis" && v.Needs.Kind != "etcd" })
	conform(t, server.Options{Source: server.Embedded, Embeds: builtin.Embeds()}, served, locktest.Options{}, false)
}

// TestConformanceCluster runs it on a cluster of three. The cases that put a relay
// between client and server are left to the single server, because the nodes of
// a cluster tell the client their own addresses.
func TestConformanceCluster(t *testing.T) {
	t.Parallel()
	variants := slices.DeleteFunc(impls.All(), func(v lock.Variant) bool {
		return v.Needs.Kind != "redis" || v.Unsuited(lock.Cluster) != ""
	})
	if len(variants) < 2*14+6+6 {
		t.Errorf("%d variants suit a cluster, want all single-key ones on each client, and the peers", len(variants))
	}
	if testing.Short() {
		// One for each way to use a server: a command, a script with one key and
		// with several, a command that blocks, and messages of all three kinds.
		few := []string{"redis-token", "redis-token-native", "redis-fenced", "redis-blpop", "redis-reentrant", "redis-handoff", "redis-tracking"}
		variants = slices.DeleteFunc(variants, func(v lock.Variant) bool { return !slices.Contains(few, v.Algo) })
		t.Logf("NOT RUN: -short leaves out all but %s", strings.Join(few, ", "))
	}
	conform(t, onBinary(t, "redis", lock.Cluster), variants, locktest.Options{}, true)
}

// TestConformanceKeepers runs it on an ensemble of three servers of ZooKeeper.
func TestConformanceKeepers(t *testing.T) {
	t.Parallel()
	variants := slices.DeleteFunc(impls.All(), func(v lock.Variant) bool {
		return v.Needs.Kind != "zookeeper" || v.Unsuited(lock.Ensemble) != ""
	})
	if testing.Short() {
		variants = slices.DeleteFunc(variants, func(v lock.Variant) bool { return v.Algo != "zk-sequential" && v.Algo != "zk-multi" })
		t.Logf("NOT RUN: -short leaves out all but zk-sequential and zk-multi")
	}
	conform(t, onBinary(t, "zookeeper", lock.Ensemble), variants, locktest.Options{}, true)
}

// TestConformanceEtcdCluster runs it on an etcd of three members.
func TestConformanceEtcdCluster(t *testing.T) {
	t.Parallel()
	variants := slices.DeleteFunc(impls.All(), func(v lock.Variant) bool {
		return v.Needs.Kind != "etcd" || v.Unsuited(lock.Ensemble) != ""
	})
	conform(t, onBinary(t, "etcd", lock.Ensemble), variants, locktest.Options{}, true)
}

// TestConformanceNATSCluster runs it on a NATS of three servers, which replicate the keys.
func TestConformanceNATSCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: -short leaves out the three servers of NATS, which are built into the test")
	}
	t.Parallel()
	variants := slices.DeleteFunc(impls.All(), func(v lock.Variant) bool {
		return v.Needs.Kind != "nats" || v.Unsuited(lock.Ensemble) != ""
	})
	conform(t, onBinary(t, "nats", lock.Ensemble), variants, locktest.Options{}, true)
}

// onBinary are the options that start servers of kind as topology says from the
// installed program, whatever address is given, or skip the test loudly. Where there is no
// NATS it is the one that is built in.
func onBinary(t *testing.T, kind string, topology lock.Topology) server.Options {
	t.Helper()
	o := fromEnv(t)
	o.URLs, o.Source, o.Topologies = nil, server.Binary, map[string]lock.Topology{kind: topology}
	for _, f := range server.Find(t.Context(), kind, o) {
		if f.Source == server.Binary && !f.OK && kind == "nats" {
			o.Source = server.Embedded
			return o
		}
		if f.Source == server.Binary && !f.OK {
			if required(kind) {
				t.Fatalf("LOCKBENCH_REQUIRE lists %s: %s", kind, f.Hint)
			}
			t.Skipf("NOT RUN: %s", f.Hint)
		}
	}
	return o
}

// conform runs the suite over variants, on one server for each need, which
// ought to be a real one or need not.
func conform(t *testing.T, o server.Options, variants []lock.Variant, options locktest.Options, genuine bool) {
	conformOn(t, provide(t, variants, o, genuine), variants, options, genuine)
}

// conformOn is conform on servers that run.
func conformOn(t *testing.T, servers map[lock.Needs]*server.Server, variants []lock.Variant, options locktest.Options, genuine bool) {
	for _, v := range variants {
		s := servers[v.Needs]
		t.Run(v.Name(), func(t *testing.T) {
			if s == nil {
				lacking(t, v.Needs)
			}
			if genuine && standIn(s) && !testing.Short() {
				t.Skipf("NOT RUN on a real server, and TestConformanceEmbedded runs it on this one; get one with scripts/servers %s", v.Needs.Kind)
			}
			// On a cluster the loads need not be large: they are on the single server.
			options := options
			options.Short = testing.Short() || standIn(s) || s.Topology() != lock.Single
			// Three servers that have to agree with each other may all wait for one of few
			// processors, and a lease of a second ends meanwhile.
			if s.Topology() == lock.Ensemble {
				options.TTL = 2 * time.Second
			}
			// Hundreds of owners, all of which each release wakes, make many thousand requests.
			options.Short = options.Short || v.Algo == "zk-ephemeral"
			// Hundreds of owners that all ask five servers split the votes, and on a busy machine
			// hardly any gets three of them for minutes.
			options.Short = options.Short || v.Needs.Nodes > 1 && v.Engines == nil
			// Nor do hundreds that share 32 connections to a database tell more than a hundred.
			options.Short = options.Short || v.Needs.Kind == "mysql" || v.Needs.Kind == "postgresql"
			// The client library races with itself when it connects again (conn.go: sendSetWatches
			// reads where it was while recvLoop moves on). `make test` runs these cases.
			options.NoProxy = racing && v.Needs.Kind == "zookeeper"
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
			if v.Needs.Kind == "mysql" || v.Needs.Kind == "postgresql" {
				options.Find = func(ctx context.Context, part string) ([]string, error) {
					return findRows(ctx, v.Needs.Kind, s.Deployment.Nodes[0], part)
				}
			}
			if v.Needs.Kind == "zookeeper" {
				options.Find = func(ctx context.Context, part string) ([]string, error) { return findNodes(s.Deployment, part) }
			}
			if v.Needs.Kind == "etcd" {
				options.Find = func(ctx context.Context, part string) ([]string, error) { return findInEtcd(ctx, s.Deployment, part) }
			}
			if v.Needs.Kind == "nats" {
				options.Find = func(ctx context.Context, part string) ([]string, error) { return findInNATS(ctx, s.Deployment, part) }
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
	return accept(t, n, genuine, ending(t, s), err)
}

// provide is start for each of what variants need. It starts several at once, for most
// of the time they wait for each other; not all, or the large ones would be late.
func provide(t *testing.T, variants []lock.Variant, o server.Options, genuine bool) map[lock.Needs]*server.Server {
	t.Helper()
	var needs []lock.Needs
	for _, v := range variants {
		if !slices.Contains(needs, v.Needs) {
			needs = append(needs, v.Needs)
		}
	}
	list, errs := make([]*server.Server, len(needs)), make([]error, len(needs))
	var all sync.WaitGroup
	turn := make(chan struct{}, 4)
	for i, n := range needs {
		all.Go(func() {
			turn <- struct{}{}
			list[i], errs[i] = server.Start(t.Context(), n, o)
			<-turn
		})
	}
	all.Wait()
	for _, s := range list {
		ending(t, s)
	}
	servers := make(map[lock.Needs]*server.Server)
	for i, n := range needs {
		servers[n] = accept(t, n, genuine, list[i], errs[i])
	}
	return servers
}

// ending closes s, which may be nil, at the end of t, and returns it.
func ending(t *testing.T, s *server.Server) *server.Server {
	t.Helper()
	if s != nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s
}

// standIn reports whether s stands in for a server that could be installed. The NATS that
// is built in is what every machine has.
func standIn(s *server.Server) bool { return s.Source == server.Embedded && s.Kind != "nats" }

// accept returns s, which is what server.Start made of n, or nil if t gets along
// without, or ends t.
func accept(t *testing.T, n lock.Needs, genuine bool, s *server.Server, err error) *server.Server {
	t.Helper()
	if n.Feature != "" && errors.Is(err, server.ErrMissing) && (!genuine || !required("valkey9")) {
		return nil
	}
	if genuine && errors.Is(err, server.ErrMissing) && !required(n.Kind) {
		return nil // it has no stand-in, or none is allowed
	}
	if err != nil {
		t.Fatal(err)
	}
	if n.Kind == "" {
		return s
	}
	t.Logf("%s: %s %s, source %s, %v", n, s.Product, s.Version, s.Source, s.Deployment.Nodes)
	if genuine && standIn(s) && required(n.Kind) {
		t.Fatalf("LOCKBENCH_REQUIRE lists %s, but the server is the embedded one", n.Kind)
	}
	if genuine && s.Source == server.Embedded && n.Kind == "redis" {
		t.Logf("NOT A REAL SERVER: the suite runs on an imitation of %s inside this process, which proves little; "+
			"get a real one with scripts/servers %[1]s", n.Kind)
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

// findNodes lists the nodes at the root whose name contains part.
func findNodes(d lock.Deployment, part string) (names []string, err error) {
	hosts, _, err := d.Nodes[0].Split()
	if err != nil {
		return nil, err
	}
	var at []string
	for _, h := range hosts {
		at = append(at, strings.TrimPrefix(h.Reveal(), "zookeeper://"))
	}
	c, _, err := zk.Connect(at, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	list, _, err := c.Children("/")
	for _, name := range list {
		if strings.Contains(name, part) {
			names = append(names, name)
		}
	}
	return names, err
}

// findInEtcd lists the keys of our tests that contain part.
func findInEtcd(ctx context.Context, d lock.Deployment, part string) (names []string, err error) {
	c, _, err := etcd.Dial(ctx, d, lock.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r, err := c.Get(ctx, "lb:", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	for _, kv := range r.Kvs {
		if strings.Contains(string(kv.Key), part) {
			names = append(names, string(kv.Key))
		}
	}
	return names, nil
}

// findInNATS lists the keys and buckets of our tests that contain part.
func findInNATS(ctx context.Context, d lock.Deployment, part string) (names []string, err error) {
	hosts, _, err := d.Nodes[0].Split()
	if err != nil {
		return nil, err
	}
	c, err := nats.Connect(hosts[0].Reveal())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return nil, err
	}
	buckets := js.KeyValueStoreNames(ctx)
	for bucket := range buckets.Name() {
		if strings.Contains(bucket, part) {
			names = append(names, bucket)
		}
		subjects, err := subjectsOf(ctx, js, "KV_"+bucket)
		if err != nil {
			return nil, err
		}
		for subject := range subjects {
			if strings.Contains(subject, part) {
				names = append(names, subject)
			}
		}
	}
	return names, buckets.Error()
}

// subjectsOf lists what the stream of that name has, which is nothing once another case has
// removed it. A cluster that is removing it just now may never answer, so it is asked again.
func subjectsOf(ctx context.Context, js jetstream.JetStream, name string) (map[string]uint64, error) {
	ask := func() (map[string]uint64, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		s, err := js.Stream(ctx, name)
		if err != nil {
			return nil, err
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter("$KV.>"))
		if err != nil {
			return nil, err
		}
		return info.State.Subjects, nil
	}
	for {
		subjects, err := ask()
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, nil
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		default:
			return subjects, err
		}
	}
}
