package redis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredislib "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/goredis"
)

// From a client that a program has already to a function that runs while a lock is held.
func ExampleOpen() {
	server, err := miniredis.Run() // in a program: a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := goredislib.NewClient(&goredislib.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()

	ctx := context.Background()
	dial, at := goredis.Like(client)
	locker, err := redis.Open(ctx, "redis-handoff", dial, at, lock.Config{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = locker.Close() }()

	err = lock.Do(ctx, locker, "orders/42", func(ctx context.Context) error {
		fmt.Println("order 42 is ours") // ctx ends when the lease is known to be lost
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: order 42 is ours
}

func ExampleOpen_unknown() {
	dial, at := goredis.Like(goredislib.NewClient(&goredislib.Options{Addr: "127.0.0.1:1"}))
	_, err := redis.Open(context.Background(), "redis-hand-off", dial, at, lock.Config{})
	fmt.Println(err)
	_, err = redis.Open(context.Background(), "redis-redlock", dial, at, lock.Config{})
	fmt.Println(err)
	// Output:
	// redis: there is no lock "redis-hand-off"
	// redis: redis-redlock takes 5 servers
}
