package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockbench/lockbench/impls/lock"
)

// locateRedis finds the program that o names, or one on PATH, and asks it for its
// version. A cluster wants one that can be told its second port.
func locateRedis(ctx context.Context, o Options) (installed, error) {
	get := "scripts/servers redis"
	if runtime.GOOS == "darwin" {
		get = "brew install redis"
	}
	path, err := o.locate("redis", []string{"redis-server", "valkey-server"}, get)
	if err != nil {
		return installed{}, err
	}
	i := installed{path: path, persist: o.Persist}
	i.product, i.version = redisVersion(ctx, path)
	t, _ := o.topology("redis") // the caller has reported the error
	switch {
	case ctx.Err() != nil:
		return installed{}, context.Cause(ctx)
	case i.version == "":
		return i, errors.New(path + " does not tell its version; try: " + path + " --version")
	case t == lock.Cluster && olderThan(i.version, "7.0"):
		return installed{}, missing(fmt.Sprintf("needs redis ≥ 7.0 for a cluster, found %s %s", path, i.version))
	}
	return i, nil
}

// launchRedis starts one server, or the servers of one cluster, or of one master with
// its replica and sentinels.
func launchRedis(ctx context.Context, i installed, d *tempDir, t lock.Topology, g *group) (lock.Endpoint, error) {
	switch t {
	case lock.Cluster:
		return startCluster(ctx, i, d, g)
	case lock.Sentinel:
		return startSentinel(ctx, i, d, g)
	}
	r, err := startRedis(ctx, i, d, role{})
	if err != nil {
		return "", err
	}
	*g = append(*g, r)
	return lock.Endpoint("redis://" + r.addr), nil
}

// redisFlags say what a server keeps on its disk; see Options.Persist.
func redisFlags(persist bool) []string {
	if persist {
		return []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"}
	}
	return []string{"--save", "", "--appendonly", "no"}
}

// A role is what a server program is started as. The zero value is a server by
// itself.
type role struct {
	// mode is what the server must say that it is, see redisNode.look.
	mode string
	// ports are how many it needs; 0 means 1.
	ports int
	// args are the arguments beside those of redisFlags, the address and the directory;
	// nil are none.
	args func(ports []int, dir string) ([]string, error)
}

// startRedis starts the program in a role on a free port of the loopback, in a directory of
// its own under d.
func startRedis(ctx context.Context, i installed, d *tempDir, as role) (*running, error) {
	p := program{
		path: i.path, ports: as.ports,
		args: func(_ context.Context, ports []int, dir string) ([]string, error) {
			var args []string
			if as.args != nil {
				var err error
				if args, err = as.args(ports, dir); err != nil {
					return nil, err
				}
			}
			if as.mode != watcher {
				args = append(args, redisFlags(i.persist)...)
			}
			return append(args, "--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--protected-mode", "yes", "--dir", dir), nil
		},
		ready: redisReady,
		join: func(ctx context.Context, addr string, pid int) error {
			n, err := connectNode(ctx, lock.Endpoint("redis://"+addr), as.mode)
			if err != nil {
				return err
			}
			if n.pid != strconv.Itoa(pid) {
				err = errTaken // somebody else's server answers there
			}
			return errors.Join(err, n.close())
		},
	}
	if as.mode != watcher { // a sentinel does not know TIME
		p.clock, p.syncs = redisClock, true
	}
	if as.mode != alone {
		p.role = redisRole
		p.keeps = []string{clusterFile}
	}
	return launch(ctx, d, p)
}

// redisRole is the first word of the answer to ROLE, in today's words.
func redisRole(ctx context.Context, addr string) (string, error) {
	c := askRedis(addr)
	defer func() { _ = c.Close() }()
	list, err := c.Do(ctx, "ROLE").Slice()
	if err != nil || len(list) == 0 {
		return "", err
	}
	role := fmt.Sprint(list[0])
	if role == "slave" {
		role = follower
	}
	return role, nil
}

func redisClock(ctx context.Context, addr string) (time.Time, error) {
	c := askRedis(addr)
	defer func() { _ = c.Close() }()
	return c.Time(ctx).Result()
}

// askRedis is for one question to a server of ours.
func askRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// redisReady asks for one PONG.
func redisReady(ctx context.Context, addr string) error {
	return probe(ctx, &redis.Options{Addr: addr})
}
