package bench

import (
	"os/exec"
	"testing"
)

// python is an interpreter that has redis-py: Debian's, whose package is
// python3-redis, or whichever is on PATH.
func python(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(t.Context(), path, "-c", "import redis.lock").Run() == nil {
			return path
		}
	}
	lacking(t, "redis-py", "there is no python3 with redis-py")
	return ""
}

// holdInPython takes a redis-py Lock, says so, and releases it at the end of its
// standard input; tryInPython exits with 75 if it cannot have the key in 200 ms.
const (
	holdInPython = `
import redis, sys
lock = redis.Redis.from_url(sys.argv[1]).lock(sys.argv[2], timeout=60)
if not lock.acquire(blocking_timeout=20): sys.exit(75)
print("inside", flush=True)
sys.stdin.read()
lock.release()
`
	tryInPython = `
import redis, sys
lock = redis.Redis.from_url(sys.argv[1]).lock(sys.argv[2], timeout=60, sleep=0.02)
if not lock.acquire(blocking_timeout=0.2): sys.exit(75)
print("inside", flush=True)
lock.release()
`
)

func TestLockAndRedisPyExcludeEachOther(t *testing.T) {
	interpreter, url := python(t), redisServer(t)
	py := func(t *testing.T, script, key string) *exec.Cmd {
		return exec.CommandContext(t.Context(), interpreter, "-c", script, url, key)
	}
	for _, client := range []string{"goredis", "redigo"} {
		t.Run(client, func(t *testing.T) {
			key := "py-" + client
			ours := func(rest ...string) *exec.Cmd {
				return locked(t, url, append([]string{"-algo", "redis-token", "-client", client, "-key", key, "-ttl", "60s"}, rest...)...)
			}
			// We hold, they wait in vain.
			h := hold(t, ours(inside()...))
			if o := finish(t, py(t, tryInPython, key)); o.status != exitTimeout || o.stdout != "" {
				t.Errorf("redis-py beside our lock: %+v", o)
			}
			if status := h.letGo(t); status != 0 {
				t.Errorf("our lock: %d %s", status, h.stderr)
			}
			if o := finish(t, py(t, tryInPython, key)); o.status != 0 || o.stdout != "inside\n" {
				t.Errorf("redis-py after our lock: %+v", o)
			}
			// They hold, we wait in vain.
			h = hold(t, py(t, holdInPython, key))
			oneLine(t, finish(t, ours("-wait", "200ms", "--", "echo", "in")), exitTimeout, "is held by another owner")
			if status := h.letGo(t); status != 0 {
				t.Errorf("redis-py: %d %s", status, h.stderr)
			}
			if o := finish(t, ours("-wait", "20s", "--", "echo", "in")); o.status != 0 || o.stdout != "in\n" {
				t.Errorf("our lock after redis-py: %+v", o)
			}
		})
	}
}
