package redis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// restricted is the address of s for a user of these rules and all commands.
func restricted(t *testing.T, s *redistest.Server, rules ...string) lock.Endpoint {
	t.Helper()
	args := []any{"ACL", "SETUSER", "app", "reset", "on", ">secret", "+@all"}
	for _, r := range rules {
		args = append(args, r)
	}
	s.Do(t, args...)
	return lock.Endpoint("redis://app:secret@" + redistest.HostPort(t, s.At))
}

// A user who may use the keys of a prefix needs no more for our own locks, and for the
// others what the variant says.
func TestRights(t *testing.T) {
	for _, c := range redistest.Clients() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			servers := []*redistest.Server{redistest.StartReal(t, c, redis.Variants), redistest.StartReal(t, c, redis.Variants), redistest.StartReal(t, c, redis.Variants)}
			for _, v := range everyLock(c) {
				t.Run(v.Algo, func(t *testing.T) {
					rules := v.Grants("app:")
					for _, r := range rules {
						if r != "~app:*" && r[0] == '~' && v.Algo != "redis-fair" && v.Algo != "redis-rw" {
							t.Errorf("the rule %q: only Redisson has given names to keys that begin otherwise", r)
						}
					}
					d := lock.Deployment{Kind: "redis"}
					for _, s := range servers[:min(max(v.Needs.Nodes, 1), len(servers))] {
						d.Nodes = append(d.Nodes, restricted(t, s, rules...))
					}
					for _, key := range []string{"app:x", "app:{x}y"} {
						useAll(t, v, d, key)
					}
				})
			}
		})
	}
}

// useAll does with key all that v can.
func useAll(t *testing.T, v lock.Variant, d lock.Deployment, key string) {
	t.Helper()
	c := lock.Config{TTL: 10 * time.Second, Renew: 10 * time.Millisecond, WriterPreference: true}
	l, err := v.Open(t.Context(), d, c)
	if v.Needs.Feature == "compare-and-delete" && err != nil {
		t.Skipf("NOT TESTED on a server with the command (scripts/newer gets one, LOCKBENCH_REDIS_SERVER names it): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	held := redistest.MustTry(t, l, key)
	// One waits and leaves, and one waits and is served.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, key); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "NOPERM") {
		t.Fatalf("a wait that its context ends: %v", err)
	}
	next := redistest.Acquire(t.Context(), l, key)
	if v.Caps.Has(lock.Renew) {
		ends := held.(lock.Deadliner)
		before := ends.Deadline()
		redistest.Until(t, "a renewal", func() bool { return ends.Deadline().After(before) })
	}
	if e, ok := held.(lock.Extender); ok {
		if err := e.Extend(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Release(t, held)
	held = redistest.Granted(t, "the waiter", next)
	if cond, ok := held.(lock.Conder); ok {
		if err := cond.Signal(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := cond.Wait(ctx, "c"); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "NOPERM") {
			t.Fatalf("a wait for a condition: %v", err)
		}
	}
	redistest.Release(t, held)
	if m, ok := l.(lock.MultiLocker); ok {
		lease, err := m.AcquireMulti(t.Context(), []string{key, key + "2"})
		if err != nil {
			t.Fatal(err)
		}
		redistest.Release(t, lease)
	}
	if s, ok := l.(lock.Sharer); ok {
		one, err := s.AcquireShared(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		ends := one.(lock.Deadliner)
		before := ends.Deadline()
		redistest.Until(t, "a renewal of a reader", func() bool { return ends.Deadline().After(before) })
		redistest.Release(t, one)
	}
}

// A user who lacks a rule is told all that the lock needs.
func TestMissingRights(t *testing.T) {
	for _, c := range redistest.Clients() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartReal(t, c, redis.Variants)
			at := restricted(t, s, "~app:*")
			for _, v := range everyLock(c) {
				if v.Needs.Nodes > 1 || v.Needs.Feature == "compare-and-delete" {
					continue // they use the key alone
				}
				t.Run(v.Algo, func(t *testing.T) {
					err := lacks(t, v, at, "app:x")
					if len(v.Grants("")) == 1 {
						if err != nil {
							t.Errorf("with the rule for the key: %v", err)
						}
						err = lacks(t, v, at, "other:x")
					}
					want := strings.Join(v.Grants("PREFIX"), " ")
					if err == nil || !strings.Contains(err.Error(), "needs "+want+" (") && !strings.Contains(err.Error(), "needs "+want+",") {
						t.Errorf("without a rule: %v\nwant it to name %s", err, want)
					}
					if err != nil && strings.Contains(err.Error(), "\n") {
						t.Errorf("an error of several lines: %v", err)
					}
				})
			}
		})
	}
}

// lacks returns the first error of a grant, a wait and a release of key.
func lacks(t *testing.T, v lock.Variant, at lock.Endpoint, key string) error {
	t.Helper()
	l, err := v.Open(t.Context(), lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{at}}, lock.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	lease, err := l.Acquire(t.Context(), key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, key); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return lease.Release(t.Context())
}

// The rules say what the library of Redisson calls its keys and channels.
func TestGrants(t *testing.T) {
	for algo, want := range map[string]string{
		"redis-token":     "~app:*",
		"redis-spin":      "~app:*",
		"redis-handoff":   "~app:* &lockbench:inbox:*",
		"redis-reentrant": "~app:* &redisson_lock__channel:{app:* &redisson_lock__channel:app:*",
		"redis-rw":        "~app:* ~{app:* &redisson_rwlock:{app:* &redisson_rwlock:app:*",
	} {
		v := redistest.Find(t, redis.Variants("", wire.Dial(nil)), algo)
		if got := strings.Join(v.Grants("app:"), " "); got != want {
			t.Errorf("%s: %s, want %s", algo, got, want)
		}
	}
}

// A channel that a user may not listen to is refused at once.
func TestRefusedChannel(t *testing.T) {
	for _, c := range redistest.Clients() {
		t.Run(c.Name, func(t *testing.T) {
			s := redistest.StartReal(t, c, redis.Variants)
			conn := redistest.DialConn(t, c, restricted(t, s, "~app:*", "&app:*"), lock.Config{})
			sub, err := conn.Subscribe(t.Context(), wire.Handler{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sub.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := sub.Add(ctx, "other"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
				t.Errorf("a channel that is not the user's: %v", err)
			}
			if err := sub.Add(ctx, "app:x"); err != nil {
				t.Errorf("another one after it: %v", err)
			}
		})
	}
}
