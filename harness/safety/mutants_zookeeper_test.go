package safety_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/zookeeper"
)

// A znodes is a small queue of numbered ephemeral nodes. Its leases end when the client has
// no connection any more, which is before its session ends.
type znodes struct {
	flaw string
	c    lock.Config
	conn *zk.Conn

	mu   sync.Mutex
	lost chan struct{} // closed, and replaced, when the connection is lost
}

// mute is a logger of the library.
type mute struct{}

func (mute) Printf(string, ...any) {}

func openZnodes(flaw string) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(_ context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		hosts, _, err := d.Nodes[0].Split()
		if err != nil {
			return nil, err
		}
		var list []string
		for _, h := range hosts {
			list = append(list, strings.TrimPrefix(h.Reveal(), "zookeeper://"))
		}
		z := &znodes{flaw: flaw, c: c.Filled(), lost: make(chan struct{})}
		var events <-chan zk.Event
		if z.conn, events, err = zk.Connect(list, z.c.TTL, zk.WithLogger(mute{})); err != nil {
			return nil, err
		}
		go func() {
			for e := range events {
				if e.State == zk.StateDisconnected || e.State == zk.StateExpired {
					z.mu.Lock()
					close(z.lost)
					z.lost = make(chan struct{})
					z.mu.Unlock()
				}
			}
		}()
		return z, nil
	}
}

func (z *znodes) Close() error {
	z.conn.Close()
	return nil
}

func (z *znodes) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return z.take(ctx, key, true)
}

func (z *znodes) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	l, err := z.take(ctx, key, false)
	if err == nil && l == nil {
		return nil, lock.ErrHeld
	}
	return l, err
}

// created makes parent, and below it a node that stands in the queue.
func (z *znodes) created(parent string) (string, error) {
	all, flags := zk.WorldACL(zk.PermAll), int32(zk.FlagEphemeral|zk.FlagSequence)
	if _, err := z.conn.Create(parent, nil, 0, all); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return "", err
	}
	if z.flaw == "node without a session" {
		flags = zk.FlagSequence
	}
	return z.conn.Create(parent+"/n-", nil, flags, all)
}

func (z *znodes) take(ctx context.Context, key string, waits bool) (lock.Lease, error) {
	if err := z.c.Step(ctx, "create"); err != nil {
		return nil, err
	}
	z.mu.Lock()
	lost := z.lost
	z.mu.Unlock()
	parent := "/" + zookeeper.Znode(key)
	path, err := z.created(parent)
	if err != nil {
		return nil, err
	}
	if err := z.c.Step(ctx, "after-create"); err != nil {
		return nil, errors.Join(err, z.gone(path))
	}
	own := path[strings.LastIndexByte(path, '/')+1:]
	for {
		queue, _, err := z.conn.Children(parent)
		if err != nil {
			return nil, errors.Join(err, z.gone(path))
		}
		slices.Sort(queue)
		i := slices.Index(queue, own)
		first := i == 0
		switch z.flaw {
		case "the last in the queue goes first":
			first = i == len(queue)-1
		case "own node not looked for":
			first = true
		}
		switch {
		case i < 0:
			return nil, lock.ErrUncertain // its session has ended
		case first:
			return z.granted(ctx, path, lost)
		case !waits:
			return nil, z.gone(path)
		}
		before := queue[max(i-1, 0)]
		if z.flaw == "all watch the first" {
			before = queue[0]
		}
		there, _, ended, err := z.conn.ExistsW(parent + "/" + before)
		if err != nil {
			return nil, errors.Join(err, z.gone(path))
		}
		if !there {
			continue
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, errors.Join(lock.Ended(ctx), z.gone(path))
		case <-lost:
			return nil, lock.ErrUncertain
		}
	}
}

func (z *znodes) granted(ctx context.Context, path string, lost chan struct{}) (lock.Lease, error) {
	there, stat, err := z.conn.Exists(path)
	if err != nil || !there {
		return nil, errors.Join(lock.ErrUncertain, err)
	}
	token := uint64(stat.Czxid)
	if z.flaw == "token is the version of the node" {
		token = uint64(stat.Version) + 1
	}
	if z.flaw == "end of the connection not told" {
		lost = nil
	}
	l := znode{held{token: token, free: func(ctx context.Context) error { return z.free(ctx, path) }}, lost}
	return l, nil
}

func (z *znodes) free(ctx context.Context, path string) error {
	return step(ctx, z.c, "delete", func() error {
		if z.flaw == "Release frees the first in the queue" {
			parent := path[:strings.LastIndexByte(path, '/')]
			queue, _, err := z.conn.Children(parent)
			for err != nil && ctx.Err() == nil { // also in the session that comes after its own
				time.Sleep(10 * time.Millisecond)
				queue, _, err = z.conn.Children(parent)
			}
			if err != nil || len(queue) == 0 {
				return errors.Join(lock.ErrLost, err)
			}
			path = parent + "/" + slices.Min(queue)
		}
		err := z.conn.Delete(path, -1)
		if errors.Is(err, zk.ErrNoNode) {
			return lock.ErrLost
		}
		return err
	})
}

// gone deletes a node that waited, if its session has not ended.
func (z *znodes) gone(path string) error {
	if err := z.conn.Delete(path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	return nil
}

// A znode is a lease that ends with a connection.
type znode struct {
	held
	lost <-chan struct{}
}

func (l znode) Lost() <-chan struct{} { return l.lost }

// Deadline is that there is none.
func (l znode) Deadline() time.Time { return time.Time{} }
