package redis_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// tongue is a Conn to a server that knows the compare commands of one family,
// whatever the server behind it knows. It says what the families' pages say.
type tongue struct {
	wire.Conn
	speaks string // DELEX, DELIFEQ, CAD or nothing
	lose   string // the answer to this command is lost, once
}

const compareAndDelete = `local v = redis.call('get', KEYS[1])
	if v == ARGV[1] then return redis.call('del', KEYS[1]) end
	if v == false then return tonumber(ARGV[2]) end
	return 0`

func (c *tongue) Do(ctx context.Context, args ...any) (any, error) {
	reply, err := c.translate(ctx, args)
	if err == nil && c.lose == args[0] {
		c.lose = ""
		return nil, io.EOF
	}
	return reply, err
}

func (c *tongue) translate(ctx context.Context, args []any) (any, error) {
	switch name := args[0].(string); name {
	case "DELEX", "DELIFEQ", "CAD":
		if name != c.speaks {
			return nil, wire.Error("ERR unknown command '" + name + "', with args beginning with: ")
		}
		switch {
		case len(args) == 1:
			return nil, wire.Error("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
		case name == "DELEX" && args[2] == "IFEQ":
			return c.Conn.Do(ctx, "EVAL", compareAndDelete, 1, args[1], args[3], 0)
		case name == "DELIFEQ":
			return c.Conn.Do(ctx, "EVAL", compareAndDelete, 1, args[1], args[2], 0)
		case name == "CAD":
			return c.Conn.Do(ctx, "EVAL", compareAndDelete, 1, args[1], args[2], -1)
		}
		return nil, wire.Error("ERR syntax error")
	}
	return c.Conn.Do(ctx, args...)
}

// speaking is the variant on a server of that tongue.
func (s *server) speaking(t *testing.T, speaks, lose string) lock.Variant {
	return redistest.Find(t, redis.Variants(s.Name, func(ctx context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
		conn, err := s.Dial(ctx, ep, c)
		return &tongue{conn, speaks, lose}, err
	}), "redis-token-native")
}

// The life of a key in each dialect.
func TestNativeDialects(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, speaks := range []string{"DELEX", "DELIFEQ", "CAD"} {
			t.Run(speaks, func(t *testing.T) { nativeLife(t, s, s.speaking(t, speaks, "")) })
		}
	})
}

// nativeLife is one key's from its grant to its loss, on v.
func nativeLife(t *testing.T, s *server, v lock.Variant) {
	l := redistest.OpenVariant(t, v, s.At, lock.Config{})
	if n := s.Do(t, "DBSIZE"); n != int64(0) {
		t.Errorf("Open left %v keys behind", n)
	}
	lease := redistest.MustTry(t, l, "k")
	if r := redistest.Wait(t, "TryAcquire", redistest.Try(t, s.Open(t, "redis-token", nil), "k")); !errors.Is(r.Err, lock.ErrHeld) {
		t.Errorf("redis-token on a held key: %v, want ErrHeld", r.Err)
	}
	before := time.Now()
	if err := lease.(lock.Extender).Extend(t.Context(), time.Minute); err != nil {
		t.Fatalf("Extend: %v", err)
	}
	if ttl := s.Do(t, "PTTL", "k").(int64); ttl <= 50_000 || ttl > 60_000 {
		t.Errorf("PTTL after Extend by a minute: %d ms", ttl)
	}
	if end := lease.(lock.Deadliner).Deadline(); end.Before(before.Add(time.Minute)) {
		t.Errorf("the deadline is %v away after Extend by a minute", end.Sub(before))
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	for what, err := range map[string]error{
		"second Release":       lease.Release(t.Context()),
		"Extend after Release": lease.(lock.Extender).Extend(t.Context(), time.Minute),
	} {
		if !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: %v, want ErrLost", what, err)
		}
	}
	if n := s.Do(t, "EXISTS", "k"); n != int64(0) {
		t.Error("the key is there after its release, or again after an Extend")
	}
	// A late release finds the next owner's key and leaves it.
	late := redistest.MustTry(t, l, "k")
	s.Expire(t, "k")
	next := redistest.MustTry(t, l, "k")
	if err := late.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("late Release: %v, want ErrLost", err)
	}
	if err := late.(lock.Extender).Extend(t.Context(), time.Minute); !errors.Is(err, lock.ErrLost) {
		t.Errorf("late Extend: %v, want ErrLost", err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Errorf("Release of the next owner: %v", err)
	}
}

// A grant without an answer is given back by the server's own command.
func TestNativeLostAnswer(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for _, speaks := range []string{"DELEX", "DELIFEQ", "CAD"} {
			l := redistest.OpenVariant(t, s.speaking(t, speaks, "SET"), s.At, lock.Config{})
			if lease, err := l.Acquire(t.Context(), "k"); lease != nil || !errors.Is(err, io.EOF) || errors.Is(err, lock.ErrUncertain) {
				t.Errorf("%s: %v, %v; want io.EOF, and the key surely given back", speaks, lease, err)
			}
			if n := s.Do(t, "EXISTS", "k"); n != int64(0) {
				t.Errorf("%s: the key is held by nobody", speaks)
			}
		}
	})
}

// A server without the commands is told in one line what it lacks.
func TestNativeMissing(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		v := s.speaking(t, "", "")
		_, err := v.Open(t.Context(), lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{s.At}}, lock.Config{})
		if err == nil || !strings.Contains(err.Error(), "needs a server with compare-and-delete") || strings.Contains(err.Error(), "\n") {
			t.Errorf("Open: %v", err)
		}
		if n := s.Do(t, "DBSIZE"); n != int64(0) {
			t.Errorf("Open left %v keys behind", n)
		}
	})
}

// The same on a server that has a dialect of its own, if there is one.
func TestNativeServer(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			s := &server{redistest.StartReal(t, a, redis.Variants)}
			v := s.Variant(t, "redis-token-native")
			l, err := v.Open(t.Context(), lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{s.At}}, lock.Config{})
			if err != nil {
				if redistest.Required("valkey9") {
					t.Fatalf("LOCKBENCH_REQUIRE lists valkey9: %v", err)
				}
				t.Skipf("NOT TESTED on a real server (scripts/newer gets one, LOCKBENCH_REDIS_SERVER names it): %v", err)
			}
			_ = l.Close()
			nativeLife(t, s, v)
		})
	}
}
