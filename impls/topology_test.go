package impls_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// patience bounds what must happen in the end, on however busy a machine: a
// sentinel that was kept from running for two seconds does nothing for thirty.
const patience = 2 * time.Minute

// group starts servers that work together, until the end of the test.
func group(t *testing.T, topology lock.Topology) *server.Server {
	t.Helper()
	return start(t, lock.Needs{Kind: "redis"}, onBinary(t, "redis", topology), true)
}

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

// clients are the libraries that redis-handoff runs on, wherever servers work
// together.
var clients = []string{"goredis", "redigo", "rueidis"}

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

// granted waits for the end of an Acquire, which must have got the key.
func granted(t *testing.T, c <-chan outcome) lock.Lease {
	t.Helper()
	select {
	case o := <-c:
		if o.err != nil {
			t.Fatalf("the waiter: %v", o.err)
		}
		return o.lease
	case <-time.After(patience):
		t.Fatal("the waiter was granted nothing")
		return nil
	}
}

// plain connects to one server, until the end of the test.
func plain(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ring is the view of a cluster that its tests have.
type ring struct {
	nodes []*redis.Client // in the order of their slots
	ids   []string
}

func ringOf(t *testing.T, s *server.Server) ring {
	t.Helper()
	var r ring
	for _, e := range s.Members {
		c := plain(t, strings.TrimPrefix(e.Reveal(), "redis://"))
		id, err := c.Do(t.Context(), "CLUSTER", "MYID").Text()
		if err != nil {
			t.Fatal(err)
		}
		r.nodes, r.ids = append(r.nodes, c), append(r.ids, id)
	}
	return r
}

// key returns the first key, of those that begin with name, on node i, and its
// slot.
func (r ring) key(t *testing.T, name string, i int) (key string, slot int64) {
	t.Helper()
	per := int64(16384 / len(r.nodes))
	for n := 0; ; n++ {
		key = "lb:{" + name + "-" + strconv.Itoa(n) + "}:k"
		slot, err := r.nodes[0].ClusterKeySlot(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if first := int64(i) * per; slot > first && slot < first+per-1 {
			return key, slot
		}
	}
}

// listeners counts the sharded channels that somebody listens to on node i.
func (r ring) listeners(t *testing.T, i int) int {
	t.Helper()
	list, err := r.nodes[i].PubSubShardChannels(t.Context(), "lockbench:inbox:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// move takes slot with its keys from one node to another, as redis-cli does.
func (r ring) move(t *testing.T, slot int64, from, to int) {
	t.Helper()
	do := func(i int, args ...any) {
		t.Helper()
		if err := r.nodes[i].Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", r.ids[from])
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", r.ids[to])
	host, port, err := net.SplitHostPort(r.nodes[to].Options().Addr)
	if err != nil {
		t.Fatal(err)
	}
	for {
		keys, err := r.nodes[from].ClusterGetKeysInSlot(t.Context(), int(slot), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		for _, k := range keys {
			do(from, "MIGRATE", host, port, k, 0, 5000)
		}
	}
	do(to, "CLUSTER", "SETSLOT", slot, "NODE", r.ids[to])
	do(from, "CLUSTER", "SETSLOT", slot, "NODE", r.ids[to])
}

// On a cluster redis-handoff hears of its grants through the node that serves the
// key, whatever happens to the connection or the slot.
func TestHandoffCluster(t *testing.T) {
	t.Parallel()
	s := group(t, lock.Cluster)
	r := ringOf(t, s)
	config := lock.Config{TTL: 10 * time.Minute, Timeout: 5 * time.Second, Conns: 4}
	// One after the other: each counts all listeners.
	for n, client := range clients {
		t.Run(client, func(t *testing.T) {
			key, slot := r.key(t, client, 1)
			t.Cleanup(func() {
				if _, err := s.Remove(context.Background(), key, key+"/queue", key+"/fence"); err != nil {
					t.Error(err)
				}
			})
			holder := open(t, "redis-handoff", client, s.Deployment, config)
			l := open(t, "redis-handoff", client, s.Deployment, config)
			lease, err := holder.Acquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			hand := func(c <-chan outcome) {
				t.Helper()
				if err := lease.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				lease = granted(t, c)
			}
			hear := func(at int) {
				t.Helper()
				eventually(t, "the waiter's inbox", func() error {
					if n := r.listeners(t, at); n < 1 {
						return errors.New("nobody listens")
					}
					return nil
				})
			}
			c := waiting(t, l, key, r.nodes[1])
			hear(1)
			hand(c)

			// The connection breaks.
			c = waiting(t, l, key, r.nodes[1])
			if err := r.nodes[1].ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err(); err != nil {
				t.Fatal(err)
			}
			hear(1)
			hand(c)

			// The slot moves. Each client has a slot of its own, which it moves once.
			c = waiting(t, l, key, r.nodes[1])
			r.move(t, slot, 1, 2)
			hear(2)
			hand(c)
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := r.listeners(t, 1); left > 0 {
				t.Errorf("%d inboxes are left on the node that the slot has left (client %d)", left, n)
			}
		})
	}
}

// A node that dies ends the waits for its keys and for no others.
func TestHandoffClusterNodeDies(t *testing.T) {
	t.Parallel()
	s := group(t, lock.Cluster)
	r := ringOf(t, s)
	config := lock.Config{TTL: 10 * time.Minute, Timeout: time.Second, Conns: 4}
	type pair struct {
		lease      lock.Lease
		live, dead <-chan outcome
		client     string
	}
	var pairs []pair
	for _, client := range clients {
		there, _ := r.key(t, client, 0)
		dying, _ := r.key(t, client, 2)
		holder := open(t, "redis-handoff", client, s.Deployment, config)
		l := open(t, "redis-handoff", client, s.Deployment, config)
		lease, err := holder.Acquire(t.Context(), there)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := holder.Acquire(t.Context(), dying); err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair{lease, waiting(t, l, there, r.nodes[0]), waiting(t, l, dying, r.nodes[2]), client})
	}
	info, err := r.nodes[2].InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(info["Server"]["process_id"])
	if err != nil || !slices.ContainsFunc(s.Processes(), func(p server.Process) bool { return p.PID == pid }) {
		t.Fatalf("the node is process %q, and ours are %v", info["Server"]["process_id"], s.Processes())
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		if err := p.lease.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", p.client, err)
		}
		if err := granted(t, p.live).Release(t.Context()); err != nil {
			t.Errorf("%s: %v", p.client, err)
		}
	}
	for _, p := range pairs {
		select {
		case o := <-p.dead:
			if o.err == nil {
				t.Errorf("%s: a dead node has granted a key", p.client)
			}
		case <-time.After(patience):
			t.Errorf("%s: the wait for a key of a dead node has not ended", p.client)
		}
	}
}

// A fail-over is followed: who acquires again is served by the new master.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := group(t, lock.Sentinel)
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

// An address behind which nobody is gets one line that names it and no password.
func TestTopologyUnreachable(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"redis+cluster://:canary@%s", "redis+sentinel://:canary@%s/m"} {
		for _, client := range clients {
			const at = "127.0.0.1:1" // a free port might be given to a server of another test
			d := lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{lock.Endpoint(fmt.Sprintf(address, at))}}
			i := slices.IndexFunc(impls.All(), func(v lock.Variant) bool { return v.Algo == "redis-handoff" && v.Client == client })
			locker, err := impls.All()[i].Open(t.Context(), d, lock.Config{Timeout: time.Second})
			if err == nil {
				_ = locker.Close()
				t.Errorf("%s: opened where nobody listens", address)
				continue
			}
			if s := err.Error(); !strings.Contains(s, at) || !strings.Contains(s, "nothing listens there") || strings.ContainsAny(s, "\r\n") || strings.Contains(s, "canary") {
				t.Errorf("%s, %s: %q", address, client, s)
			}
		}
	}
}
