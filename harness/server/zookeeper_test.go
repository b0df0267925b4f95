package server_test

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// A server of ZooKeeper, and an ensemble of three, can be started, looked at and
// cleared, and nothing is left of them.
func TestZooKeeper(t *testing.T) {
	for _, topology := range []lock.Topology{lock.Single, lock.Ensemble} {
		t.Run("topology="+string(topology), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			o := server.Options{Source: server.Binary, Topologies: map[string]lock.Topology{"zookeeper": topology}}
			s, err := server.Start(ctx, lock.Needs{Kind: "zookeeper"}, o)
			if errors.Is(err, server.ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "zookeeper") {
				t.Skipf("NOT RUN: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() }) // again, where the test ends early
			want := 1
			if topology == lock.Ensemble {
				want = 3
			}
			if s.Product != "zookeeper" || s.Version == "" || !strings.Contains(s.Options, "forceSync no") || len(s.Processes()) != want {
				t.Errorf("%s %q, options %q, processes %v", s.Product, s.Version, s.Options, s.Processes())
			}
			if topology == lock.Ensemble && len(s.Members) != want || topology == lock.Single && s.Members != nil {
				t.Errorf("the members are %v", s.Members)
			}
			if s.Topology() != topology {
				t.Errorf("it is a %q", s.Topology())
			}

			before, err := s.Usage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			list, err := s.RTT(ctx, 20)
			if err != nil || len(list) != 20 || slices.Min(list) <= 0 {
				t.Errorf("round trips: %v, error %v", list, err)
			}
			after, err := s.Usage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if after.Cmds-before.Cmds < 20 || after.CPU <= before.CPU {
				t.Errorf("20 round trips: %+v, then %+v", before, after)
			}

			addrs := strings.Split(strings.TrimPrefix(s.Deployment.Nodes[0].Reveal(), "zookeeper://"), ",")
			c, _, err := zk.Connect(addrs, 10*time.Second, zk.WithLogInfo(false))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/a%2Fb", "/a%2Fb/leases", "/a%2Fb/leases/x", "/other"} {
				if _, err := c.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
					t.Fatal(err)
				}
			}
			c.Close()
			if n, err := s.Remove(ctx, "a%2Fb", "nothing"); n != 3 || err != nil {
				t.Errorf("removed %d nodes of a key that had 3, error %v", n, err)
			}
			if n, err := s.Remove(ctx, "a%2Fb", "other/x", "zookeeper", "", ".."); n != 0 || err != nil {
				t.Errorf("removed %d nodes of a key that had none, and of names of no node, error %v", n, err)
			}
			for _, asked := range addrs {
				for _, made := range addrs {
					removeAtOnce(t, asked, made)
				}
			}
			if n, err := s.Remove(ctx, "other"); n != 1 || err != nil {
				t.Errorf("removed %d nodes of another key, error %v", n, err)
			}

			// The same as an address that was given.
			given := server.Options{URLs: map[string][]lock.Endpoint{"zookeeper": s.Deployment.Nodes}}
			u, err := server.Start(ctx, lock.Needs{Kind: "zookeeper"}, given)
			if err != nil {
				t.Fatal(err)
			}
			if u.Source != server.URL || u.Version != s.Version || len(u.Processes()) != 0 {
				t.Errorf("by its address it is %+v", u)
			}
			if err := u.Close(); err != nil {
				t.Error(err)
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
		})
	}
}

// removeAtOnce removes by way of the server at asked what a client of the one at
// made has only just made, of which the other may not have learned: also a leader,
// of what it has told the others to do.
func removeAtOnce(t *testing.T, asked, made string) {
	t.Helper()
	s, err := server.Start(t.Context(), lock.Needs{Kind: "zookeeper"}, server.Options{
		URLs: map[string][]lock.Endpoint{"zookeeper": {lock.Endpoint("zookeeper://" + asked)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c, _, err := zk.Connect([]string{made}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 150 {
		if _, err := c.Create("/fresh", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Remove(t.Context(), "fresh"); n != 1 || err != nil {
			t.Fatalf("of the node made by %s for the %dth time %d were removed by %s, error %v", made, i+1, n, asked, err)
		}
	}
}

// Whatever is no ZooKeeper at an address that was given gets one clear line.
func TestNoZooKeeper(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("-ERR unknown command\r\n"))
			_ = c.Close()
		}
	}()
	at := l.Addr().String()
	_, err = server.Start(t.Context(), lock.Needs{Kind: "zookeeper"}, server.Options{URLs: map[string][]lock.Endpoint{
		"zookeeper": {lock.Endpoint("zookeeper://" + at)},
	}})
	if err == nil || !strings.Contains(err.Error(), at) || strings.ContainsAny(err.Error(), "\r\n") {
		t.Errorf("%v", err)
	}
}
