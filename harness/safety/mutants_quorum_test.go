package safety_test

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	goredislib "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/goredis"
)

// A quorum is a small lock on a majority of independent Redis servers, which it asks all at
// once.
type quorum struct {
	flaw  string
	c     lock.Config
	nodes []goredislib.UniversalClient
}

func openQuorum(flaw string) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		q := &quorum{flaw: flaw, c: c.Filled()}
		closed := func() (err error) {
			for _, n := range q.nodes {
				err = errors.Join(err, n.Close())
			}
			return err
		}
		for _, e := range d.Nodes {
			conn, err := goredis.Dial(ctx, e, q.c)
			if err != nil {
				return nil, errors.Join(err, closed())
			}
			q.nodes = append(q.nodes, goredis.Library(conn))
		}
		return polled{q.c, closed, q.take}, nil
	}
}

// votes sends script to every node, and counts those that say yes, those that say no, and
// those that give no answer.
func (q *quorum) votes(ctx context.Context, script, key, owner string) (yes, no, silent int) {
	ctx, cancel := q.c.Bounded(ctx)
	defer cancel()
	answers := make(chan *goredislib.Cmd, len(q.nodes))
	for _, node := range q.nodes {
		go func() {
			answers <- node.Eval(ctx, script, []string{key, key + ":fence"}, owner, q.c.TTL.Milliseconds())
		}()
	}
	for range q.nodes {
		switch n, err := (<-answers).Int64(); {
		case err != nil:
			silent++
		case n > 0:
			yes++
		default:
			no++
		}
	}
	return yes, no, silent
}

func (q *quorum) take(ctx context.Context, key string) (lock.Lease, error) {
	var yes, no, silent int
	owner, sent := rand.Text(), time.Now()
	err := step(ctx, q.c, "set", func() error {
		yes, no, silent = q.votes(ctx, takeLeased, key, owner)
		return nil
	})
	if err != nil {
		return nil, err
	}
	need, ends := len(q.nodes)/2+1, sent.Add(q.c.TTL*99/100)
	switch q.flaw {
	case "errors counted as votes":
		yes += silent
	case "refusals counted as votes":
		yes += no
	case "fewer than half are enough":
		need = len(q.nodes) / 2
	case "validity counted from the answers":
		ends = time.Now().Add(q.c.TTL * 99 / 100)
	}
	if yes >= need && (time.Now().Before(ends) || q.flaw == "validity not looked at") {
		return held{deadline: ends, free: func(ctx context.Context) error { return q.free(ctx, key, owner) }}, nil
	}
	_ = q.free(context.WithoutCancel(ctx), key, owner) // what it has not freed ends by itself
	return nil, nil
}

func (q *quorum) free(ctx context.Context, key, owner string) error {
	script := freeLeased
	if q.flaw == "plain DEL" {
		script = `return redis.call('del', KEYS[1])`
	}
	return step(ctx, q.c, "del", func() error {
		if freed, _, _ := q.votes(ctx, script, key, owner); freed <= len(q.nodes)/2 {
			return lock.ErrLost
		}
		return nil
	})
}
