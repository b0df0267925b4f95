package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
)

// readyWithin bounds the start of one server that we start ourselves.
const readyWithin = 20 * time.Second

// errTaken says that somebody else got the port between our choice and the
// server's bind.
var errTaken = errors.New("address already in use")

// redisBinary finds the named server program, or one on PATH. One that was named
// and is not there is an error, never replaced by another.
func redisBinary(program string) (string, error) {
	if program != "" {
		path, err := exec.LookPath(program)
		if err != nil {
			return "", fmt.Errorf("there is no program %s, which %s names: %w", program, envProgram, errors.Unwrap(err))
		}
		return filepath.Abs(path)
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	get := "scripts/servers redis"
	if runtime.GOOS == "darwin" {
		get = "brew install redis"
	}
	return "", missing("neither redis-server nor valkey-server is on PATH; get one with: " + get)
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
func startBinary(ctx context.Context, path string, d *tempDir, r role) (host, *redisNode, lock.Endpoint, error) {
	if r.args == nil {
		r.args = func(context.Context, int, string) ([]string, error) { return redisFlags(), nil }
	}
	for try := 1; ; try++ {
		h, n, e, err := startBinaryOnce(ctx, path, d, r)
		// The choice of a port is a race by nature: the server cannot be asked
		// to choose one itself.
		if errors.Is(err, errTaken) && try < 5 && ctx.Err() == nil {
			continue
		}
		return h, n, e, err
	}
}

func startBinaryOnce(ctx context.Context, path string, d *tempDir, r role) (h host, n *redisNode, e lock.Endpoint, err error) {
	dir, err := os.MkdirTemp(d.path, "node-")
	if err != nil {
		return nil, nil, "", err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, nil, "", err
	}
	defer func() { _ = log.Close() }()
	args, err := r.args(ctx, port, dir)
	if err != nil {
		return nil, nil, "", err
	}
	args = append(args, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--protected-mode", "yes", "--dir", dir)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...) // Close ends it, not ctx
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	c, err := spawn(cmd)
	if err != nil {
		return nil, nil, "", fmt.Errorf("cannot start %s: %w", path, err)
	}
	d.j.mind(cmd.Process.Pid)
	defer func() {
		if err != nil {
			_ = c.stop()
		}
	}()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := ready(ctx, addr, c.done); err != nil {
		b, _ := os.ReadFile(log.Name())
		if bytes.Contains(b, []byte("ddress already in use")) {
			return nil, nil, "", errTaken
		}
		return nil, nil, "", fmt.Errorf("%s %w: %s", path, err, lastLine(b))
	}
	e = lock.Endpoint("redis://" + addr)
	if n, err = connectNode(ctx, e, r.mode); err != nil {
		return nil, nil, "", err
	}
	if n.pid != strconv.Itoa(cmd.Process.Pid) {
		// What answers on the port is somebody else's server.
		_ = n.close()
		return nil, nil, "", errTaken
	}
	return c, n, e, nil
}

// ready waits until addr answers a PING, or ended is closed.
func ready(ctx context.Context, addr string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe(ctx, &redis.Options{Addr: addr})
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("ended at once")
		case <-ctx.Done():
			return fmt.Errorf("was not ready: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// freePort is a port of the loopback that was free a moment ago.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if s := strings.TrimSpace(lines[len(lines)-1]); s != "" {
		return s
	}
	return "it said nothing"
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
