package fault

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls/lock"
)

// Some of the servers die, and nobody listens at their addresses until the fault is
// healed.
func TestKill(t *testing.T) {
	s := start(t, server.Binary)
	list := clientsOf(t, s.Deployment)
	for _, n := range []int{1, 0} {
		dead := s.Processes()
		if n > 0 {
			dead = dead[:n]
		}
		i := inject(t, Kill{Servers: Target{First: n}}, &Env{Server: s})
		if text := i.Evidence(); !strings.Contains(text, pids(dead)+" ended") {
			t.Errorf("evidence %q, want the ends of %v", text, dead)
		}
		if left := len(s.Processes()); left != 2-len(dead) {
			t.Errorf("%d servers run, and %d of 2 were killed", left, len(dead))
		}
		for i, c := range list {
			if err := c.Ping(t.Context()).Err(); (err == nil) != (i >= len(dead)) {
				t.Errorf("%d are dead: server %d: %v", len(dead), i, err)
			}
		}
		heal(t, i)
		for _, p := range dead {
			if p.Alive() {
				t.Errorf("process %d was killed and lives", p.PID)
			}
		}
		for i, c := range list {
			if err := c.Ping(t.Context()).Err(); err != nil {
				t.Errorf("server %d after it: %v", i, err)
			}
		}
		if again := s.Processes(); len(again) != 2 || again[0] == dead[0] {
			t.Errorf("%v run after %v were killed", again, dead)
		}
		if _, err := s.Usage(t.Context()); err != nil {
			t.Errorf("the cost of servers that came back: %v", err)
		}
	}
	if _, err := (Kill{Servers: Target{First: 3}}).Inject(t.Context(), &Env{Server: s}); err == nil {
		t.Error("three of two servers were killed")
	}
}

// A Redis without persistence cannot come back with its data, and says so.
func TestRestartRefused(t *testing.T) {
	s := start(t, server.Binary)
	before := s.Processes()
	_, err := Restart{}.Inject(t.Context(), &Env{Server: s})
	if !errors.Is(err, ErrLacks) || !strings.Contains(err.Error(), "keeps nothing on disk and would come back empty") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	if after := s.Processes(); len(after) != 2 || after[0] != before[0] {
		t.Errorf("refused, and %v are now %v", before, after)
	}
}

// A data is one thing that a server keeps: put writes it, and has tells whether it is there.
type data struct {
	put func(ctx context.Context, e lock.Endpoint) error
	has func(ctx context.Context, e lock.Endpoint) (bool, error)
}

// A server of each kind that is started again has its data, and one that is started again
// empty has not.
func TestRestart(t *testing.T) {
	for kind, d := range map[string]data{
		"redis": redisData(), "mysql": sqlData(openMySQL), "postgresql": sqlData(openPostgres), "zookeeper": zookeeperData(), "etcd": etcdData(),
		"nats": natsData(),
	} {
		t.Run(kind, func(t *testing.T) {
			o := server.Options{Source: server.Binary, Persist: true}
			if kind == "nats" { // what every machine has
				o.Source, o.Embeds = server.Embedded, builtin.Embeds()
			}
			s := started(t, lock.Needs{Kind: kind}, o)
			at := s.Deployment.Nodes[0]
			if err := d.put(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			for _, f := range []Restart{{}, {Empty: true}} {
				before := s.Processes()
				i := inject(t, f, &Env{Server: s})
				if len(s.Processes()) != 0 {
					t.Errorf("%s: %v go on", f.Name(), s.Processes())
				}
				heal(t, i)
				if after := s.Processes(); len(after) == 0 || after[0] == before[0] {
					t.Errorf("%s: %v run after %v were killed", f.Name(), after, before)
				}
				if has, err := d.has(t.Context(), at); err != nil || has == f.Empty {
					t.Errorf("after %s the server has its data: %v, %v", f.Name(), has, err)
				}
				if text := i.Evidence(); strings.Contains(text, "empty directories") != f.Empty || !strings.Contains(text, pids(s.Processes()[:1])[len("process "):]) {
					t.Errorf("evidence %q, and %v serve", text, s.Processes())
				}
			}
			if _, err := s.Usage(t.Context()); err != nil {
				t.Errorf("the cost of a server that came back: %v", err)
			}
		})
	}
}

func redisData() data {
	open := func(e lock.Endpoint) (*redis.Client, error) {
		o, err := redis.ParseURL(e.Reveal())
		if err != nil {
			return nil, err
		}
		return redis.NewClient(o), nil
	}
	return data{
		func(ctx context.Context, e lock.Endpoint) error {
			c, err := open(e)
			if err != nil {
				return err
			}
			return errors.Join(c.Set(ctx, "k", "v", time.Hour).Err(), c.Close())
		},
		func(ctx context.Context, e lock.Endpoint) (bool, error) {
			c, err := open(e)
			if err != nil {
				return false, err
			}
			n, err := c.Exists(ctx, "k").Result()
			return n == 1, errors.Join(err, c.Close())
		},
	}
}

func openPostgres(e lock.Endpoint) (*sql.DB, error) { return sql.Open("pgx", e.Reveal()) }

func openMySQL(e lock.Endpoint) (*sql.DB, error) {
	u, err := url.Parse(e.Reveal())
	if err != nil {
		return nil, err
	}
	o := mysql.NewConfig()
	o.User, o.Net, o.Addr, o.DBName = u.User.Username(), "tcp", u.Host, strings.Trim(u.Path, "/")
	return sql.Open("mysql", o.FormatDSN())
}

func sqlData(open func(lock.Endpoint) (*sql.DB, error)) data {
	return data{
		func(ctx context.Context, e lock.Endpoint) error {
			db, err := open(e)
			if err != nil {
				return err
			}
			_, err = db.ExecContext(ctx, "CREATE TABLE kept (k INT)")
			return errors.Join(err, db.Close())
		},
		func(ctx context.Context, e lock.Endpoint) (bool, error) {
			db, err := open(e)
			if err != nil {
				return false, err
			}
			n := 0
			err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'kept'").Scan(&n)
			return n == 1, errors.Join(err, db.Close())
		},
	}
}

func zookeeperData() data {
	open := func(e lock.Endpoint) (*zk.Conn, error) {
		c, _, err := zk.Connect([]string{strings.TrimPrefix(e.Reveal(), "zookeeper://")}, 20*time.Second, zk.WithLogInfo(false))
		return c, err
	}
	return data{
		func(_ context.Context, e lock.Endpoint) error {
			c, err := open(e)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Create("/kept", nil, 0, zk.WorldACL(zk.PermAll))
			return err
		},
		func(_ context.Context, e lock.Endpoint) (bool, error) {
			c, err := open(e)
			if err != nil {
				return false, err
			}
			defer c.Close()
			has, _, err := c.Exists("/kept")
			return has, err
		},
	}
}

func etcdData() data {
	open := func(e lock.Endpoint) (*clientv3.Client, error) {
		return clientv3.New(clientv3.Config{Endpoints: []string{strings.TrimPrefix(e.Reveal(), "etcd://")}, Logger: zap.NewNop()})
	}
	return data{
		func(ctx context.Context, e lock.Endpoint) error {
			c, err := open(e)
			if err != nil {
				return err
			}
			_, err = c.Put(ctx, "k", "v")
			return errors.Join(err, c.Close())
		},
		func(ctx context.Context, e lock.Endpoint) (bool, error) {
			c, err := open(e)
			if err != nil {
				return false, err
			}
			r, err := c.Get(ctx, "k")
			if err != nil {
				return false, errors.Join(err, c.Close())
			}
			return r.Count == 1, c.Close()
		},
	}
}

func natsData() data {
	open := func(ctx context.Context, e lock.Endpoint) (jetstream.KeyValue, func(), error) {
		c, err := nats.Connect(e.Reveal())
		if err != nil {
			return nil, nil, err
		}
		js, err := jetstream.New(c)
		if err != nil {
			return nil, c.Close, err
		}
		kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "kept"})
		return kv, c.Close, err
	}
	return data{
		func(ctx context.Context, e lock.Endpoint) error {
			kv, done, err := open(ctx, e)
			if err != nil {
				return err
			}
			defer done()
			_, err = kv.Create(ctx, "k", []byte("v"))
			return err
		},
		func(ctx context.Context, e lock.Endpoint) (bool, error) {
			kv, done, err := open(ctx, e)
			if err != nil {
				return false, err
			}
			defer done()
			_, err = kv.Get(ctx, "k")
			if errors.Is(err, jetstream.ErrKeyNotFound) {
				return false, nil
			}
			return err == nil, err
		},
	}
}
