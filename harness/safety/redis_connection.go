package safety

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
)

// connectionFaults are those of connections that a server closes.
func connectionFaults() []Fault {
	servers := Servers{Own: true, Healed: true}
	return []Fault{
		{
			Name: "closed", Doc: "The server closes all connections, those of the holder and those of a waiter.",
			Applies: onRedis, Servers: servers, Play: closed,
		},
		{
			Name: "lost-message", Doc: "The message of a release is lost: the server has closed the connection on which the waiter would hear it.",
			Applies: notified, Servers: servers, Play: lostMessage,
		},
	}
}

func notified(v lock.Variant) string {
	if v.Needs.Kind == "redis" && !v.Caps.Has(lock.Notify) && v.Algo != "redis-blpop" {
		return "no message wakes its waiters"
	}
	return onRedis(v)
}

// A seat is one connection, as the server tells of it.
type seat struct {
	id     string
	listen bool // the client hears of releases there: by messages, of keys that change, or in a blocked command
}

// seats are all connections to a server.
func seats(ctx context.Context, c *redis.Client) (list []seat, err error) {
	text, err := c.ClientList(ctx).Result()
	if err != nil {
		return nil, failed("CLIENT LIST: %v", err)
	}
	for line := range strings.Lines(text) {
		var one seat
		for field := range strings.FieldsSeq(line) {
			name, value, _ := strings.Cut(field, "=")
			switch name {
			case "id":
				one.id = value
			case "flags":
				one.listen = one.listen || strings.ContainsAny(value, "Pbt")
			}
		}
		list = append(list, one)
	}
	return list, nil
}

// all are the connections to each server.
func all(ctx context.Context, list []*redis.Client) (each [][]seat, err error) {
	for _, c := range list {
		one, err := seats(ctx, c)
		if err != nil {
			return nil, err
		}
		each = append(each, one)
	}
	return each, nil
}

// without are those of list that are not in others.
func without(list, others []seat) (rest []seat) {
	known := map[string]bool{}
	for _, o := range others {
		known[o.id] = true
	}
	for _, one := range list {
		if !known[one.id] {
			rest = append(rest, one)
		}
	}
	return rest
}

func closed(ctx context.Context, s *Scene) error {
	s.lease(steady, brief)
	list, err := s.admins(s.struck())
	if err != nil {
		return err
	}
	ours, err := all(ctx, list) // not those of the clients
	if err != nil {
		return err
	}
	k := s.Key(0)
	a, err := s.enter(ctx, k)
	if err != nil {
		return err
	}
	before, err := all(ctx, list)
	if err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	q, err := s.seek(b, k, 2*s.Bound)
	if err != nil {
		return err
	}
	for i, c := range list {
		err := s.until(ctx, "client B waits", func() (bool, error) {
			now, err := seats(ctx, c)
			fresh := without(now, before[i])
			wakes := notified(s.Variant) == ""
			ready := len(fresh) > 0 && !wakes
			for _, one := range fresh {
				ready = ready || one.listen
			}
			return ready, err
		})
		if err != nil {
			return err
		}
	}
	for i, c := range list {
		now, err := seats(ctx, c)
		if err != nil {
			return err
		}
		theirs := without(now, ours[i])
		for _, one := range theirs {
			if err := c.Do(ctx, "CLIENT", "KILL", "ID", one.id).Err(); err != nil && !strings.Contains(err.Error(), "No such client") {
				return failed("CLIENT KILL: %v", err)
			}
		}
		left, err := seats(ctx, c)
		if err != nil {
			return err
		}
		gone := len(without(theirs, left))
		s.Proof("the server closed %d connections of the clients, which was all of them", gone)
		if gone == 0 || gone < len(theirs) {
			return failed("the clients had %d connections, and %d were closed", len(theirs), gone)
		}
	}
	if in, _, err := q.within(ctx, s.TTL/20); err != nil || in {
		return err
	}
	if err := s.hold(ctx, a, k); err != nil {
		return err
	}
	return s.pass(ctx, a, k, q, nil)
}

func lostMessage(ctx context.Context, s *Scene) error {
	s.lease(steady, steady)
	c, err := s.admin(0)
	if err != nil {
		return err
	}
	k := s.Key(0)
	a, err := s.enter(ctx, k)
	if err != nil {
		return err
	}
	before, err := seats(ctx, c)
	if err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	q, err := s.seek(b, k, 2*s.Bound)
	if err != nil {
		return err
	}
	var ears []string
	err = s.until(ctx, "client B listens", func() (bool, error) {
		now, err := seats(ctx, c)
		for _, one := range without(now, before) {
			if one.listen {
				ears = append(ears, one.id)
			}
		}
		return len(ears) > 0, err
	})
	if err != nil {
		return err
	}
	// Stopped, it cannot connect again before the message is sent.
	if err := s.Stop(ctx, b); err != nil {
		return err
	}
	for _, id := range ears {
		if err := c.Do(ctx, "CLIENT", "KILL", "ID", id).Err(); err != nil {
			return failed("CLIENT KILL: %v", err)
		}
	}
	now, err := seats(ctx, c)
	if err != nil {
		return err
	}
	for _, one := range without(now, before) {
		if one.listen {
			return failed("client B still listens")
		}
	}
	s.Proof("the server closed %d connections on which client B listened, and it has no other", len(ears))
	if _, err := s.leave(ctx, a, k); err != nil {
		return err
	}
	s.Proof("client A has released the key")
	at := s.cast.Now()
	if err := s.Continue(ctx, b); err != nil {
		return err
	}
	return s.handed(ctx, q, at)
}
