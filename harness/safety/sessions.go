package safety

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// sessionFaults end what a server keeps for one of its clients: a connection of a database,
// a session of ZooKeeper, a lease of etcd.
func sessionFaults() []Fault {
	return []Fault{
		{
			Name: "session-end", Doc: "The server ends the holder's sessions while word of it is under way to the holder, which goes on.",
			Applies: only("mysql", "postgresql", "zookeeper", "etcd"), Servers: Servers{Own: true, Healed: true}, Play: sessionEnd,
		},
		{
			Name: "missed-wakeup", Doc: "The server ends the connection on which a waiter listens, and the key comes free before the waiter listens again.",
			Applies: listens, Servers: Servers{Own: true, Healed: true}, Play: missedWakeup,
		},
	}
}

// stateful are the kinds of servers that keep sessions for their clients, and on disk
// what they are told.
func stateful() []string { return []string{"mysql", "postgresql", "zookeeper", "etcd", "nats"} }

// only says that a fault strikes the locks on these kinds of servers.
func only(kinds ...string) func(lock.Variant) string {
	return func(v lock.Variant) string {
		if slices.Contains(kinds, v.Needs.Kind) {
			return ""
		}
		last := len(kinds) - 1
		if last == 0 {
			return "it does not run on " + kinds[0]
		}
		return "it runs neither on " + strings.Join(kinds[:last], ", ") + " nor on " + kinds[last]
	}
}

func listens(v lock.Variant) string {
	if v.Needs.Kind != "postgresql" || !strings.HasSuffix(v.Algo, "-notify") {
		return "its waiters have no connection on which they listen"
	}
	return ""
}

// lasting has the clients that come after it take leases of ttl, and waits last at most
// bound. A lease that outlasts the scene by far ends only by the fault.
func (s *Scene) lasting(ttl, bound time.Duration) { s.TTL, s.Bound = ttl, bound }

// The leases and waits of scenes in which no lease is to end by itself.
const (
	longLease = time.Minute
	shortWait = 4 * time.Second
)

// compete has b ask for the key that a holds. If it gets in, both look at their guards and
// write, the older one last. Since is an instant at which a's lease was certainly whole.
func (s *Scene) compete(ctx context.Context, a, b *harness.Actor, k harness.Target, since time.Time) (in bool, err error) {
	call, err := s.Rival(b, k)
	if err != nil {
		return false, err
	}
	if in, _, err = s.entered(ctx, b, k, call); err != nil || !in {
		return in, err
	}
	if time.Since(since) > s.TTL*3/4 {
		return in, failed("the machine was so slow that the lease of client %s may have ended by itself", name(a.Me()))
	}
	s.Proof("client %s got in %v after the fault", name(b.Me()), time.Since(since).Round(time.Millisecond))
	return in, s.Work(ctx, a, k)
}

// handOver has a, who is alone inside, write and leave, and sees that b gets in then.
func (s *Scene) handOver(ctx context.Context, a, b *harness.Actor) error {
	k := s.Key(0)
	if err := s.Work(ctx, a, k); err != nil {
		return err
	}
	release, err := a.Release(k)
	if err != nil {
		return err
	}
	if r, err := release.Wait(ctx); err != nil || r.Err != "" {
		s.Proof("the Release of client %s ended with %s", name(a.Me()), r.Err)
		if err != nil {
			return err
		}
	}
	at := time.Now()
	call, err := s.Rival(b, k)
	if err != nil {
		return err
	}
	in, d, err := s.In(ctx, call, at)
	if err != nil {
		return err
	}
	if !in {
		s.Freed(false, d)
		return nil
	}
	s.Proof("client %s got the key %v after the Release of client %s", name(b.Me()), d.Round(time.Millisecond), name(a.Me()))
	return nil
}

// since lists the sessions that the server has beside those of before.
func (s *Scene) since(ctx context.Context, before []server.Session) (list []server.Session, err error) {
	now, err := s.Server.Sessions(ctx)
	if err != nil {
		return nil, failed("%v", err)
	}
	for _, one := range now {
		if !slices.ContainsFunc(before, func(b server.Session) bool { return b.ID == one.ID }) {
			list = append(list, one)
		}
	}
	return list, nil
}

// cut ends the sessions.
func (s *Scene) cut(ctx context.Context, list []server.Session) error {
	var ids []string
	for _, one := range list {
		if err := s.Server.EndSession(ctx, one.ID); err != nil {
			return failed("%v", err)
		}
		ids = append(ids, one.ID)
	}
	s.Proof("the server has ended %d sessions and lists them no more: %s", len(ids), strings.Join(ids, ", "))
	return nil
}

func sessionEnd(ctx context.Context, s *Scene) error {
	s.lasting(longLease, shortWait)
	before, err := s.Server.Sessions(ctx)
	if err != nil {
		return failed("%v", err)
	}
	a, proxies, err := s.behind(ctx)
	if err != nil {
		return err
	}
	if err := s.Enter(ctx, a, s.Key(0)); err != nil {
		return err
	}
	own, err := s.since(ctx, before)
	if err != nil {
		return err
	}
	if len(own) == 0 {
		return failed("the server shows no session of the holder")
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	proxies.Set(fault.Down, fault.Hold)
	s.Proof("what the server sends client A is kept back")
	at := time.Now()
	if err := s.cut(ctx, own); err != nil {
		return err
	}
	in, err := s.compete(ctx, a, b, s.Key(0), at)
	if err != nil {
		return err
	}
	proxies.Set(fault.Down, fault.Pass)
	if in {
		return nil
	}
	return s.handOver(ctx, a, b)
}

// missedWakeup stops the waiter while its connection is ended and the key is freed, so that
// nobody hears of that.
func missedWakeup(ctx context.Context, s *Scene) error {
	a, err := s.Client(ctx)
	if err != nil {
		return err
	}
	if err := s.Enter(ctx, a, s.Key(0)); err != nil {
		return err
	}
	b, err := s.Client(ctx)
	if err != nil {
		return err
	}
	call, err := s.Rival(b, s.Key(0))
	if err != nil {
		return err
	}
	ears, err := s.ears(ctx)
	for end := time.Now().Add(s.Bound); err == nil && len(ears) == 0 && time.Now().Before(end); {
		if err = pause(ctx, 5*time.Millisecond); err == nil {
			ears, err = s.ears(ctx)
		}
	}
	if err != nil {
		return err
	}
	if len(ears) == 0 {
		return failed("client B does not listen")
	}
	if err := s.Stop(ctx, b); err != nil {
		return err
	}
	if err := s.cut(ctx, ears); err != nil {
		return err
	}
	at := time.Now()
	if err := s.Leave(ctx, a, s.Key(0)); err != nil {
		return err
	}
	if ears, err = s.ears(ctx); err != nil || len(ears) > 0 {
		return failed("somebody listens: %v %v", ears, err)
	}
	s.Proof("client A has released the key while nobody listened")
	if err := s.Continue(ctx, b); err != nil {
		return err
	}
	in, d, err := s.In(ctx, call, at)
	if err != nil {
		return err
	}
	s.Freed(in, d)
	return nil
}

// ears are the sessions that listen.
func (s *Scene) ears(ctx context.Context) ([]server.Session, error) {
	list, err := s.since(ctx, nil)
	return slices.DeleteFunc(list, func(one server.Session) bool { return !strings.HasPrefix(strings.ToUpper(one.Last), "LISTEN") }), err
}
