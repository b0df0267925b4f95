package rueidis

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbench/lockbench/impls/redis"
)

// Batch bounds all of its commands together by Timeout, as Do does one.
func (c *conn) Batch(ctx context.Context, commands [][]any) []redis.Answer {
	answers := make([]redis.Answer, len(commands))
	err := ctx.Err()
	if err == nil {
		err = c.line.over()
	}
	if err != nil {
		for i := range answers {
			answers[i].Err = unsent(err)
		}
		return answers
	}
	all := make([]rueidis.Completed, len(commands))
	for i, args := range commands {
		c.c.Count.Cmd()
		all[i] = command(c.client, args)
	}
	late := time.AfterFunc(c.c.Timeout, c.line.cut)
	results := c.client.DoMulti(context.Background(), all...)
	inTime := late.Stop()
	for i, r := range results {
		reply, err := r.ToAny()
		if r.NonRedisError() != nil && !inTime {
			err = fmt.Errorf("no answer in %v: %w", c.c.Timeout, os.ErrDeadlineExceeded)
		}
		answers[i].Reply, answers[i].Err = answer(reply, err)
	}
	return answers
}

var _ redis.Batcher = (*conn)(nil)
