package impls_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// patience bounds what must happen in the end, on however busy a machine: a
// sentinel that was kept from running for two seconds does nothing for thirty.
const patience = 2 * time.Minute

// eventually polls until f returns nil.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// open opens algo on one client library, until the end of the test.
func open(t *testing.T, algo, client string, d lock.Deployment, c lock.Config) lock.Locker {
	t.Helper()
	all := impls.All()
	i := slices.IndexFunc(all, func(v lock.Variant) bool { return v.Algo == algo && v.Client == client })
	if i < 0 {
		t.Fatalf("there is no %s/%s", algo, client)
	}
	l, err := all[i].Open(t.Context(), d, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

// outcome is how an Acquire ended.
type outcome struct {
	lease lock.Lease
	err   error
}

// waiting starts an Acquire of a held key and returns once it is in the queue on
// the server.
func waiting(t *testing.T, l lock.Locker, key string, queue *redis.Client) <-chan outcome {
	t.Helper()
	c := make(chan outcome, 1)
	before := length(t, queue, key)
	go func() {
		lease, err := l.Acquire(context.Background(), key)
		c <- outcome{lease, err}
	}()
	eventually(t, "a waiter in the queue", func() error {
		if n := length(t, queue, key); n <= before {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	return c
}

func length(t *testing.T, c *redis.Client, key string) int64 {
	t.Helper()
	n, err := c.LLen(t.Context(), key+"/queue").Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// plain connects to one server, until the end of the test.
func plain(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A fail-over is followed: who acquires again is served by the new master.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := start(t, lock.Needs{Kind: "redis"}, onBinary(t, "redis", lock.Sentinel), true)
	hosts, path, err := s.Deployment.Nodes[0].Split()
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Trim(path, "/")
	watcher := redis.NewSentinelClient(&redis.Options{Addr: strings.TrimPrefix(hosts[0].Reveal(), "redis://")})
	defer func() { _ = watcher.Close() }()
	master := func() string {
		at, err := watcher.GetMasterAddrByName(t.Context(), name).Result()
		if err != nil {
			t.Fatal(err)
		}
		return net.JoinHostPort(at[0], at[1])
	}
	before := master()

	type one struct {
		lock.Variant
		key  string
		l    lock.Locker
		held lock.Lease     // while the master changes
		c    <-chan outcome // of who waits for it; nil for those that poll
	}
	var all []one
	old := plain(t, before)
	algos := []string{"redis-token", "redis-handoff", "redis-tracking", "peer-redsync", "peer-redislock", "peer-rueidislock"}
	for _, v := range impls.All() {
		if !slices.Contains(algos, v.Algo) {
			continue
		}
		o := one{Variant: v, key: "lb:{" + v.Algo + v.Client + "}:k"}
		o.l = open(t, v.Algo, v.Client, s.Deployment, lock.Config{TTL: 5 * time.Second, Timeout: time.Second, Conns: 4})
		var err error
		if o.held, err = o.l.Acquire(t.Context(), o.key); err != nil {
			t.Fatalf("%s: %v", v.Name(), err)
		}
		if v.Algo == "redis-handoff" {
			o.c = waiting(t, o.l, o.key, old)
		}
		all = append(all, o)
	}
	eventually(t, "the fail-over", func() error { return watcher.Failover(t.Context(), name).Err() })
	asked := time.Now()
	eventually(t, "another master", func() error {
		at := master()
		if at == before {
			if time.Since(asked) > 25*time.Second { // a fail-over is given up after 20 s
				asked = time.Now()
				return errors.Join(errors.New("it is the same"), watcher.Failover(t.Context(), name).Err())
			}
			return errors.New("it is the same")
		}
		c := redis.NewClient(&redis.Options{Addr: at})
		defer func() { _ = c.Close() }()
		role, err := c.Do(t.Context(), "ROLE").Slice()
		if err == nil && (len(role) == 0 || role[0] != "master") {
			err = fmt.Errorf("it is a %v", role)
		}
		return err
	})
	next := plain(t, master())
	for _, o := range all {
		// Whether the grant was copied in time is what the variant declares to depend
		// on luck.
		if err := o.held.Release(t.Context()); err != nil && !errors.Is(err, lock.ErrLost) && !errors.Is(err, lock.ErrUncertain) {
			t.Logf("%s: the release after the fail-over: %v", o.Name(), err)
		}
		if o.c != nil {
			select {
			case got := <-o.c:
				if got.lease != nil {
					_ = got.lease.Release(t.Context())
				}
			case <-time.After(patience):
				t.Errorf("%s: a wait did not survive the fail-over and did not end either", o.Name())
			}
		}
		key := o.key + "2"
		// The sentinel that we ask may know of the new master before the one that
		// the client asked does.
		eventually(t, o.Name()+" after the fail-over", func() (err error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			lease, err := o.l.Acquire(ctx, key)
			if err != nil {
				return err
			}
			n, err := next.Exists(ctx, o.Names(key)...).Result()
			if n == 0 && err == nil {
				err = errors.New("the new master does not have the key")
			}
			return errors.Join(err, lease.Release(ctx))
		})
	}
}
