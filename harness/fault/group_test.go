package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// together starts servers of kind that work together.
func together(t *testing.T, kind string, topology lock.Topology) *server.Server {
	t.Helper()
	return started(t, lock.Needs{Kind: kind}, server.Options{
		Source: server.Binary, Topologies: map[string]lock.Topology{kind: topology}, Persist: true,
	})
}

// inRoles are the roles of the servers of s, once they are want in any order.
func inRoles(t *testing.T, s *server.Server, want ...string) (roles []string) {
	t.Helper()
	want = slices.Sorted(slices.Values(want))
	eventually(t, "all of them in their roles", func() bool {
		roles = s.Roles(t.Context())
		return slices.Equal(slices.Sorted(slices.Values(roles)), want)
	})
	return roles
}

// down lists which servers of s do not run.
func down(s *server.Server) (list []int) {
	for n, own := range s.ByServer() {
		if len(own) == 0 {
			list = append(list, n)
		}
	}
	return list
}

// One member of a group ends and comes back, with its data or without, and the others go
// on. The evidence says which it was, and what it was before.
func TestOneOfGroup(t *testing.T) {
	for _, c := range []struct {
		kind     string
		topology lock.Topology
		roles    []string
		faults   []Fault
	}{
		{
			"redis", lock.Cluster,
			[]string{"master", "master", "master"},
			[]Fault{Kill{Servers: Target{Only: 2}}, Restart{Servers: Target{Role: "master"}, Empty: true}},
		},
		{
			"redis", lock.Sentinel,
			[]string{"master", "replica", "sentinel", "sentinel", "sentinel"},
			[]Fault{Restart{Servers: Target{Role: "master"}, Empty: true}, Kill{Servers: Target{Role: "replica"}}, Restart{Servers: Target{Role: "sentinel"}, Empty: true}},
		},
		{
			"zookeeper", lock.Ensemble,
			[]string{"follower", "follower", "leader"},
			[]Fault{Kill{Servers: Target{Role: "leader"}}, Restart{Servers: Target{Only: 2}}, Restart{Servers: Target{Role: "follower"}, Empty: true}, Restart{Empty: true}},
		},
		{
			"etcd", lock.Ensemble,
			[]string{"follower", "follower", "leader"},
			[]Fault{Kill{Servers: Target{Role: "leader"}}, Restart{Servers: Target{Only: 2}}, Restart{}, Restart{Empty: true}},
		},
	} {
		t.Run(c.kind+"/"+string(c.topology), func(t *testing.T) {
			s := together(t, c.kind, c.topology)
			for _, f := range c.faults {
				roles := inRoles(t, s, c.roles...)
				before := s.ByServer()
				i := inject(t, f, &Env{Server: s})
				gone := down(s)
				heal(t, i)
				target := Target{}
				switch f := f.(type) {
				case Kill:
					target = f.Servers
				case Restart:
					target = f.Servers
				}
				want, err := target.pick(len(roles), roles, "servers")
				if err != nil || !slices.Equal(gone, want) {
					t.Errorf("%s: %v are down, want %v of %v; %v", f, gone, want, roles, err)
				}
				if left := down(s); len(left) > 0 {
					t.Errorf("%s: healed, and %v are still down", f, left)
				}
				for n, own := range s.ByServer() {
					if again := own[0] != before[n][0]; again != slices.Contains(want, n) {
						t.Errorf("%s: server %d was started again: %v", f, n+1, again)
					}
				}
				for _, n := range want {
					if one := fmt.Sprintf("%d (%s)", n+1, roles[n]); !strings.Contains(i.Evidence(), one) {
						t.Errorf("%s: evidence %q, want %q", f, i.Evidence(), one)
					}
				}
				if _, err := s.Usage(t.Context()); err != nil {
					t.Errorf("%s: the cost of servers that came back: %v", f, err)
				}
			}
			inRoles(t, s, c.roles...)
		})
	}
}

// The data of one member is lost where that is asked for, and nowhere else.
func TestDataOfGroup(t *testing.T) {
	s := together(t, "redis", lock.Cluster)
	nodes := clientsOf(t, lock.Deployment{Kind: "redis", Nodes: s.Members})
	keys := func() (n int64) {
		for _, c := range nodes {
			_ = c.Ping(t.Context()) // it may find that its old connection is gone
			one, err := c.DBSize(t.Context()).Result()
			if err != nil {
				t.Fatal(err)
			}
			n += one
		}
		return n
	}
	for _, key := range []string{"lb:{a}", "lb:{b}", "lb:{c}", "lb:{d}"} { // on several of the masters
		for _, c := range nodes {
			if err := c.Set(t.Context(), key, "v", 0).Err(); err != nil && !strings.HasPrefix(err.Error(), "MOVED") {
				t.Fatal(err)
			}
		}
	}
	if n := keys(); n != 4 {
		t.Fatalf("there are %d keys, want 4", n)
	}
	heal(t, inject(t, Restart{}, &Env{Server: s}))
	if n := keys(); n != 4 {
		t.Errorf("after a restart there are %d keys, want 4", n)
	}
	heal(t, inject(t, Restart{Servers: Target{Only: 1}, Empty: true}, &Env{Server: s}))
	if n := keys(); n == 0 || n == 4 {
		t.Errorf("one of three was emptied, and there are %d of 4 keys", n)
	}
	heal(t, inject(t, Restart{Empty: true}, &Env{Server: s}))
	if n := keys(); n != 0 {
		t.Errorf("all were emptied, and there are %d keys", n)
	}
}

// One etcd of several is not emptied: it would end as soon as the others speak to it.
func TestEmptyEtcdRefused(t *testing.T) {
	s := together(t, "etcd", lock.Ensemble)
	_, err := Restart{Servers: Target{Only: 1}, Empty: true}.Inject(t.Context(), &Env{Server: s})
	if !errors.Is(err, ErrLacks) || len(down(s)) > 0 {
		t.Errorf("error %v, and %v are down", err, down(s))
	}
}

// One member of an ensemble stops, or is cut off from the clients.
func TestPauseAndCutOneOfGroup(t *testing.T) {
	s := together(t, "etcd", lock.Ensemble)
	three := []string{"follower", "follower", "leader"}
	roles := inRoles(t, s, three...)
	leader := slices.Index(roles, "leader")
	i := inject(t, Pause{Servers: Target{Role: "leader"}}, &Env{Server: s})
	for n, own := range s.ByServer() {
		if own[0].Stopped() != (n == leader) {
			t.Errorf("server %d of %v: stopped %v", n+1, roles, own[0].Stopped())
		}
	}
	if now := s.Roles(t.Context()); now[leader] != "" {
		t.Errorf("the stopped server says that it is a %s", now[leader])
	}
	heal(t, i)

	proxies, d, err := Before(s.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxies.Close() }()
	if hosts, _, err := d.Nodes[0].Split(); err != nil || len(hosts) != 3 || len(proxies) != 3 {
		t.Fatalf("%v behind %d proxies: %v", d.Nodes, len(proxies), err)
	}
	leader = slices.Index(inRoles(t, s, three...), "leader")
	i = inject(t, Cut{Servers: Target{Role: "leader"}}, &Env{Server: s, Proxies: proxies})
	for n, p := range proxies {
		if cut := p.Mode(Up) == Drop; cut != (n == leader) {
			t.Errorf("proxy %d: cut %v, and the leader is %d", n+1, cut, leader+1)
		}
	}
	heal(t, i)
	if want := fmt.Sprintf("of 3 servers it strikes %d (leader)", leader+1); !strings.Contains(i.Evidence(), want) {
		t.Errorf("evidence %q, want %q", i.Evidence(), want)
	}
}

// A fault that means the leader waits while there is none.
func TestWaitsForTheRole(t *testing.T) {
	s := together(t, "etcd", lock.Ensemble)
	old := slices.Index(inRoles(t, s, "follower", "follower", "leader"), "leader")
	inject(t, Pause{Servers: Target{Role: "leader"}}, &Env{Server: s})
	list, err := Target{Role: "leader"}.servers(t.Context(), &Env{Server: s}, new(Injection), 3)
	if err != nil || len(list) != 1 || list[0] == old {
		t.Errorf("the leader was server %d, and now it is %v: %v", old, list, err)
	}
}

// A role that nobody has is an error that says which there are.
func TestNobodyHasTheRole(t *testing.T) {
	s := start(t, server.Binary)
	for _, f := range []Fault{Kill{Servers: Target{Role: "leader"}}, Pause{Servers: Target{Role: "leader"}}, Restart{Servers: Target{Role: "leader"}, Empty: true}} {
		if _, err := f.Inject(context.WithoutCancel(t.Context()), &Env{Server: s}); err == nil || err.Error() != "none of 2 servers is a leader now" {
			t.Errorf("%s: %v", f, err)
		}
	}
	roles := []string{"master", "replica"}
	if _, err := (Target{Role: "leader"}).pick(2, roles, "servers"); err == nil || err.Error() != "none of 2 servers is a leader now: they are master, replica" {
		t.Errorf("error %v", err)
	}
}
