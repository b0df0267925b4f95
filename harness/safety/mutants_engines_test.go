package safety_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockbench/lockbench/impls/etcd"
	"github.com/lockbench/lockbench/impls/lock"
)

// openEtcd opens a key that ends with the lease of its owner.
func openEtcd(flaw string) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		c = c.Filled()
		client, _, err := etcd.Dial(ctx, d, c)
		if err != nil {
			return nil, err
		}
		return polled{c, client.Close, func(ctx context.Context, key string) (lock.Lease, error) {
			return takeEtcd(ctx, flaw, client, c, key)
		}}, nil
	}
}

// polled is a Locker that asks again and again.
type polled struct {
	c     lock.Config
	close func() error
	try   func(ctx context.Context, key string) (lock.Lease, error)
}

func (p polled) Close() error { return p.close() }

func (p polled) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return p.wait(ctx, p.c, key)
}

func (p polled) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return p.wait(ctx, p.c.Once(), key)
}

func (p polled) wait(ctx context.Context, c lock.Config, key string) (lock.Lease, error) {
	return lock.Wait{Config: c}.Acquire(ctx, func(ctx context.Context) (lock.Lease, error) { return p.try(ctx, key) })
}

// step calls f between two steps.
func step(ctx context.Context, c lock.Config, name string, f func() error) error {
	if err := c.Step(ctx, name); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return c.Step(ctx, "after-"+name)
}

// held is a lease that free ends.
type held struct {
	token    uint64
	deadline time.Time
	free     func(context.Context) error
}

func (h held) Token() uint64                     { return h.token }
func (h held) Deadline() time.Time               { return h.deadline }
func (h held) Lost() <-chan struct{}             { return nil }
func (h held) Release(ctx context.Context) error { return h.free(ctx) }

func takeEtcd(ctx context.Context, flaw string, client *clientv3.Client, c lock.Config, key string) (lock.Lease, error) {
	owner, sent := rand.Text(), time.Now()
	if flaw != "Put without a compare" {
		var taken bool
		look := func() error {
			r, err := client.Get(ctx, key)
			taken = err == nil && r.Count > 0
			return err
		}
		var err error
		if flaw == "Get, then Put" {
			err = step(ctx, c, "get", look)
		} else {
			err = look()
		}
		if err != nil || taken {
			return nil, err
		}
	}
	ends, err := client.Grant(ctx, int64(c.TTL/time.Second))
	if err != nil {
		return nil, err
	}
	put := clientv3.OpPut(key, owner, clientv3.WithLease(ends.ID))
	if flaw == "key without a lease" {
		put = clientv3.OpPut(key, owner)
	}
	free := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	if flaw == "Get, then Put" || flaw == "Put without a compare" {
		free = clientv3.Compare(clientv3.CreateRevision(key), ">", -1)
	}
	var got *clientv3.TxnResponse
	err = step(ctx, c, "put", func() error {
		got, err = client.Txn(ctx).If(free).Then(put, clientv3.OpGet(key)).Commit()
		return err
	})
	if err != nil {
		return nil, err
	}
	if !got.Succeeded {
		_, err := client.Revoke(ctx, ends.ID)
		return nil, err
	}
	token := uint64(got.Header.Revision)
	if flaw == "token is the version of the key" {
		token = uint64(got.Responses[1].GetResponseRange().Kvs[0].Version)
	}
	return held{token, sent.Add(c.TTL), func(ctx context.Context) error {
		mine := clientv3.Compare(clientv3.Value(key), "=", owner)
		if flaw == "Delete without a compare" {
			mine = clientv3.Compare(clientv3.Version(key), ">", 0)
		}
		return step(ctx, c, "delete", func() error {
			r, err := client.Txn(ctx).If(mine).Then(clientv3.OpDelete(key)).Commit()
			if err == nil && !r.Succeeded {
				return lock.ErrLost
			}
			return err
		})
	}}, nil
}

// openAdvisory opens an advisory lock of PostgreSQL, which is held by a connection.
func openAdvisory(flaw string) func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
	return func(_ context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		db, err := sql.Open("pgx", d.Nodes[0].Reveal())
		if err != nil {
			return nil, err
		}
		c = c.Filled()
		return polled{c, db.Close, func(ctx context.Context, key string) (lock.Lease, error) {
			return takeAdvisory(ctx, flaw, db, c, key)
		}}, nil
	}
}

func takeAdvisory(ctx context.Context, flaw string, db *sql.DB, c lock.Config, key string) (lock.Lease, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	take := "SELECT pg_try_advisory_lock(hashtextextended($1, 0))"
	switch flaw {
	case "lock of a transaction outside of one":
		take = "SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0))"
	case "lock shared by all":
		take = "SELECT pg_try_advisory_lock_shared(hashtextextended($1, 0))"
	}
	var got bool
	err = step(ctx, c, "lock", func() error { return conn.QueryRowContext(ctx, take, key).Scan(&got) })
	if flaw == "answer ignored" {
		got = true
	}
	if err != nil || !got {
		return nil, errors.Join(err, conn.Close())
	}
	if flaw == "connection given back while it holds" {
		return held{free: func(context.Context) error { return nil }}, conn.Close()
	}
	return held{free: func(ctx context.Context) error {
		err := step(ctx, c, "unlock", func() error {
			unlock := "SELECT pg_advisory_unlock(hashtextextended($1, 0))"
			if flaw == "unlocked on another connection" {
				_, err := db.ExecContext(ctx, unlock, key)
				return err
			}
			_, err := conn.ExecContext(ctx, unlock, key)
			return err
		})
		return errors.Join(err, conn.Close())
	}}, nil
}
