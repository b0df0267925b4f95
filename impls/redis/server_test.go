package redis_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/redigo"
	"github.com/lockbench/lockbench/impls/redis/rueidis"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// adapter is one client library under test.
type adapter struct {
	name   string
	dial   wire.Dial
	shared bool // one connection for all commands
}

func adapters() []adapter {
	return []adapter{{"goredis", goredis.Dial, false}, {"redigo", redigo.Dial, false}, {"rueidis", rueidis.Dial, true}}
}

// eachServer runs test on miniredis and, if there is one, on a redis-server of
// its own, with both client libraries.
func eachServer(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	for _, a := range adapters() {
		t.Run("miniredis/"+a.name, func(t *testing.T) {
			m := miniredis.RunT(t)
			test(t, newServer(t, a, lock.Endpoint("redis://"+m.Addr()), false))
		})
		t.Run("redis-server/"+a.name, func(t *testing.T) {
			test(t, newServer(t, a, startRedis(t), true))
		})
	}
}

// server is a Redis and a client library to reach it by.
type server struct {
	adapter
	at   lock.Endpoint
	real bool      // time passes on it
	raw  wire.Conn // for commands beside the locks
}

func newServer(t *testing.T, a adapter, at lock.Endpoint, real bool) *server {
	t.Helper()
	conn, err := a.dial(t.Context(), at, lock.Config{}.Filled())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &server{adapter: a, at: at, real: real, raw: conn}
}

// open returns a Locker of its own connections, closed at the end of the test.
// Hook may be nil.
func (s *server) open(t *testing.T, algo string, hook func(context.Context, string) error) lock.Locker {
	t.Helper()
	return openVariant(t, s.variant(t, algo), s.at, lock.Config{Hook: hook})
}

func openVariant(t *testing.T, v lock.Variant, at lock.Endpoint, c lock.Config) lock.Locker {
	t.Helper()
	l, err := v.Open(t.Context(), lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{at}}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}

func (s *server) variant(t *testing.T, algo string) lock.Variant {
	t.Helper()
	return find(t, redis.Variants(s.name, s.dial), algo)
}

func find(t *testing.T, list []lock.Variant, algo string) lock.Variant {
	t.Helper()
	i := slices.IndexFunc(list, func(v lock.Variant) bool { return v.Algo == algo })
	if i < 0 {
		t.Fatalf("no variant %q", algo)
	}
	return list[i]
}

// do sends a command beside the locks.
func (s *server) do(t *testing.T, args ...any) any {
	t.Helper()
	reply, err := s.raw.Do(context.Background(), args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// expire stands for the passing of the TTL of key, which must have one.
func (s *server) expire(t *testing.T, key string) {
	t.Helper()
	if ttl := s.do(t, "PTTL", key).(int64); ttl <= 0 {
		t.Fatalf("key %q has no TTL that could pass: PTTL is %d", key, ttl)
	}
	if s.do(t, "PEXPIRE", key, 0) != int64(1) {
		t.Fatalf("key %q does not expire", key)
	}
	if got := s.do(t, "EXISTS", key); got != int64(0) {
		t.Fatalf("key %q is still there", key)
	}
}

// startRedis runs a redis-server or valkey-server on loopback until the test
// ends, with options of its command line.
func startRedis(t *testing.T, options ...string) lock.Endpoint {
	t.Helper()
	at := startRedisIf(t, options...)
	if at.port == "" {
		skipRedis(t)
	}
	return lock.Endpoint("redis://127.0.0.1:" + at.port)
}

// skipRedis skips a test for want of a server, or fails it where one is required.
func skipRedis(t *testing.T) {
	t.Helper()
	if required("redis") {
		t.Fatal("LOCKBENCH_REQUIRE wants redis, but there is no redis-server on PATH")
	}
	t.Skip("NOT TESTED on a real server: no redis-server or valkey-server on PATH; get it with scripts/servers redis")
}

// required reports whether LOCKBENCH_REQUIRE lists what.
func required(what string) bool {
	return slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), what)
}

// process is where a server listens. The zero value is none.
type process struct{ port, socket string }

func (p process) hostPort() (string, bool) { return "127.0.0.1:" + p.port, p.port != "" }

// startRedisIf is startRedis, but returns the zero value if there is no server.
func startRedisIf(t *testing.T, options ...string) process {
	t.Helper()
	binary, err := exec.LookPath(os.Getenv("LOCKBENCH_REDIS_SERVER"))
	if err != nil {
		binary, err = exec.LookPath("redis-server")
	}
	if err != nil {
		binary, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		return process{}
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	// A free port is free until somebody else takes it, so a start that fails
	// is tried again on another.
	for range 5 {
		probe, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(probe.Addr().String())
		_ = probe.Close()
		cmd := exec.Command(binary, append([]string{
			"--bind", "127.0.0.1", "--port", port, "--unixsocket", socket,
			"--dir", dir, "--save", "", "--appendonly", "no",
		}, options...)...)
		// The server must not outlive a test binary that is killed. The signal
		// comes when the thread that started it ends, so that thread is kept.
		cmd.SysProcAttr = mortal()
		started, done := make(chan error, 1), make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			defer close(done)
			err := cmd.Start()
			started <- err
			if err == nil {
				_ = cmd.Wait() // it is killed
			}
		}()
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		if answers(socket, done) {
			t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
			return process{port: port, socket: socket}
		}
		_ = cmd.Process.Kill()
		<-done
	}
	t.Fatal("redis-server does not start")
	return process{}
}

// answers waits until the server listens on its socket or done is closed. It opens the
// socket after the port, on which another program may be listening by now.
func answers(socket string, done <-chan struct{}) bool {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("unix", socket, time.Second)
		if err == nil {
			_ = conn.Close()
			return true
		}
		select {
		case <-done:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return false
}

// gate parks the first goroutine that comes to step until it is opened.
type gate struct {
	step    string
	reached chan struct{}
	open    chan struct{}
}

func newGate(step string) *gate {
	return &gate{step: step, reached: make(chan struct{}), open: make(chan struct{})}
}

// hook is for one client that passes step once.
func (g *gate) hook(_ context.Context, step string) error {
	if step == g.step {
		close(g.reached)
		<-g.open
	}
	return nil
}

// wait fails the test if ready is not closed or sent to in good time.
func wait[T any](t *testing.T, what string, ready <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ready:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: nothing happened for 30 s", what)
	}
	return v
}

type result struct {
	lease lock.Lease
	err   error
}

// try calls TryAcquire in a goroutine.
func try(t *testing.T, l lock.Locker, key string) <-chan result {
	t.Helper()
	done := make(chan result, 1)
	ctx := t.Context()
	go func() {
		lease, err := l.(lock.Tryer).TryAcquire(ctx, key)
		done <- result{lease, err}
	}()
	return done
}

// mustTry takes key or fails the test.
func mustTry(t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	r := wait(t, "TryAcquire", try(t, l, key))
	if r.err != nil {
		t.Fatalf("TryAcquire of a free key: %v", r.err)
	}
	return r.lease
}
