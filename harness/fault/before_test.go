package fault

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

func TestBefore(t *testing.T) {
	s := start(t, server.Embedded)
	if !Proxied(s.Deployment) {
		t.Fatalf("%v cannot be proxied", s.Deployment.Nodes)
	}
	list, d, err := Before(s.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	if d.Kind != s.Deployment.Kind || len(d.Nodes) != 2 || len(list) != 2 {
		t.Fatalf("%+v through %d proxies", d, len(list))
	}
	// Each node behind its own proxy.
	for i, node := range d.Nodes {
		for _, at := range []lock.Endpoint{node, s.Deployment.Nodes[i]} {
			o, err := redis.ParseURL(at.Reveal())
			if err != nil {
				t.Fatal(err)
			}
			c := redis.NewClient(o)
			n, err := c.Incr(t.Context(), "lb:{before}:n").Result()
			if want := int64(1); err != nil || at == node && n != want || at != node && n != want+1 {
				t.Errorf("node %d: %d, %v", i, n, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if got := list.Traffic(); got.Peak < 1 {
		t.Errorf("nothing went through: %+v", got)
	}
	if err := list.Close(); err != nil {
		t.Error(err)
	}
}

func TestBeforeRefuses(t *testing.T) {
	const secret = "canary-55"
	for _, node := range []lock.Endpoint{
		"rediss://user:" + secret + "@host:6379", "unix://user:" + secret + "@/var/run/redis.sock",
		"other://user:" + secret + "@host", "://" + secret, "",
	} {
		d := lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{"redis://127.0.0.1:1", node}}
		_, _, err := Before(d)
		if err == nil || Proxied(d) {
			t.Errorf("%s can be proxied", node)
			continue
		}
		if text := err.Error(); strings.Contains(text, secret) || strings.Contains(text, "\n") {
			t.Errorf("%q: want one line without the password", text)
		}
	}
	if Proxied(lock.Deployment{}) {
		t.Error("nothing at all can be proxied")
	}
	list, d, err := Before(lock.Deployment{Nodes: []lock.Endpoint{"redis://u:p@127.0.0.1/3?x=y"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Nodes[0].Reveal(); !strings.HasPrefix(got, "redis://u:p@127.0.0.1:") || !strings.HasSuffix(got, "/3?x=y") {
		t.Errorf("%s does not keep user and path", got)
	}
	if err := list.Close(); err != nil {
		t.Error(err)
	}
}
