package server

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
)

// redisBinary finds the server program that o names, or one on PATH.
func redisBinary(o Options) (string, error) {
	get := "scripts/servers redis"
	if runtime.GOOS == "darwin" {
		get = "brew install redis"
	}
	return o.locate("redis", []string{"redis-server", "valkey-server"}, get)
}

// redisFlags keep nothing on disk: a benchmark of locks must not measure one.
func redisFlags() []string { return []string{"--save", "", "--appendonly", "no"} }

// A role is what a server program is started as. The zero value is a server by
// itself.
type role struct {
	// mode is what the server must say that it is, see redisNode.look.
	mode string
	// args are the arguments beside the address and the directory; nil are
	// redisFlags.
	args func(ctx context.Context, port int, dir string) ([]string, error)
}

// startBinary starts the program as r on a free port of the loopback, in a
// directory of its own under d.
func startBinary(ctx context.Context, path string, d *tempDir, r role) (_ host, n *redisNode, e lock.Endpoint, err error) {
	if r.args == nil {
		r.args = func(context.Context, int, string) ([]string, error) { return redisFlags(), nil }
	}
	c, err := launch(ctx, d, program{
		path: path, grouped: r.mode != alone,
		args: func(ctx context.Context, ports []int, dir string) ([]string, error) {
			args, err := r.args(ctx, ports[0], dir)
			return append(args, "--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--protected-mode", "yes", "--dir", dir), err
		},
		ready: redisReady,
		join: func(ctx context.Context, addr string, pid int) (err error) {
			e = lock.Endpoint("redis://" + addr)
			if n, err = connectNode(ctx, e, r.mode); err != nil {
				return err
			}
			if n.pid != strconv.Itoa(pid) {
				// What answers on the port is somebody else's server.
				_ = n.close()
				return errTaken
			}
			return nil
		},
	})
	if err != nil {
		return nil, nil, "", err
	}
	return c, n, e, nil
}

// redisReady asks for one PONG.
func redisReady(ctx context.Context, addr string) error {
	return probe(ctx, &redis.Options{Addr: addr})
}

// binaryVersion asks the program itself: "Redis server v=7.0.15 sha=…".
func binaryVersion(ctx context.Context, path string) (product, version string) {
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
