package goredis

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/redis"
)

// Batch is a pipeline of the library.
func (c *conn) Batch(ctx context.Context, commands [][]any) []redis.Answer {
	answers := make([]redis.Answer, len(commands))
	if err := ctx.Err(); err != nil {
		for i := range answers {
			answers[i].Err = fmt.Errorf("%w: %w", redis.ErrUnsent, err)
		}
		return answers
	}
	pipe := c.client.Pipeline()
	sent := make([]*goredis.Cmd, len(commands))
	for i, args := range commands {
		c.c.Count.Cmd()
		sent[i] = pipe.Do(ctx, args...)
	}
	_, _ = pipe.Exec(ctx) // the first of the errors that the commands hold
	for i, cmd := range sent {
		answers[i].Reply, answers[i].Err = answer(cmd.Result())
	}
	return answers
}

var _ redis.Batcher = (*conn)(nil)

// Batch sends one command after the other: those of a batch may belong to several
// nodes, and a pipeline that is redirected in part would repeat what has run.
func (c *cluster) Batch(ctx context.Context, commands [][]any) []redis.Answer {
	answers := make([]redis.Answer, len(commands))
	for i, args := range commands {
		answers[i].Reply, answers[i].Err = c.Do(ctx, args...)
	}
	return answers
}

var _ redis.Batcher = (*cluster)(nil)
