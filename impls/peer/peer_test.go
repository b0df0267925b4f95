package peer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/peer"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/goredis"
)

func open(t *testing.T, list []lock.Variant, algo string, at ...lock.Endpoint) lock.Locker {
	t.Helper()
	i := slices.IndexFunc(list, func(v lock.Variant) bool { return v.Algo == algo })
	if i < 0 {
		t.Fatalf("there is no %s", algo)
	}
	l, err := list[i].Open(t.Context(), lock.Deployment{Kind: "redis", Nodes: at}, lock.Config{Retry: lock.Retry{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// The libraries that store a token under the key itself and ours exclude each
// other, because all of them use SET NX PX.
func TestPeersExcludeOurs(t *testing.T) {
	at := lock.Endpoint("redis://" + miniredis.RunT(t).Addr())
	ours := open(t, redis.Variants("goredis", goredis.Dial), "redis-token", at)
	for _, v := range peer.Variants() {
		if v.Client != "goredis" || v.Needs.Nodes > 1 {
			continue
		}
		theirs := open(t, peer.Variants(), v.Algo, at)
		for _, c := range []struct {
			name          string
			first, second lock.Locker
		}{{"ours first", ours, theirs}, {"theirs first", theirs, ours}} {
			held, err := c.first.Acquire(t.Context(), v.Algo)
			if err != nil {
				t.Fatalf("%s, %s: %v", v.Algo, c.name, err)
			}
			if _, err := c.second.Acquire(t.Context(), v.Algo); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("%s, %s: the second one got %v", v.Algo, c.name, err)
			}
			if err := held.Release(t.Context()); err != nil {
				t.Errorf("%s, %s: Release: %v", v.Algo, c.name, err)
			}
		}
	}
}

// Every command that a library sends through go-redis is counted.
func TestCounted(t *testing.T) {
	m := miniredis.RunT(t)
	for _, v := range peer.Variants() {
		if v.Client != "goredis" || v.Needs.Nodes > 1 {
			continue
		}
		counts := new(lock.Counters)
		l, err := v.Open(t.Context(), lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{lock.Endpoint("redis://" + m.Addr())}}, lock.Config{Count: counts})
		if err != nil {
			t.Fatal(err)
		}
		work := func() {
			lease, err := l.Acquire(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		work() // which may have to send its scripts
		before, tries, _ := counts.Read()
		work()
		after, more, _ := counts.Read()
		if after-before != 2 || more-tries != 1 {
			t.Errorf("%s: %d commands and %d attempts, want 2 and 1", v.Name(), after-before, more-tries)
		}
		_ = l.Close()
	}
}

// A server that is not there, or is none, is told of without its password.
func TestUnreachable(t *testing.T) {
	for _, v := range peer.Variants() {
		_, err := v.Open(context.Background(), lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{"redis://:hunter2@127.0.0.1:1"}}, lock.Config{})
		if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", v.Name(), err)
		}
		if _, err := v.Open(context.Background(), lock.Deployment{Kind: "redis"}, lock.Config{}); err == nil {
			t.Errorf("%s: no server is enough", v.Name())
		}
	}
}
