package server

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// containRedis starts one container of a Redis.
func containRedis(ctx context.Context, e *engine, image string, o Options) (*box, lock.Endpoint, error) {
	b, err := e.launch(ctx, imaged{
		kind: "redis", image: image, programs: []string{"redis-server", "valkey-server"}, port: "6379/tcp",
		args:  append([]string{"--port", "6379", "--bind", "0.0.0.0", "--protected-mode", "no"}, redisFlags(o.Persist)...),
		ready: redisReady,
	})
	if err != nil {
		return nil, "", err
	}
	return b, lock.Endpoint("redis://" + b.addr), nil
}
