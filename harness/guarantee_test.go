package harness

import (
	"testing"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// What a run records of its promises follows from the variant and its server.
func TestGuarantee(t *testing.T) {
	redis := &server.Server{Kind: "redis", Durable: "nothing", Deployment: lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{"redis://a:1"}}}
	three := &server.Server{
		Kind: "etcd", Durable: "each write, on disk", Members: []lock.Endpoint{"etcd://a:1", "etcd://b:1", "etcd://c:1"},
		Deployment: lock.Deployment{Kind: "etcd", Nodes: []lock.Endpoint{"etcd://a:1,b:1,c:1"}},
	}
	needs := func(nodes int) lock.Needs { return lock.Needs{Kind: "redis", Nodes: nodes} }
	for _, c := range []struct {
		v    lock.Variant
		s    *server.Server
		want results.Guarantee
	}{
		{lock.Variant{}, nil, results.Guarantee{Decides: "this process", Durable: "nothing", Frees: "never"}},
		{lock.Variant{Needs: needs(0), Caps: lock.Fencing}, redis, results.Guarantee{Decides: "one server", Durable: "nothing", Frees: "when its lease ends", Fencing: true}},
		{lock.Variant{Needs: needs(1), Unsafe: lock.Crash}, redis, results.Guarantee{Decides: "one server", Durable: "nothing", Frees: "never"}},
		{lock.Variant{Needs: needs(5)}, redis, results.Guarantee{Decides: "3 of 5 servers", Durable: "nothing", Frees: "when its lease ends"}},
		{lock.Variant{Needs: needs(2), Caps: lock.Multi}, redis, results.Guarantee{Decides: "all of 2 servers", Durable: "nothing", Frees: "when its lease ends"}},
		{lock.Variant{Needs: needs(3), Caps: lock.Switch}, redis, results.Guarantee{Decides: "one server of 3 at a time", Durable: "nothing", Frees: "when its lease ends"}},
		{lock.Variant{Needs: lock.Needs{Kind: "etcd"}, Frees: lock.BySession}, three, results.Guarantee{Decides: "2 of 3 servers", Durable: "each write, on disk", Frees: "when its session times out"}},
		{lock.Variant{Needs: lock.Needs{Kind: "etcd"}, Frees: lock.ByConnection}, three, results.Guarantee{Decides: "2 of 3 servers", Durable: "nothing", Frees: "when its connection is closed"}},
	} {
		if got := guarantee(c.v, c.s); *got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.v, *got, c.want)
		}
	}
}
