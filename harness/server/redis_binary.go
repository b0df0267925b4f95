package server

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

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
	// args are the arguments beside those of redisFlags, the address and the directory;
	// nil are none.
	args func(ctx context.Context, dir string) ([]string, error)
}

// startRedis starts the program in a role on a free port of the loopback, in a directory of
// its own under d.
func startRedis(ctx context.Context, i installed, d *tempDir, as role) (*running, error) {
	return launch(ctx, d, program{
		path: i.path, grouped: as.mode != alone,
		args: func(ctx context.Context, ports []int, dir string) ([]string, error) {
			var args []string
			if as.args != nil {
				var err error
				if args, err = as.args(ctx, dir); err != nil {
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
	})
}

// redisReady asks for one PONG.
func redisReady(ctx context.Context, addr string) error {
	return probe(ctx, &redis.Options{Addr: addr})
}

// redisVersion asks the program itself: "Redis server v=7.0.15 sha=…".
func redisVersion(ctx context.Context, path string) (product, version string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, _ := exec.CommandContext(ctx, path, "--version").Output()
	product = strings.TrimSuffix(filepath.Base(path), "-server")
	if strings.HasPrefix(strings.ToLower(string(out)), "valkey") {
		product = "valkey"
	}
	for _, f := range strings.Fields(string(out)) {
		if v, ok := strings.CutPrefix(f, "v="); ok {
			version = v
		}
	}
	return product, version
}
