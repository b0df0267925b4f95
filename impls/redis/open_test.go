package redis_test

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	goredislib "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/goredis"
)

// A lock like a client has its credentials and its database, and outlives it.
func TestOpenLikeAClient(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireUserAuth("app", "secret-12")
	client := goredislib.NewClient(&goredislib.Options{Addr: server.Addr(), Username: "app", Password: "secret-12", DB: 3})
	dial, at := goredis.Like(client)
	locker, err := redis.Open(t.Context(), "redis-token", dial, at, lock.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	lease, err := locker.Acquire(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	if !server.DB(3).Exists("k") {
		t.Error("the key is not in the client's database")
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := locker.Close(); err != nil {
		t.Error(err)
	}

	wrong := goredislib.NewClient(&goredislib.Options{Addr: server.Addr(), Username: "app", Password: "secret-13"})
	dial, at = goredis.Like(wrong)
	if _, err := redis.Open(t.Context(), "redis-token", dial, at, lock.Config{}); err == nil || strings.Contains(err.Error(), "secret-13") {
		t.Errorf("with another password: %v", err)
	}
	if err := wrong.Close(); err != nil {
		t.Error(err)
	}
}
