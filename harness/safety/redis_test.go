package safety

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// scene is one without clients on n servers.
func scene(t *testing.T, n int) *Scene {
	t.Helper()
	srv, err := server.Start(t.Context(), lock.Needs{Kind: "redis", Nodes: n}, server.Options{Source: server.Binary})
	switch {
	case errors.Is(err, server.ErrMissing) && slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "redis"):
		t.Fatalf("LOCKBENCH_REQUIRE lists redis: %v", err)
	case errors.Is(err, server.ErrMissing):
		t.Skipf("NOT RUN: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	cast, err := harness.NewCast(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &Scene{
		Variant: lock.Variant{Algo: "any", Needs: lock.Needs{Kind: "redis"}}, Server: srv, TTL: time.Second, Bound: time.Second,
		cast: cast, id: harness.NewID(), spare: n - 1,
	}
	t.Cleanup(func() {
		if err := errors.Join(s.end(t.Context()), srv.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What a client hears of releases on is told from what it only asks on.
func TestSeats(t *testing.T) {
	s, ctx := scene(t, 1), t.Context()
	c, err := s.admin(0)
	must(t, err)
	ours, err := seats(ctx, c)
	must(t, err)
	dial := func() *redis.Client {
		other, err := s.admin(0)
		must(t, err)
		return other
	}
	must(t, dial().Ping(ctx).Err())
	now, err := seats(ctx, c)
	must(t, err)
	if fresh := without(now, ours); len(fresh) != 1 || fresh[0].listen {
		t.Errorf("one connection that only asks: %+v", fresh)
	}
	sub := dial().Subscribe(ctx, "channel")
	_, err = sub.Receive(ctx)
	must(t, err)
	defer func() { _ = sub.Close() }()
	must(t, dial().Do(ctx, "CLIENT", "TRACKING", "on").Err())
	go dial().BLPop(ctx, 2*time.Second, "list")
	must(t, s.until(ctx, "three connections listen", func() (bool, error) {
		list, err := seats(ctx, c)
		n := 0
		for _, one := range without(list, now) {
			if one.listen {
				n++
			}
		}
		return n == 3, err
	}))
}

// A server is configured for a scene, and as before afterwards.
func TestConfigure(t *testing.T) {
	s, ctx := scene(t, 1), t.Context()
	c, err := s.admin(0)
	must(t, err)
	undo, err := s.configure(ctx, c, "maxmemory-policy", "allkeys-random", "maxmemory", "100mb")
	must(t, err)
	want := func(policy, memory string) {
		t.Helper()
		is, err := c.ConfigGet(ctx, "maxmemory*").Result()
		must(t, err)
		if is["maxmemory-policy"] != policy || is["maxmemory"] != memory {
			t.Errorf("%v; want %s and %s", is, policy, memory)
		}
	}
	want("allkeys-random", "104857600")
	must(t, undo())
	want("noeviction", "0")
}

// A replica that has heard of the grant is no proof of anything, and one that is cut off has
// not heard of it.
func TestMissed(t *testing.T) {
	for _, held := range []bool{false, true} {
		s, ctx := scene(t, 2), t.Context()
		c, err := s.couple(ctx)
		must(t, err)
		k := s.Key(0)
		if held {
			c.link.SetBoth(fault.Hold)
		}
		must(t, c.master.Set(ctx, k.Name, "owner", time.Minute).Err())
		if !held {
			must(t, s.alike(ctx, c.master, c.replica))
		}
		var nothing errScene
		if err := s.missed(ctx, c, k); errors.As(err, &nothing) == held {
			t.Errorf("held %v: %v", held, err)
		}
		role, err := info(ctx, c.replica, "role")
		must(t, err)
		if !strings.HasPrefix(role, "slave") && !strings.HasPrefix(role, "replica") {
			t.Errorf("the replica is a %s", role)
		}
	}
}

// Servers that were given as an address are not struck.
func TestNotOurs(t *testing.T) {
	s := scene(t, 1)
	given, err := server.Start(t.Context(), lock.Needs{Kind: "redis"},
		server.Options{Source: server.URL, URLs: map[string][]lock.Endpoint{"redis": s.Server.Deployment.Nodes}})
	must(t, err)
	defer func() { must(t, given.Close()) }()
	other := &Scene{Server: given}
	if _, err := other.admin(0); err == nil || !strings.Contains(err.Error(), fault.ErrNotOurs.Error()) {
		t.Errorf("%v, want %v", err, fault.ErrNotOurs)
	}
}
