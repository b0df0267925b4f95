package safety

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// clusterFaults are those of a Redis Cluster.
func clusterFaults() []Fault {
	return []Fault{{
		Name: "migration", Doc: "The slot of the key moves to another server of a cluster while the key is held and waited for.",
		Applies: func(v lock.Variant) string {
			if why := onRedis(v); why != "" {
				return why
			}
			return v.Unsuited(lock.Cluster)
		},
		Servers: Servers{Own: true, Healed: true, Name: "cluster", Options: func(o *server.Options) { o.Topologies["redis"] = lock.Cluster }},
		Play:    migration,
	}}
}

// A move is the way of one slot from one server of a cluster to another.
type move struct {
	s        *Scene
	slot     int64
	from, to *redis.Client
	id       string // of the server that it moves to
	others   []*redis.Client
}

// migrate begins to move the slot of k away from where it is.
func (s *Scene) migrate(ctx context.Context, k string) (*move, error) {
	m := &move{s: s}
	var err error
	for i := range s.Server.Members {
		c, err := s.admin(i)
		if err != nil {
			return nil, err
		}
		m.others = append(m.others, c)
	}
	if m.slot, err = m.others[0].ClusterKeySlot(ctx, k).Result(); err != nil {
		return nil, failed("CLUSTER KEYSLOT: %v", err)
	}
	ranges, err := m.others[0].ClusterSlots(ctx).Result() //nolint:staticcheck // it is what the clients read
	if err != nil {
		return nil, failed("CLUSTER SLOTS: %v", err)
	}
	var source string
	for _, r := range ranges {
		if int64(r.Start) <= m.slot && m.slot <= int64(r.End) && len(r.Nodes) > 0 {
			source = r.Nodes[0].ID
		}
	}
	var ids []string
	for _, c := range m.others {
		id, err := c.Do(ctx, "CLUSTER", "MYID").Text()
		if err != nil {
			return nil, failed("CLUSTER MYID: %v", err)
		}
		ids = append(ids, id)
	}
	at := slices.Index(ids, source)
	if at < 0 || len(ids) < 2 {
		return nil, failed("none of the servers has slot %d", m.slot)
	}
	other := (at + 1) % len(ids)
	m.from, m.to, m.id = m.others[at], m.others[other], ids[other]
	if err := m.to.Do(ctx, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", source).Err(); err != nil {
		return nil, failed("CLUSTER SETSLOT IMPORTING: %v", err)
	}
	if err := m.from.Do(ctx, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.id).Err(); err != nil {
		return nil, failed("CLUSTER SETSLOT MIGRATING: %v", err)
	}
	return m, nil
}

// keys are those that the server which the slot leaves still has of it.
func (m *move) keys(ctx context.Context) ([]string, error) {
	list, err := m.from.ClusterGetKeysInSlot(ctx, int(m.slot), 100).Result()
	if err != nil {
		return nil, failed("CLUSTER GETKEYSINSLOT: %v", err)
	}
	slices.Sort(list)
	return list, nil
}

// carry moves keys.
func (m *move) carry(ctx context.Context, keys []string) error {
	host, port, err := net.SplitHostPort(m.to.Options().Addr)
	if err != nil {
		return failed("%v", err)
	}
	for _, k := range keys {
		if err := m.from.Migrate(ctx, host, port, k, 0, 5*time.Second).Err(); err != nil {
			return failed("MIGRATE: %v", err)
		}
	}
	return nil
}

// finish moves what is left, and tells all servers.
func (m *move) finish(ctx context.Context) error {
	for {
		list, err := m.keys(ctx)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		if err := m.carry(ctx, list); err != nil {
			return err
		}
	}
	first := []*redis.Client{m.to, m.from} // so that none has the slot to give away
	for _, c := range slices.Concat(first, m.others) {
		if err := c.Do(ctx, "CLUSTER", "SETSLOT", m.slot, "NODE", m.id).Err(); err != nil {
			return failed("CLUSTER SETSLOT NODE: %v", err)
		}
	}
	return nil
}

func migration(ctx context.Context, s *Scene) error {
	s.lease(steady, brief)
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	m, err := s.migrate(ctx, k.Name)
	if err != nil {
		return err
	}
	over := false
	finish := func(ctx context.Context) error {
		if over {
			return nil
		}
		over = true
		return m.finish(ctx)
	}
	s.healed = append(s.healed, finish)
	keys, err := m.keys(ctx)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		return failed("the server of slot %d has no key of the lock", m.slot)
	}
	part := keys[:(len(keys)+1)/2]
	if err := m.carry(ctx, part); err != nil {
		return err
	}
	s.Proof("slot %d is migrating, and %d of the %d keys of the lock have moved", m.slot, len(part), len(keys))
	q, err := s.seek(b, k, 2*s.Bound)
	if err != nil {
		return err
	}
	if in, _, err := q.within(ctx, s.TTL/20); err != nil {
		return err
	} else if in {
		s.Proof("client B got in while the slot was migrating")
		return s.both(ctx, a, b)
	}
	if err := s.hold(ctx, a, k); err != nil {
		return err
	}
	return s.pass(ctx, a, k, q, func() error {
		if in, _, err := q.within(ctx, s.TTL/4); err != nil {
			return err
		} else if in {
			s.Proof("client B got in while the slot was migrating")
		}
		err := finish(ctx)
		s.Proof("the slot has moved")
		return err
	})
}
