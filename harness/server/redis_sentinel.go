package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockbench/lockbench/impls/lock"
)

// A set-up that we start has three sentinels, of which two must agree that the
// master is down: the fewest that survive the loss of one.
const (
	sentinels  = 3
	quorum     = 2
	masterName = "lockbench"

	sentinelPort = "26379" // that of an address that names none
)

// watched is the administrator's view of a master that sentinels watch. It is
// another server after each fail-over.
type watched struct {
	asked []*redis.Options // of the sentinels
	like  lock.Endpoint    // the first host, for the master's password
	name  string

	mu   sync.Mutex
	node *redisNode // of the last look
	at   string
}

// askSentinels connects to the master of which e names the sentinels.
func askSentinels(ctx context.Context, e lock.Endpoint) (*watched, error) {
	hosts, path, err := splitRedis(e)
	if err != nil {
		return nil, err
	}
	name, db, _ := strings.Cut(path, "/")
	w := &watched{name: name}
	for _, h := range hosts {
		o, err := parseRedis(h)
		if err != nil {
			return nil, err
		}
		if o.Addr, err = hostport(h, sentinelPort); err != nil {
			return nil, err
		}
		// User and password are those of the servers.
		w.asked = append(w.asked, &redis.Options{
			Addr: o.Addr, TLSConfig: o.TLSConfig, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
			DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
			ContextTimeoutEnabled: true, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
	}
	w.like = hosts[0]
	if db != "" {
		w.like += lock.Endpoint("/" + db)
	}
	if _, err := w.master(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// find asks the sentinels, one after the other, where the master is.
func (w *watched) find(ctx context.Context) (string, error) {
	var errs []error
	for _, o := range w.asked {
		if err := probe(ctx, o); err != nil {
			errs = append(errs, err)
			continue
		}
		s := redis.NewSentinelClient(o)
		at, err := s.GetMasterAddrByName(ctx, w.name).Result()
		_ = s.Close() // the answer is here, or why there is none
		switch {
		case errors.Is(err, redis.Nil):
			errs = append(errs, fmt.Errorf("%s knows no master %q", o.Addr, w.name))
		case err != nil && strings.Contains(err.Error(), "unknown command"):
			errs = append(errs, fmt.Errorf("%s is no sentinel", o.Addr))
		case err != nil:
			errs = append(errs, refusal(o, err))
		case len(at) == 2:
			return net.JoinHostPort(at[0], at[1]), nil
		}
	}
	return "", oneLine(errs)
}

// master returns the connection to what is the master now.
func (w *watched) master(ctx context.Context) (*redisNode, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, err := w.find(ctx)
	if err != nil {
		return nil, err
	}
	if at == w.at {
		return w.node, nil
	}
	e, err := withHost(w.like, at)
	if err != nil {
		return nil, err
	}
	n, err := connectNode(ctx, e, alone)
	if err != nil {
		return nil, err
	}
	if w.node != nil {
		_ = w.node.close() // of a server that is the master no more
	}
	w.node, w.at = n, at
	return n, nil
}

func (w *watched) about() about {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.node.is
	if e, err := withHost(w.like, w.at); err == nil { // it was parsed before
		a.members = []lock.Endpoint{e}
	}
	return a
}

func (w *watched) has(ctx context.Context, feature string) (bool, error) {
	n, err := w.master(ctx)
	if err != nil {
		return false, err
	}
	return n.has(ctx, feature)
}

// usage is that of the master; its CPU time, where we started it, is that of all
// processes of the set-up.
func (w *watched) usage(ctx context.Context) (Usage, error) {
	n, err := w.master(ctx)
	if err != nil {
		return untold(), err
	}
	return n.usage(ctx)
}

func (w *watched) rtt(ctx context.Context, count int) ([]time.Duration, error) {
	n, err := w.master(ctx)
	if err != nil {
		return nil, err
	}
	return n.rtt(ctx, count)
}

func (w *watched) remove(ctx context.Context, names []string) (int, error) {
	n, err := w.master(ctx)
	if err != nil {
		return 0, err
	}
	return n.remove(ctx, names)
}

func (w *watched) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node.close()
}

// startSentinel starts a master, a replica of it, and sentinels that watch both.
// What has been started is added to g.
func startSentinel(ctx context.Context, i installed, d *tempDir, g *group) (lock.Endpoint, error) {
	begin := func(as role) (string, error) {
		r, err := startRedis(ctx, i, d, as)
		if err != nil {
			return "", err
		}
		*g = append(*g, r)
		return r.addr, nil
	}
	// A replica's first copy would wait 5 s for others that may come.
	data := []string{"--repl-diskless-sync-delay", "0"}
	first, err := begin(role{follower, 1, func([]int, string) ([]string, error) { return data, nil }}) // after a fail-over it is one
	if err != nil {
		return "", err
	}
	at := strings.Replace(first, ":", " ", 1)
	if _, err := begin(role{follower, 1, func([]int, string) ([]string, error) {
		return append([]string{"--replicaof", at}, data...), nil
	}}); err != nil {
		return "", err
	}
	var watchers []string
	for range sentinels {
		one, err := begin(role{watcher, 1, func(_ []int, dir string) ([]string, error) {
			// Sentinels keep what they learn in their file.
			conf := filepath.Join(dir, "sentinel.conf")
			text := fmt.Sprintf("sentinel monitor %s %s %d\n"+
				// A machine that measures is busy, and a slow master is not a dead one.
				"sentinel down-after-milliseconds %[1]s 10000\nsentinel failover-timeout %[1]s 20000\n", masterName, at, quorum)
			return []string{conf, "--sentinel"}, os.WriteFile(conf, []byte(text), 0o600)
		}})
		if err != nil {
			return "", err
		}
		watchers = append(watchers, one)
	}
	if err := acquainted(ctx, watchers); err != nil {
		return "", err
	}
	return lock.Endpoint("redis+sentinel://" + strings.Join(watchers, ",") + "/" + masterName), nil
}

// acquainted waits until every sentinel knows the others and a replica that
// could take over.
func acquainted(ctx context.Context, watchers []string) error {
	for _, addr := range watchers {
		s := redis.NewSentinelClient(&redis.Options{
			Addr: addr, ContextTimeoutEnabled: true, DisableIdentity: true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		err := await(ctx, "waiting for the sentinel at "+addr, func(ctx context.Context) error {
			m, err := s.Master(ctx, masterName).Result()
			if err != nil {
				return err
			}
			if m["num-other-sentinels"] != strconv.Itoa(sentinels-1) || m["num-slaves"] != "1" || m["flags"] != "master" {
				return fmt.Errorf("it knows %s sentinels and %s replicas of a %s", m["num-other-sentinels"], m["num-slaves"], m["flags"])
			}
			list, err := s.Replicas(ctx, masterName).Result()
			switch {
			case err != nil:
				return err
			case len(list) != 1 || list[0]["master-link-status"] != "ok" || list[0]["flags"] != "slave":
				return errors.New("the replica is not ready")
			}
			return nil
		})
		if e := s.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	return nil
}
