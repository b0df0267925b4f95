package safety

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
)

// diskFaults are those of servers that keep their keys in an append-only file. What ends is
// the process alone, or with it the machine: then what was written and not synced is lost.
func diskFaults() []Fault {
	servers := Servers{Own: true, Healed: true, Name: "disk", Options: func(o *server.Options) { o.Persist, o.Disks = true, true }}
	return []Fault{
		{
			Name: "everysec-kill", Doc: "A server that syncs each second dies, and comes back with what it wrote.",
			Applies: onRedis, Servers: servers, Play: everysecKill,
		},
		{
			Name: "everysec-stuck", Doc: "A server that syncs each second, and whose disk hangs, dies and comes back with what it wrote.",
			Applies: onRedis, Servers: servers, Play: everysecStuck,
		},
		{
			Name: "everysec-power", Doc: "The machine of a server that syncs each second loses its power, and what was not synced is gone.",
			Applies: onRedis, Servers: servers, Play: everysecPower,
		},
		{
			Name: "always-kill", Doc: "A server that syncs before it answers dies, and comes back with what it wrote.",
			Applies: onRedis, Servers: servers, Play: func(ctx context.Context, s *Scene) error { return always(ctx, s, false) },
		},
		{
			Name: "always-power", Doc: "The machine of a server that syncs before it answers loses its power, and what was not synced is gone.",
			Applies: onRedis, Servers: servers, Play: func(ctx context.Context, s *Scene) error { return always(ctx, s, true) },
		},
	}
}

// A shelf is the servers of the lock and what they keep on their disks.
type shelf struct {
	s    *Scene
	a    *harness.Actor
	list []*redis.Client
}

// shelve has the servers sync as told, and a client ready.
func (s *Scene) shelve(ctx context.Context, sync string) (h *shelf, err error) {
	s.lease(long, long)
	h = &shelf{s: s}
	if h.list, err = s.admins(s.struck()); err != nil {
		return nil, err
	}
	for _, c := range h.list {
		if err := c.ConfigSet(ctx, "appendfsync", sync).Err(); err != nil {
			return nil, failed("CONFIG SET: %v", err)
		}
	}
	h.a, err = s.Client(ctx)
	return h, err
}

// stick has the disks of the servers hang from a moment at which no sync is under way, until
// they come back.
func (h *shelf) stick(ctx context.Context) error {
	for i, c := range h.list {
		h.s.healed = append(h.s.healed, func(context.Context) error { return h.s.Server.Stick(i, false) })
		err := h.s.until(ctx, "no sync is under way", func() (bool, error) {
			if err := h.s.Server.Stick(i, true); err != nil {
				return false, failed("%v", err)
			}
			pending, err := info(ctx, c, "aof_pending_bio_fsync")
			if err != nil || pending == "0" {
				return true, err
			}
			return false, h.s.Server.Stick(i, false)
		})
		if err != nil {
			return err
		}
	}
	h.s.Proof("the syncs of %s hang from now on", of(len(h.list), "server"))
	return nil
}

// crash kills the servers, which come back with what they have on their disks, and reports
// what is left of k there. Power says that what was not synced is lost.
func (h *shelf) crash(ctx context.Context, k harness.Target, power bool) (left, cut int64, err error) {
	var which []int
	for i := range h.list {
		which = append(which, i)
	}
	killed, err := h.s.Server.Kill(which...)
	if err != nil {
		return 0, 0, failed("%v", err)
	}
	h.s.Proof("SIGKILL to %s", of(len(killed.Processes), "server"))
	if power {
		if cut, err = killed.LosePower(); err != nil {
			return 0, 0, failed("%v", err)
		}
		h.s.Proof("%d bytes had been written and not synced, and are lost", cut)
	}
	for _, i := range which {
		if err := h.s.Server.Stick(i, false); err != nil {
			return 0, 0, failed("%v", err)
		}
	}
	if err := killed.Start(ctx, false); err != nil {
		return 0, 0, failed("%v", err)
	}
	if h.list, err = h.s.admins(len(h.list)); err != nil {
		return 0, 0, err
	}
	for _, c := range h.list {
		n, err := h.s.has(ctx, c, k)
		if err != nil {
			return 0, 0, err
		}
		left += n
	}
	h.s.Proof("started again, %s: %d keys of the lock are there", of(len(h.list), "server"), left)
	return left, cut, nil
}

// then has another client ask for the key.
func (h *shelf) then(ctx context.Context, entered time.Time) error {
	b, err := h.s.Client(ctx)
	if err != nil {
		return err
	}
	return h.s.succeed(ctx, h.a, b, entered)
}

// everysecKill has the grant written before the kill. A server that syncs each second may
// answer first and write only once the sync under way has ended; see everysecStuck.
func everysecKill(ctx context.Context, s *Scene) error {
	h, err := s.shelve(ctx, "everysec")
	if err != nil {
		return err
	}
	k := s.Key(0)
	entered := time.Now()
	if err := s.Enter(ctx, h.a, k); err != nil {
		return err
	}
	for _, c := range h.list {
		err := s.until(ctx, "the server has written what it answered for", func() (bool, error) {
			n, err := info(ctx, c, "aof_buffer_length")
			return n == "0", err
		})
		if err != nil {
			return err
		}
	}
	s.Proof("%s wrote the grant to the file", of(len(h.list), "server"))
	if _, _, err := h.crash(ctx, k, false); err != nil {
		return err
	}
	return h.then(ctx, entered)
}

// everysecPower has the grant written while the sync that would save it is under way.
func everysecPower(ctx context.Context, s *Scene) error {
	h, err := s.shelve(ctx, "everysec")
	if err != nil {
		return err
	}
	if err := h.stick(ctx); err != nil {
		return err
	}
	k := s.Key(0)
	entered := time.Now()
	if err := s.Enter(ctx, h.a, k); err != nil {
		return err
	}
	left, cut, err := h.crash(ctx, k, true)
	if err != nil {
		return err
	}
	if cut == 0 || left > 0 {
		return failed("the grant was not lost: %d bytes were cut, and %d keys are left", cut, left)
	}
	return h.then(ctx, entered)
}

// everysecStuck has the grant come while a sync hangs: for that time the server answers and
// keeps what it would write to itself.
func everysecStuck(ctx context.Context, s *Scene) error {
	h, err := s.shelve(ctx, "everysec")
	if err != nil {
		return err
	}
	if err := h.stick(ctx); err != nil {
		return err
	}
	for _, c := range h.list {
		if err := c.Set(ctx, s.Key(1).Name, "", time.Minute).Err(); err != nil {
			return failed("SET: %v", err)
		}
		err := s.until(ctx, "the server syncs", func() (bool, error) {
			pending, err := info(ctx, c, "aof_pending_bio_fsync")
			return pending == "1", err
		})
		if err != nil {
			return err
		}
	}
	k := s.Key(0)
	entered := time.Now()
	if err := s.Enter(ctx, h.a, k); err != nil {
		return err
	}
	for _, c := range h.list {
		n, err := info(ctx, c, "aof_buffer_length")
		if err != nil {
			return err
		}
		s.Proof("a server waits for a sync and keeps %s bytes that it has answered for to itself", n)
	}
	left, _, err := h.crash(ctx, k, false)
	if err != nil {
		return err
	}
	if left > 0 {
		return failed("the server did not wait for its disk any longer, and wrote the grant")
	}
	return h.then(ctx, entered)
}

func always(ctx context.Context, s *Scene, power bool) error {
	h, err := s.shelve(ctx, "always")
	if err != nil {
		return err
	}
	k := s.Key(0)
	entered := time.Now()
	if err := s.Enter(ctx, h.a, k); err != nil {
		return err
	}
	if _, _, err := h.crash(ctx, k, power); err != nil {
		return err
	}
	return h.then(ctx, entered)
}
