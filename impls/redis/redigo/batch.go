package redigo

import (
	"context"
	"fmt"

	"github.com/lockbench/lockbench/impls/redis"
)

// Batch is a pipeline of the library. Once it has a connection the time-out
// alone bounds it, whatever becomes of ctx.
func (c *conn) Batch(ctx context.Context, commands [][]any) []redis.Answer {
	answers := make([]redis.Answer, len(commands))
	fail := func(from int, err error) []redis.Answer {
		for i := from; i < len(answers); i++ {
			answers[i].Err = err
		}
		return answers
	}
	if err := ctx.Err(); err != nil {
		return fail(0, unsent(err))
	}
	if err := enter(ctx, c.slots, c.c.Timeout); err != nil {
		return fail(0, unsent(err))
	}
	defer func() { <-c.slots }()
	pc, err := c.pool.GetContext(ctx)
	if err != nil {
		return fail(0, sorted(unsent(err)))
	}
	defer func() { _ = pc.Close() }() // back to the pool; a broken one is dropped
	for _, args := range commands {
		c.c.Count.Cmd()
		if err := pc.Send(fmt.Sprint(args[0]), args[1:]...); err != nil {
			return fail(0, err)
		}
	}
	if err := pc.Flush(); err != nil {
		return fail(0, err)
	}
	for i := range answers {
		reply, err := pc.Receive()
		if answers[i].Err = sorted(err); err == nil {
			answers[i].Reply = plain(reply)
		} else if pc.Err() != nil { // and not just a refusal
			return fail(i, sorted(err))
		}
	}
	return answers
}

var _ redis.Batcher = (*conn)(nil)

// Batch sends one command after the other: those of a batch may belong to several
// nodes, and a pipeline that is redirected in part would repeat what has run.
func (x *cluster) Batch(ctx context.Context, commands [][]any) []redis.Answer {
	answers := make([]redis.Answer, len(commands))
	for i, args := range commands {
		answers[i].Reply, answers[i].Err = x.Do(ctx, args...)
	}
	return answers
}

var _ redis.Batcher = (*cluster)(nil)
