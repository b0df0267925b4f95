package server

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// startRedis starts one container of image.
func (e *engine) startRedis(ctx context.Context, image string) (_ host, n *redisNode, ep lock.Endpoint, err error) {
	b, err := e.launch(ctx, imaged{
		kind: "redis", image: image, programs: []string{"redis-server", "valkey-server"}, port: "6379/tcp",
		args:  append([]string{"--port", "6379", "--bind", "0.0.0.0", "--protected-mode", "no"}, redisFlags()...),
		ready: redisReady,
		join: func(ctx context.Context, addr string) (err error) {
			ep = lock.Endpoint("redis://" + addr)
			n, err = connectRedis(ctx, ep)
			return err
		},
	})
	if err != nil {
		return nil, nil, "", err
	}
	return b, n, ep, nil
}
