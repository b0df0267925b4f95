package safety

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

// redisFaults are those that strike a Redis, or what lies between two of them.
func redisFaults() []Fault {
	var all []Fault
	for _, list := range [][]Fault{
		replicaFaults(), restartFaults(), clockFaults(), diskFaults(), quorumFaults(), memoryFaults(), connectionFaults(), clusterFaults(),
	} {
		all = append(all, list...)
	}
	return all
}

func onRedis(v lock.Variant) string {
	if v.Needs.Kind != "redis" {
		return "it runs on no Redis"
	}
	return ""
}

// majority tells that v is granted its key by most of several independent servers.
func majority(v lock.Variant) bool { return v.Needs.Nodes >= 3 && len(v.Engines) == 0 }

// struck is how many servers a fault strikes that strikes all on which the lock now is: of
// several engines the active one, which is the first.
func (s *Scene) struck() int {
	if len(s.Variant.Engines) > 0 {
		return 1
	}
	return max(s.Variant.Needs.Nodes, 1)
}

// lease sets the length of the leases, for scenes in which none may end by itself, or which
// have to see the end of several. It comes before the first client.
func (s *Scene) lease(fixed, renewed time.Duration) {
	s.TTL = fixed
	if s.Variant.Caps.Has(lock.Renew) {
		s.TTL = renewed
	}
	s.Bound = 2*s.TTL + 2*time.Second
}

// The leases of scenes.
const (
	long   = 30 * time.Second // does not end while a scene lasts that waits for nothing
	steady = 10 * time.Second // does not end in a scene before its holder is done, and its end can be waited for
	brief  = 3 * time.Second  // is renewed several times
)

// admin is a connection of the driver to the server at that place in the order of the
// deployment, or of the members of a cluster. The server has to be ours: what is done by it
// hurts.
func (s *Scene) admin(n int) (*redis.Client, error) {
	if len(s.Server.Processes()) == 0 {
		return nil, failed("%v", fault.ErrNotOurs)
	}
	at := s.Server.Deployment.Nodes
	if s.Server.Topology() != lock.Single {
		at = s.Server.Members
	}
	o, err := redis.ParseURL(at[n].Reveal())
	if err != nil {
		return nil, failed("%s is no address of a Redis", at[n])
	}
	o.PoolSize, o.MaxRetries, o.DisableIdentity, o.ContextTimeoutEnabled = 1, -1, true, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c := redis.NewClient(o)
	s.healed = append(s.healed, func(context.Context) error { return c.Close() })
	return c, nil
}

// admins are those of the first n servers.
func (s *Scene) admins(n int) (list []*redis.Client, err error) {
	for i := range n {
		c, err := s.admin(i)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// configure sets parameters of a server, and sets them back when the scene ends unless that
// was done before.
func (s *Scene) configure(ctx context.Context, c *redis.Client, pairs ...string) (undo func() error, err error) {
	var before, told []any
	for i := 0; i < len(pairs); i += 2 {
		is, err := c.ConfigGet(ctx, pairs[i]).Result()
		if err != nil {
			return nil, failed("CONFIG GET: %v", err)
		}
		before = append(before, pairs[i], is[pairs[i]])
		told = append(told, pairs[i], pairs[i+1])
	}
	set := func(ctx context.Context, args []any) error {
		return c.Do(ctx, append([]any{"CONFIG", "SET"}, args...)...).Err()
	}
	over := false
	undo = func() error {
		if over {
			return nil
		}
		over = true
		return set(context.WithoutCancel(ctx), before)
	}
	s.healed = append(s.healed, func(context.Context) error { return undo() })
	if err := set(ctx, told); err != nil {
		return nil, failed("CONFIG SET: %v", err)
	}
	return undo, nil
}

// info reads one line of what a server says of itself.
func info(ctx context.Context, c *redis.Client, name string) (string, error) {
	text, err := c.Info(ctx, "all").Result()
	if err != nil {
		return "", failed("INFO: %v", err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

// has is how many of the names of k a server has.
func (s *Scene) has(ctx context.Context, c *redis.Client, k harness.Target) (int64, error) {
	n, err := c.Exists(ctx, s.Variant.Names(k.Name)...).Result()
	if err != nil {
		return 0, failed("EXISTS: %v", err)
	}
	return n, nil
}

// until asks ok until it says yes, at most for the scene's Bound.
func (s *Scene) until(ctx context.Context, what string, ok func() (bool, error)) error {
	for end := time.Now().Add(max(s.Bound, 10*time.Second)); ; {
		yes, err := ok()
		if err != nil || yes {
			return err
		}
		if time.Now().After(end) {
			return failed("it was not seen that %s", what)
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// hostport is the address of the n-th server.
func (s *Scene) hostport(n int) (string, error) {
	u, err := url.Parse(s.Server.Deployment.Nodes[n].Reveal())
	if err != nil {
		return "", failed("%s is no URL", s.Server.Deployment.Nodes[n])
	}
	return u.Host, nil
}

// A quest is how a client gets a key that calls again when a call fails, as one does whose
// connection was closed.
type quest struct {
	s     *Scene
	b     *harness.Actor
	k     harness.Target
	until time.Time
	call  *harness.Call
	fails int
}

// seek has b wait for k, at most for d.
func (s *Scene) seek(b *harness.Actor, k harness.Target, d time.Duration) (*quest, error) {
	s.rivals++
	call, err := b.Acquire(k, d)
	return &quest{s: s, b: b, k: k, call: call, until: time.Now().Add(d)}, err
}

// within waits at most d, and reports whether b got in, and whether its wait is over.
func (q *quest) within(ctx context.Context, d time.Duration) (in, over bool, err error) {
	for end := time.Now().Add(d); ; {
		r, done, err := q.call.Within(ctx, max(time.Until(end), time.Millisecond))
		left := time.Until(q.until)
		switch {
		case err != nil || !done:
			return false, false, err
		case r.Deed == harness.Granted:
			return true, true, nil
		case r.Deed == harness.Refused || left <= 0:
			return false, true, nil
		}
		if q.fails++; q.fails == 1 {
			q.s.Proof("a call of client %s fails, and it calls again: %s", name(q.b.Me()), r.Err)
		}
		if err := pause(ctx, min(time.Duration(q.fails)*10*time.Millisecond, 250*time.Millisecond, max(time.Until(end), 0))); err != nil {
			return false, false, err
		}
		if !time.Now().Before(end) {
			return false, false, nil // it calls again when it is waited for
		}
		if q.call, err = q.b.Acquire(q.k, left); err != nil {
			return false, false, err
		}
	}
}

// in waits for the end.
func (q *quest) in(ctx context.Context) (bool, error) {
	for {
		in, over, err := q.within(ctx, max(time.Until(q.until), 0)+q.s.TTL)
		if err != nil || over {
			return in, err
		}
		if time.Now().After(q.until.Add(20 * time.Second)) {
			return false, failed("a call of client %s does not end", name(q.b.Me()))
		}
	}
}

// succeed has b ask for the key of a, who entered at that instant and whose lease cannot
// have ended yet, and both work if b gets in.
func (s *Scene) succeed(ctx context.Context, a, b *harness.Actor, entered time.Time) error {
	k := s.Key(0)
	if err := s.warned(ctx, a); err != nil {
		return err
	}
	in, err := s.ask(ctx, b, k)
	if err != nil || !in {
		return err
	}
	if time.Since(entered) > s.TTL/3 { // when a lease is renewed for the first time
		return failed("the machine was so slow that the holder may have learnt of the fault, or its lease may have ended")
	}
	return s.both(ctx, a, b)
}

// warned waits until a knows that it has lost its lease, for a second at most: a lock that
// is told by its server, or by a connection that breaks, has heard of it by then, and others
// do not before they renew the lease.
func (s *Scene) warned(ctx context.Context, a *harness.Actor) error {
	if !s.Variant.Caps.Has(lock.Renew) {
		return nil
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		events, err := s.cast.Events()
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Actor == a.Me() && e.Deed == harness.Warned {
				return nil
			}
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// ask has b ask once for k, and again as long as its calls fail, for a tenth of a lease.
func (s *Scene) ask(ctx context.Context, b *harness.Actor, k harness.Target) (in bool, err error) {
	if !s.Variant.Caps.Has(lock.Try) {
		q, err := s.seek(b, k, s.TTL/10)
		if err != nil {
			return false, err
		}
		return q.in(ctx)
	}
	s.rivals++
	for end := time.Now().Add(s.TTL / 10); ; {
		call, err := b.Try(k)
		if err != nil {
			return false, err
		}
		r, err := call.Wait(ctx)
		if err != nil || r.Deed == harness.Granted || r.Deed == harness.Refused {
			return r.Deed == harness.Granted, err
		}
		if time.Now().After(end) {
			s.Proof("no call of client %s succeeds: %s", name(b.Me()), r.Err)
			return false, nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// enter lets a client in.
func (s *Scene) enter(ctx context.Context, k harness.Target) (*harness.Actor, error) {
	a, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	return a, s.Enter(ctx, a, k)
}

// leave has a release the key, and tells how that ended.
func (s *Scene) leave(ctx context.Context, a *harness.Actor, k harness.Target) (freed bool, err error) {
	call, err := a.Release(k)
	if err != nil {
		return false, err
	}
	return s.left(ctx, a, call)
}

// left waits for the end of a's Release.
func (s *Scene) left(ctx context.Context, a *harness.Actor, call *harness.Call) (freed bool, err error) {
	r, err := call.Wait(ctx)
	if err != nil {
		return false, err
	}
	if r.Deed != harness.Released {
		s.Proof("the Release of client %s fails: %s", name(a.Me()), r.Err)
	}
	return r.Deed == harness.Released, nil
}

// handed waits for the end of b's quest for a key that was given up at that moment of the
// scene, and says what came of it. Who gets it only when the lease has ended was blocked.
func (s *Scene) handed(ctx context.Context, q *quest, since time.Duration) error {
	in, err := q.in(ctx)
	if err != nil {
		return err
	}
	d := s.cast.Now() - since
	if in { // the driver may hear of it late
		events, err := s.cast.Events()
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Actor == q.b.Me() && e.Key == q.k.Key && e.Deed == harness.Granted {
				d = e.At - since
			}
		}
	}
	if !in || d > s.TTL/2 {
		s.Freed(in, d)
		return nil
	}
	s.Proof("client %s got the key %v after it was given up", name(q.b.Me()), d.Round(time.Millisecond))
	return s.Work(ctx, q.b, q.k)
}

// pass has a release k, sets right what end says, and waits for b to get it. A Release may
// wait for what end does. Only if it has failed may b have had to wait for the end of a's
// lease.
func (s *Scene) pass(ctx context.Context, a *harness.Actor, k harness.Target, q *quest, end func() error) error {
	call, err := a.Release(k)
	if err != nil {
		return err
	}
	at := s.cast.Now()
	if end != nil {
		if _, over, err := call.Within(ctx, time.Second); err != nil {
			return err
		} else if !over {
			s.Proof("the Release of client %s waits", name(a.Me()))
		}
		if err := end(); err != nil {
			return err
		}
	}
	freed, err := s.left(ctx, a, call)
	if err != nil {
		return err
	}
	if !freed {
		return s.handed(ctx, q, at)
	}
	in, err := q.in(ctx)
	if err != nil {
		return err
	}
	if !in {
		s.Freed(false, s.cast.Now()-at)
		return nil
	}
	s.Proof("client %s got the key after it was released", name(q.b.Me()))
	return s.Work(ctx, q.b, q.k)
}

// hold has the holder go on past several renewals of its lease, if it has any, and work.
func (s *Scene) hold(ctx context.Context, a *harness.Actor, k harness.Target) error {
	if s.Variant.Caps.Has(lock.Renew) {
		if err := pause(ctx, s.TTL*3/2); err != nil {
			return err
		}
	}
	call, err := a.Check(k)
	if err != nil {
		return err
	}
	r, err := call.Wait(ctx)
	if err != nil {
		return err
	}
	if !r.Yes {
		s.Proof("client %s takes its lease for lost", name(a.Me()))
	}
	return s.Write(ctx, a, k)
}

// of is "the server", or "each of 5 servers".
func of(n int, noun string) string {
	if n == 1 {
		return "the " + noun
	}
	return fmt.Sprintf("each of %d %ss", n, noun)
}
