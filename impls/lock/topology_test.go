package lock

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in       Endpoint
		topology Topology
		hosts    []Endpoint
		path     string
	}{
		{"redis://:pw@a:1/2", Single, []Endpoint{"redis://:pw@a:1/2"}, ""},
		{"redis+cluster://a:1", Cluster, []Endpoint{"redis://a:1"}, ""},
		{"rediss+cluster://u:p%2Fw@a:1,b,[::1]:3", Cluster, []Endpoint{"rediss://u:p%2Fw@a:1", "rediss://u:p%2Fw@b", "rediss://u:p%2Fw@[::1]:3"}, ""},
		{"zookeeper://a:1,b:2/lb", Ensemble, []Endpoint{"zookeeper://a:1", "zookeeper://b:2"}, "/lb"},
		{"zookeeper://a:1/x,y", Single, []Endpoint{"zookeeper://a:1/x,y"}, ""},
		{"nats://u:p@a:1,b:2", Ensemble, []Endpoint{"nats://u:p@a:1", "nats://u:p@b:2"}, ""},
		{"etcd://u:p,w@a:1,b:2", Ensemble, []Endpoint{"etcd://u:p,w@a:1", "etcd://u:p,w@b:2"}, ""},
		{"redis+sentinel://:pw@a:1,b:2/mymaster/3", Sentinel, []Endpoint{"redis://:pw@a:1", "redis://:pw@b:2"}, "/mymaster/3"},
	} {
		hosts, path, err := c.in.Split()
		if err != nil || c.in.Topology() != c.topology || !slices.Equal(reveal(hosts), reveal(c.hosts)) || path != c.path {
			t.Errorf("%s: %s, %q, %q, %v; want %s, %q, %q", c.in, c.in.Topology(), reveal(hosts), path, err, c.topology, reveal(c.hosts), c.path)
		}
	}
	for _, in := range []Endpoint{
		"redis+cluster://", "redis+cluster://a:1,", "redis+cluster://,a:1", "redis+cluster://u:canary@a:1,b:x",
		"redis+cluster://:canary/x@a:1,b:2", "etcd://u:canary@a:1,b:x", "redis+cluster://a:1?password=canary", "redis+sentinel://a:1,b:2/m#canary",
	} {
		if hosts, _, err := in.Split(); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %q, %v; want an error without the password", string(in), reveal(hosts), err)
		}
		if s := fmt.Sprint(in); strings.Contains(s, "canary") {
			t.Errorf("%q prints as %q", string(in), s)
		}
	}
	if s := Endpoint("redis+cluster://u:canary@a:1,b,[::1]:3/0").String(); s != "redis+cluster://u:xxxxx@a:1,b,[::1]:3/0" {
		t.Errorf("it prints as %q", s)
	}
}

// reveal makes Endpoints comparable and printable with their passwords.
func reveal(list []Endpoint) (out []string) {
	for _, e := range list {
		out = append(out, e.Reveal())
	}
	return out
}

func TestUnsuited(t *testing.T) {
	both := []Topology{Cluster, Sentinel}
	for _, c := range []struct {
		v                 Variant
		cluster, sentinel string // in the reason; "" if it can run
	}{
		{Variant{}, "", ""},
		{Variant{Needs: Needs{Kind: "redis"}, Over: both}, "", ""},
		{Variant{Needs: Needs{Kind: "redis"}}, "no cluster", "no sentinel"},
		{Variant{Needs: Needs{Kind: "redis", Nodes: 5}}, "5 independent servers", "5 independent servers"},
		{Variant{Needs: Needs{Kind: "redis"}, Caps: Multi, Over: both[1:]}, "all keys on one server", ""},
	} {
		if why := c.v.Unsuited(Single); why != "" {
			t.Errorf("%+v on single servers: %s", c.v, why)
		}
		for topology, want := range map[Topology]string{Cluster: c.cluster, Sentinel: c.sentinel} {
			if why := c.v.Unsuited(topology); (why == "") != (want == "") || !strings.Contains(why, want) {
				t.Errorf("%+v on %s: %q, want %q", c.v, topology, why, want)
			}
		}
	}
}

// At keeps everything but the hosts.
func TestAt(t *testing.T) {
	for in, want := range map[Endpoint]Endpoint{
		"redis://u:p@a/3?x=y":                "redis://u:p@h:1,i:2/3?x=y",
		"zookeeper://a:1,b:2/root":           "zookeeper://h:1,i:2/root",
		"etcd://u:p@a:1,b:2":                 "etcd://u:p@h:1,i:2",
		"postgres://u@a:1/d?sslmode=disable": "postgres://u@h:1,i:2/d?sslmode=disable",
	} {
		if got := in.At("h:1", "i:2"); got != want {
			t.Errorf("%s becomes %s, want %s", in.Reveal(), got.Reveal(), want.Reveal())
		}
	}
}
