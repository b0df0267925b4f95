package safety

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

// replicaFaults are those of a master and its replica.
func replicaFaults() []Fault {
	servers := Servers{Own: true, Healed: true, Name: "replica", Spare: 1}
	return []Fault{
		{
			Name: "failover", Doc: "The master dies, and its replica takes over, which has not heard of the grant.",
			Applies: replicated, Servers: servers, Play: failover,
		},
		{
			Name: "split-brain", Doc: "The replica is cut off and takes over, while the master goes on: there are clients on both sides.",
			Applies: onRedis, Servers: servers, Play: splitBrain,
		},
		{
			Name: "demoted", Doc: "The replica takes over with all data, and the master becomes its replica, without closing a connection.",
			Applies: replicated, Servers: servers, Play: demoted,
		},
	}
}

func replicated(v lock.Variant) string {
	if majority(v) {
		return "its servers are independent, and none has a replica"
	}
	return onRedis(v)
}

// A couple is a master, which is the first server, and its replica, which is the spare one.
type couple struct {
	master, replica *redis.Client
	at, to          string
	spare           int
	link            *fault.Proxy // between the two
}

// couple makes the spare server the replica of the first, through a proxy.
func (s *Scene) couple(ctx context.Context) (c *couple, err error) {
	c = &couple{spare: len(s.Server.Deployment.Nodes) - 1}
	if c.master, err = s.admin(0); err != nil {
		return nil, err
	}
	if c.replica, err = s.admin(c.spare); err != nil {
		return nil, err
	}
	if c.at, err = s.hostport(0); err != nil {
		return nil, err
	}
	if c.to, err = s.hostport(c.spare); err != nil {
		return nil, err
	}
	if c.link, err = fault.NewProxy(c.at); err != nil {
		return nil, failed("%v", err)
	}
	s.proxies = append(s.proxies, fault.Proxies{c.link})
	// The first copy would wait 5 s for other replicas that may come.
	if _, err := s.configure(ctx, c.master, "repl-diskless-sync-delay", "0"); err != nil {
		return nil, err
	}
	if err := s.follow(ctx, c.replica, c.link.Addr()); err != nil {
		return nil, err
	}
	return c, s.alike(ctx, c.master, c.replica)
}

// follow makes c a replica of the server at addr, and a master again when the scene ends.
func (s *Scene) follow(ctx context.Context, c *redis.Client, addr string) error {
	host, port, _ := strings.Cut(addr, ":")
	if err := c.Do(ctx, "REPLICAOF", host, port).Err(); err != nil {
		return failed("REPLICAOF: %v", err)
	}
	s.healed = append(s.healed, func(ctx context.Context) error { return promote(ctx, c) })
	return nil
}

// promote makes c a master.
func promote(ctx context.Context, c *redis.Client) error {
	return c.Do(ctx, "REPLICAOF", "NO", "ONE").Err()
}

// alike waits until the replica has all that its master has.
func (s *Scene) alike(ctx context.Context, master, replica *redis.Client) error {
	return s.until(ctx, "the replica has what its master has", func() (bool, error) {
		status, err := info(ctx, replica, "master_link_status")
		if err != nil || status != "up" {
			return false, err
		}
		want, err := info(ctx, master, "master_repl_offset")
		if err != nil {
			return false, err
		}
		got, err := info(ctx, replica, "slave_repl_offset")
		return got == want, err
	})
}

// missed says what the master has of k and the replica has not.
func (s *Scene) missed(ctx context.Context, c *couple, k harness.Target) error {
	on, err := s.has(ctx, c.master, k)
	if err != nil {
		return err
	}
	beside, err := s.has(ctx, c.replica, k)
	if err != nil {
		return err
	}
	s.Proof("the master has %d keys of the lock, its replica %d; %d bytes to the replica are kept back", on, beside, c.link.Traffic().Kept[fault.Down])
	if on == 0 || beside > 0 {
		return failed("the replica does not lack the grant alone")
	}
	return nil
}

func failover(ctx context.Context, s *Scene) error {
	s.lease(long, long)
	c, err := s.couple(ctx)
	if err != nil {
		return err
	}
	a, proxies, err := s.behind(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	c.link.SetBoth(fault.Hold)
	entered := time.Now()
	if err := s.Enter(ctx, a, k); err != nil {
		return err
	}
	if err := s.missed(ctx, c, k); err != nil {
		return err
	}
	if _, err := s.Strike(ctx, fault.Kill{Servers: fault.Target{Only: 1}}, &fault.Env{}); err != nil {
		return err
	}
	if err := promote(ctx, c.replica); err != nil {
		return failed("REPLICAOF NO ONE: %v", err)
	}
	proxies[0].Redirect(c.to)
	s.Proof("the replica is a master now, and what connects to the address of the old one reaches it")
	b, err := s.ClientOn(ctx, s.through(proxies), 0)
	if err != nil {
		return err
	}
	return s.succeed(ctx, a, b, entered)
}

// through is the deployment as it is reached by proxies that stand there already.
func (s *Scene) through(proxies fault.Proxies) lock.Deployment {
	d := s.deployment()
	d.Nodes = append([]lock.Endpoint(nil), d.Nodes...)
	for i := range d.Nodes {
		d.Nodes[i] = d.Nodes[i].At(proxies[i].Addr())
	}
	return d
}

func splitBrain(ctx context.Context, s *Scene) error {
	s.lease(long, long)
	if majority(s.Variant) {
		return splitMajority(ctx, s)
	}
	c, err := s.couple(ctx)
	if err != nil {
		return err
	}
	a, err := s.Client(ctx)
	if err != nil {
		return err
	}
	k := s.Key(0)
	c.link.SetBoth(fault.Hold)
	entered := time.Now()
	if err := s.Enter(ctx, a, k); err != nil {
		return err
	}
	if err := s.missed(ctx, c, k); err != nil {
		return err
	}
	if err := promote(ctx, c.replica); err != nil {
		return failed("REPLICAOF NO ONE: %v", err)
	}
	proxies, d, err := s.Behind()
	if err != nil {
		return err
	}
	proxies[0].Redirect(c.to)
	s.Proof("both are masters, and client B reaches the one that client A does not")
	b, err := s.ClientOn(ctx, d, 0)
	if err != nil {
		return err
	}
	return s.succeed(ctx, a, b, entered)
}

// splitMajority leaves a client on the side with most servers, and one on the other side.
func splitMajority(ctx context.Context, s *Scene) error {
	a, mine, err := s.behind(ctx)
	if err != nil {
		return err
	}
	b, its, err := s.behind(ctx)
	if err != nil {
		return err
	}
	most := len(mine)/2 + 1
	mine[most:].SetBoth(fault.Reset)
	its[:most].SetBoth(fault.Reset)
	s.Proof("client A reaches %d of %d servers, and client B the other %d", most, len(mine), len(mine)-most)
	k := s.Key(0)
	entered := time.Now()
	if err := s.Enter(ctx, a, k); err != nil {
		return err
	}
	return s.succeed(ctx, a, b, entered)
}

func demoted(ctx context.Context, s *Scene) error {
	s.lease(steady, brief)
	c, err := s.couple(ctx)
	if err != nil {
		return err
	}
	a, proxies, err := s.behind(ctx)
	if err != nil {
		return err
	}
	b, err := s.ClientOn(ctx, s.through(proxies), 0)
	if err != nil {
		return err
	}
	k := s.Key(0)
	if err := s.Enter(ctx, a, k); err != nil {
		return err
	}
	q, err := s.seek(b, k, 2*s.Bound)
	if err != nil {
		return err
	}
	if err := s.alike(ctx, c.master, c.replica); err != nil {
		return err
	}
	if err := promote(ctx, c.replica); err != nil {
		return failed("REPLICAOF NO ONE: %v", err)
	}
	if err := s.follow(ctx, c.master, c.to); err != nil {
		return err
	}
	proxies[0].Redirect(c.to)
	role, err := info(ctx, c.master, "role")
	if err != nil {
		return err
	}
	on, err := s.has(ctx, c.replica, k)
	if err != nil {
		return err
	}
	s.Proof("the old master calls itself a %s, and %d connections to it are open; the new one has %d keys of the lock", role, proxies[0].Traffic().Open, on)
	if err := s.hold(ctx, a, k); err != nil {
		return err
	}
	return s.pass(ctx, a, k, q, nil)
}
