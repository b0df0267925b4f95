package fault

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// A cut drops what is sent, of the first server only, and ends.
func TestCut(t *testing.T) {
	e, list := proxied(t)
	i := inject(t, Cut{Servers: Target{First: 1}}, e)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	silent := make(chan error, 1)
	go func() { silent <- list[0].Ping(ctx).Err() }()
	eventually(t, "bytes that are dropped", func() bool { return e.Proxies.Traffic().Dropped[Up] > 0 })
	if err := list[1].Ping(t.Context()).Err(); err != nil {
		t.Errorf("the second server: %v", err)
	}
	select {
	case err := <-silent:
		t.Errorf("the first server is cut off, and a PING ended with %v", err)
	default:
	}
	heal(t, i)
	if err := <-silent; err == nil {
		t.Error("a PING that was dropped was answered")
	}
	eventually(t, "the first server", func() bool { return list[0].Ping(t.Context()).Err() == nil })
}

// What is added to the round trip comes on top of what the load adds, and goes again.
func TestRTT(t *testing.T) {
	e, list := proxied(t)
	const own, add = 10 * time.Millisecond, 200 * time.Millisecond
	e.Proxies.Set(Up, Delay(own))
	took := func() time.Duration {
		began := time.Now()
		if err := list[0].Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	i := inject(t, RTT{Add: add}, e)
	if d := took(); d < own+add {
		t.Errorf("a round trip took %v, want %v at least", d, own+add)
	}
	heal(t, i)
	for n, want := range []Mode{Delay(own), Pass} {
		if got := e.Proxies[0].Mode(Direction(n)); got != want {
			t.Errorf("after it the mode is %s, want %s", got, want)
		}
	}
	eventually(t, "a short round trip", func() bool { return took() < add })
}

// proxied is a run on two servers, each behind a proxy, and a client of each.
func proxied(t *testing.T) (*Env, []*redis.Client) {
	t.Helper()
	s := start(t, server.Binary)
	proxies, d, err := Before(s.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxies.Close() })
	return &Env{Server: s, Proxies: proxies}, clientsOf(t, d)
}

// A run that goes to its servers by their own addresses has no network to strike.
func TestNetworkLacks(t *testing.T) {
	for _, f := range []Fault{Cut{}, RTT{}} {
		if _, err := f.Inject(t.Context(), &Env{Server: &server.Server{Deployment: lock.Deployment{Kind: "redis"}}}); !errors.Is(err, ErrLacks) {
			t.Errorf("%s: %v", f.Name(), err)
		}
	}
}
