package safety

import (
	"context"
	"strings"
	"time"
)

// memoryFaults are those of servers that have no memory left.
func memoryFaults() []Fault {
	servers := Servers{Own: true, Healed: true}
	return []Fault{
		{
			Name: "full", Doc: "The server of the lock is full, and refuses what takes memory.",
			Applies: onRedis, Servers: servers, Play: full,
		},
		{
			Name: "evicted", Doc: "The server of the lock is full, and throws keys away, those of the lock among them.",
			Applies: onRedis, Servers: servers, Play: evicted,
		},
	}
}

// little is less memory than a server without keys takes.
const little = "1"

func full(ctx context.Context, s *Scene) error {
	s.lease(steady, brief)
	list, err := s.admins(s.struck())
	if err != nil {
		return err
	}
	a, b, err := s.pair(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	var undo []func() error
	for _, c := range list {
		u, err := s.configure(ctx, c, "maxmemory-policy", "noeviction", "maxmemory", little)
		if err != nil {
			return err
		}
		undo = append(undo, u)
		if err := c.Set(ctx, s.Key(1).Name, "", time.Second).Err(); err == nil || !strings.HasPrefix(err.Error(), "OOM") {
			return failed("the server is not full: %v", err)
		}
	}
	s.Proof("%s refuses SET: OOM", of(len(list), "server"))
	q, err := s.seek(b, k, 2*s.Bound)
	if err != nil {
		return err
	}
	if in, _, err := q.within(ctx, s.TTL/4); err != nil {
		return err
	} else if in {
		s.Proof("client B got in while %s was full", of(len(list), "server"))
		return s.both(ctx, a, b)
	}
	if err := s.hold(ctx, a, k); err != nil {
		return err
	}
	return s.pass(ctx, a, k, q, func() error {
		for _, u := range undo {
			if err := u(); err != nil {
				return failed("CONFIG SET: %v", err)
			}
		}
		return nil
	})
}

func evicted(ctx context.Context, s *Scene) error {
	s.lease(long, long)
	list, err := s.admins(s.struck())
	if err != nil {
		return err
	}
	a, err := s.Client(ctx)
	if err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	entered := time.Now()
	if err := s.Enter(ctx, a, k); err != nil {
		return err
	}
	for _, c := range list {
		before, err := info(ctx, c, "evicted_keys")
		if err != nil {
			return err
		}
		undo, err := s.configure(ctx, c, "maxmemory-policy", "allkeys-random", "maxmemory", little)
		if err != nil {
			return err
		}
		err = s.until(ctx, "the server has thrown away the keys of the lock", func() (bool, error) {
			n, err := s.has(ctx, c, k)
			return n == 0, err
		})
		if err != nil {
			return err
		}
		after, err := info(ctx, c, "evicted_keys")
		if err != nil {
			return err
		}
		if after == before {
			return failed("the server says that it has thrown away no key")
		}
		s.Proof("a server that had thrown away %s keys says that it has thrown away %s, and has none of the lock", before, after)
		if err := undo(); err != nil {
			return failed("CONFIG SET: %v", err)
		}
	}
	return s.succeed(ctx, a, b, entered)
}
