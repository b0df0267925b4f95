package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockbench/lockbench/impls/lock"
)

// masters is how many a cluster that we start has: the fewest that Redis calls
// a cluster. They have no replicas, because a fail-over is the matter of a
// Sentinel; so one that dies takes the cluster with it.
const masters = 3

// clusterFile is where a node keeps its name and what it knows of the others.
const clusterFile = "nodes.conf"

// slots is how many parts the keys of a cluster fall into.
const slots = 16384

// cluster is the administrator's view of a Redis Cluster.
type cluster struct {
	list   []*redisNode // the masters, in the order of their slots
	at     []lock.Endpoint
	router *redis.ClusterClient // sends each key to its node
}

// joinCluster connects to all masters of the cluster of which e names a node.
func joinCluster(ctx context.Context, e lock.Endpoint) (_ *cluster, err error) {
	hosts, _, err := splitRedis(e)
	if err != nil {
		return nil, err
	}
	c := &cluster{}
	defer func() {
		if err != nil {
			_ = c.close() // the first error is the one that helps
		}
	}()
	var o *redis.Options
	var errs []error
	for _, h := range hosts {
		var node *redisNode
		if node, err = connectNode(ctx, h, clustered); err != nil {
			errs = append(errs, err)
			continue
		}
		o, _ = parseRedis(h) // connectNode has
		err = c.learn(ctx, node, h)
		_ = node.close()
		if err != nil {
			return nil, err
		}
		break
	}
	if o == nil {
		return nil, oneLine(errs)
	}
	var addrs []string
	for _, n := range c.list {
		addrs = append(addrs, n.client.Options().Addr)
	}
	c.router = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		PoolSize: 1, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
		ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return c, nil
}

// learn connects to the masters that node, at h, knows of.
func (c *cluster) learn(ctx context.Context, node *redisNode, h lock.Endpoint) error {
	ranges, err := node.client.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS is unknown before Redis 7
	if err != nil {
		return err
	}
	slices.SortFunc(ranges, func(a, b redis.ClusterSlot) int { return a.Start - b.Start })
	covered := 0
	var known []string
	for _, r := range ranges {
		covered += r.End - r.Start + 1
		if len(r.Nodes) == 0 || slices.Contains(known, r.Nodes[0].Addr) {
			continue
		}
		known = append(known, r.Nodes[0].Addr)
		host, port, err := net.SplitHostPort(r.Nodes[0].Addr)
		if err != nil {
			return fmt.Errorf("a node of the cluster has the address %q", r.Nodes[0].Addr)
		}
		if host == "" { // it does not know its own: that by which it was asked
			if host, _, err = net.SplitHostPort(node.client.Options().Addr); err != nil {
				return err
			}
		}
		e, err := withHost(h, net.JoinHostPort(host, port))
		if err != nil {
			return err
		}
		n, err := connectNode(ctx, e, clustered)
		if err != nil {
			return err
		}
		// One that was started again refuses keys until it has heard of the others.
		text, err := n.client.ClusterInfo(ctx).Result()
		if state := parseInfo(text)["cluster_state"]; err == nil && state != "ok" {
			err = fmt.Errorf("%s says that its cluster is in state %q", n.client.Options().Addr, state)
		}
		if err != nil {
			_ = n.close() // the first error is the one that helps
			return err
		}
		c.list, c.at = append(c.list, n), append(c.at, e)
	}
	if covered < slots {
		return fmt.Errorf("the cluster serves %d of %d slots: %s", covered, slots, node.client.Options().Addr)
	}
	return nil
}

// about is what the first master says, and the oldest version that any speaks.
func (c *cluster) about() about {
	a := c.list[0].is
	a.members = c.at
	for _, n := range c.list {
		a.evicts = cmp.Or(a.evicts, n.is.evicts)
		if olderThan(n.is.speaks, a.speaks) {
			a.speaks = n.is.speaks
		}
	}
	return a
}

// has is true if every master has the feature.
func (c *cluster) has(ctx context.Context, feature string) (bool, error) {
	for _, n := range c.list {
		if ok, err := n.has(ctx, feature); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// usage is summed over the masters.
func (c *cluster) usage(ctx context.Context) (sum Usage, err error) {
	for _, n := range c.list {
		u, err := n.usage(ctx)
		if err != nil {
			return untold(), err
		}
		sum = sum.plus(u)
	}
	return sum, nil
}

func (c *cluster) rtt(ctx context.Context, n int) ([]time.Duration, error) {
	return c.list[0].rtt(ctx, n)
}

// remove deletes the names one by one, since those of one command must share a
// slot; the library sends those of one node together.
func (c *cluster) remove(ctx context.Context, names []string) (sum int, err error) {
	for part := range slices.Chunk(names, batch) {
		replies, err := c.router.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, name := range part {
				p.Unlink(ctx, name)
			}
			return nil
		})
		for _, r := range replies {
			if n, ok := r.(*redis.IntCmd); ok {
				sum += int(n.Val())
			}
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func (c *cluster) close() error {
	var errs []error
	if c.router != nil {
		errs = append(errs, c.router.Close())
	}
	for _, n := range c.list {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}

// startCluster starts masters and makes them one cluster. What has been started
// is added to g.
func startCluster(ctx context.Context, i installed, d *tempDir, g *group) (lock.Endpoint, error) {
	var nodes []*redisNode
	defer func() {
		for _, n := range nodes {
			_ = n.close() // the first error is the one that helps
		}
	}()
	var addrs []string
	for range masters {
		r, err := startRedis(ctx, i, d, role{clustered, 2, func(ports []int, _ string) ([]string, error) {
			// Left to itself the server takes its port + 10000 for the others, which nobody
			// has seen to be free.
			return []string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(ports[1]), "--cluster-config-file", clusterFile,
				// How long a node may be silent: a machine that measures is busy.
				"--cluster-node-timeout", "60000"}, nil
		}})
		if err != nil {
			return "", err
		}
		*g = append(*g, r)
		n, err := connectNode(ctx, lock.Endpoint("redis://"+r.addr), clustered)
		if err != nil {
			return "", err
		}
		nodes, addrs = append(nodes, n), append(addrs, r.addr)
	}
	if err := form(ctx, nodes); err != nil {
		return "", fmt.Errorf("the cluster was not formed: %w", err)
	}
	return lock.Endpoint("redis+cluster://" + strings.Join(addrs, ",")), nil
}

// form gives each node its part of the slots, introduces all to the first, and
// waits until every one has heard of all.
func form(ctx context.Context, nodes []*redisNode) error {
	for i, n := range nodes {
		from, to := i*slots/len(nodes), (i+1)*slots/len(nodes)-1
		if err := n.client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			return err
		}
		// Else the nodes find out only by collisions.
		if err := n.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
	}
	for _, n := range nodes[1:] {
		host, port, err := net.SplitHostPort(n.client.Options().Addr)
		if err != nil {
			return err
		}
		m, err := n.client.ConfigGet(ctx, "cluster-port").Result()
		if err != nil {
			return err
		}
		if err := nodes[0].client.Do(ctx, "CLUSTER", "MEET", host, port, m["cluster-port"]).Err(); err != nil {
			return err
		}
	}
	return await(ctx, "waiting for the nodes to agree", func(ctx context.Context) error {
		for _, n := range nodes {
			text, err := n.client.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			info := parseInfo(text)
			all, ok := strconv.Itoa(len(nodes)), strconv.Itoa(slots)
			if info["cluster_state"] != "ok" || info["cluster_known_nodes"] != all || info["cluster_size"] != all || info["cluster_slots_ok"] != ok {
				return fmt.Errorf("%s knows %s of %s nodes and %s slots and is in state %q",
					n.client.Options().Addr, info["cluster_known_nodes"], all, info["cluster_slots_ok"], info["cluster_state"])
			}
			ranges, err := n.client.ClusterSlots(ctx).Result() //nolint:staticcheck // it is what the clients read
			if err != nil {
				return err
			}
			for _, r := range ranges { // the address comes later than the node
				if len(r.Nodes) == 0 || strings.HasPrefix(r.Nodes[0].Addr, ":") {
					return fmt.Errorf("%s does not know the address of every node", n.client.Options().Addr)
				}
			}
			// Links come last, one each way to each of the others. Valkey closes one that brings
			// it what was published before it knows whose it is (clusterProcessPacket in
			// cluster_legacy.c), and the message is lost. Redis 6 does not tell.
			if links, err := n.client.ClusterLinks(ctx).Result(); err == nil && len(links) < 2*(len(nodes)-1) {
				return fmt.Errorf("%s has %d of %d links", n.client.Options().Addr, len(links), 2*(len(nodes)-1))
			}
		}
		return nil
	})
}

// formedWithin bounds the time in which the servers of a group that we start
// find each other.
const formedWithin = 60 * time.Second

// await asks done until it has nothing left to complain of.
func await(ctx context.Context, what string, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, formedWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}
