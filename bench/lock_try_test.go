package bench

import (
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/locktest"
)

// flock -n, of a lock.
func TestLockTriesOnce(t *testing.T) {
	url := redisServer(t)
	conn := look(t, url)
	for _, wait := range []string{"0", "0s"} {
		try := []string{"-key", "k", "-wait", wait, "--", "echo", "in"}
		if o := finish(t, locked(t, url, try...)); o != (outcome{0, "in\n", ""}) {
			t.Errorf("-wait %s of a free key: %+v", wait, o)
		}
		h := hold(t, locked(t, url, append([]string{"-key", "k"}, inside()...)...))
		o := finish(t, locked(t, url, try...))
		oneLine(t, o, exitTimeout, `key "k" is held by another owner`)
		if o.stdout != "" {
			locktest.Violation(t, "the command ran beside the holder: %q", o.stdout)
		}
		if status := h.letGo(t); status != 0 {
			t.Errorf("the holder: %d %s", status, h.stderr)
		}
	}
	if do(t, conn, "EXISTS", "k") != int64(0) {
		t.Error("the key is still there")
	}
}

// A wait that ends before the server can have answered says nothing about other owners.
func TestLockWaitTooShort(t *testing.T) {
	url := redisServer(t)
	conn := look(t, url)
	for _, algo := range []string{"redis-token", "redis-handoff", "redis-rw"} {
		short := []string{"-algo", algo, "-key", algo, "-wait", "1ns", "--", "echo", "in"}
		o := finish(t, locked(t, url, short...))
		oneLine(t, o, exitFailure, `key "`+algo+`" was not granted within 1ns, but it is free`)
		if o.stdout != "" || strings.Contains(o.stderr, "another owner") {
			t.Errorf("%+v", o)
		}
		if do(t, conn, "EXISTS", algo) != int64(0) {
			t.Errorf("%s: the key was not given back", algo)
		}
		h := hold(t, locked(t, url, append([]string{"-algo", algo, "-key", algo}, inside()...)...))
		oneLine(t, finish(t, locked(t, url, short...)), exitTimeout, "is held by another owner; gave up after 1ns")
		if status := h.letGo(t); status != 0 {
			t.Errorf("the holder: %d %s", status, h.stderr)
		}
	}
}

// flock -s, of a lock.
func TestLockShared(t *testing.T) {
	url := redisServer(t)
	on := func(rest ...string) []string { return append([]string{"-algo", "redis-rw", "-key", "k"}, rest...) }
	reader := hold(t, locked(t, url, on(append([]string{"-shared"}, inside()...)...)...))
	if o := finish(t, locked(t, url, on("-shared", "-wait", "10s", "--", "echo", "in")...)); o != (outcome{0, "in\n", ""}) {
		t.Errorf("a second reader: %+v", o)
	}
	o := finish(t, locked(t, url, on("-wait", "0", "--", "echo", "in")...))
	oneLine(t, o, exitTimeout, "held by another owner")
	if o.stdout != "" {
		locktest.Violation(t, "a writer ran beside the reader: %q", o.stdout)
	}
	if status := reader.letGo(t); status != 0 {
		t.Errorf("the reader: %d %s", status, reader.stderr)
	}
	writer := hold(t, locked(t, url, on(inside()...)...))
	o = finish(t, locked(t, url, on("-shared", "-wait", "100ms", "--", "echo", "in")...))
	oneLine(t, o, exitTimeout, "gave up after 100ms")
	if o.stdout != "" {
		locktest.Violation(t, "a reader ran beside the writer: %q", o.stdout)
	}
	if status := writer.letGo(t); status != 0 {
		t.Errorf("the writer: %d %s", status, writer.stderr)
	}
}
