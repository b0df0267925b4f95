package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockbench/lockbench/impls/lock"
)

// redisKind is the kind of server that Redis is, and what is compatible with it.
func redisKind() Kind {
	return family{
		kind: "redis", address: map[lock.Topology]string{
			lock.Single: "redis://HOST:6379", lock.Cluster: "redis+cluster://HOST:6379,HOST:6379", lock.Sentinel: wantSentinel,
		},
		locate: locateRedis, embedded: embeddedRedis, launch: launchRedis, hosts: redisHosts, connect: connectRedis,
		usual: "redis:8", contain: containRedis,
	}.as([]string{
		"redis://[USER:PASSWORD@]HOST[:PORT][/DB] (rediss:// for TLS)",
		"redis+cluster://HOST:PORT,HOST:PORT", "redis+sentinel://HOST:PORT,HOST:PORT/NAME",
	}, lock.Cluster, lock.Sentinel)
}

// wantSentinel is an example of an address of sentinels.
const wantSentinel = "redis+sentinel://HOST:26379,HOST:26379/NAME"

// redisNode is one connection to one Redis server, on which everything that
// this package asks is asked, so that it can be told from the clients' load.
type redisNode struct {
	client *redis.Client
	turn   sync.Mutex // one request at a time, or the bytes could not be told apart
	wrote  atomic.Int64
	read   atomic.Int64

	is  about  // its id is that of this start of the server
	pid string // as the server sees it
}

// The modes of a server, which it must be in to serve as what it is wanted for.
const (
	alone     = "" // a master by itself
	clustered = "cluster"
	watcher   = "sentinel"
	follower  = "replica"
)

// connectRedis connects to all that e names, and looks at what answers.
func connectRedis(ctx context.Context, e lock.Endpoint) (n node, err error) {
	switch e.Topology() {
	case lock.Cluster:
		n, err = joinCluster(ctx, e)
	case lock.Sentinel:
		n, err = askSentinels(ctx, e)
	default:
		n, err = connectNode(ctx, e, alone)
	}
	if err != nil {
		return nil, err // n is not nil: it has a type
	}
	return n, nil
}

// connectNode connects to one server, which is to be in that mode.
func connectNode(ctx context.Context, e lock.Endpoint, mode string) (*redisNode, error) {
	o, err := parseRedis(e)
	if err != nil {
		return nil, err
	}
	if err := probe(ctx, o); err != nil {
		return nil, err
	}
	n := &redisNode{}
	n.client = redis.NewClient(&redis.Options{
		Addr: o.Addr, Username: o.Username, Password: o.Password, DB: o.DB,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := dial(ctx, o)
			if err != nil {
				return nil, dialError(o.Addr, o.TLSConfig != nil, err)
			}
			return counted{c, n}, nil
		},
		PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience,
		ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	if err := n.look(ctx, mode); err != nil {
		_ = n.client.Close()
		return nil, refusal(o, err)
	}
	return n, nil
}

// counted counts the bytes of the administrator's own connection.
type counted struct {
	net.Conn
	n *redisNode
}

func (c counted) Read(b []byte) (int, error) {
	k, err := c.Conn.Read(b)
	c.n.read.Add(int64(k))
	return k, err
}

func (c counted) Write(b []byte) (int, error) {
	k, err := c.Conn.Write(b)
	c.n.wrote.Add(int64(k))
	return k, err
}

// refusal turns a server's refusal into one line that says what to do.
func refusal(o *redis.Options, err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "NOAUTH"):
		return fmt.Errorf("%s wants a password: give it in the URL, redis://user:password@host:port", o.Addr)
	case strings.Contains(text, "WRONGPASS"), strings.Contains(text, "invalid password"), strings.Contains(text, "without any password"):
		return fmt.Errorf("%s refused the user or the password in the URL", o.Addr)
	case strings.Contains(text, "NOPERM"):
		return fmt.Errorf("%s does not let this user run INFO: grant +info +ping", o.Addr)
	case strings.Contains(text, "DENIED"):
		return fmt.Errorf("%s runs in protected mode and accepts only clients on its own machine", o.Addr)
	case strings.Contains(text, "DB index"):
		return fmt.Errorf("%s has no database %d", o.Addr, o.DB)
	}
	return fmt.Errorf("%s: %w", o.Addr, err)
}

// look learns product, version and settings of a server that is to be in mode.
func (n *redisNode) look(ctx context.Context, mode string) error {
	text, err := n.client.Info(ctx, "all").Result()
	if err != nil {
		if strings.Contains(err.Error(), "section (all) is not supported") {
			return n.lookEmbedded(ctx)
		}
		return err
	}
	info := parseInfo(text)
	n.is = about{product: "redis", version: info["redis_version"], speaks: info["redis_version"], id: info["run_id"]}
	for _, fork := range []string{"valkey", "dragonfly"} {
		if v := info[fork+"_version"]; v != "" {
			n.is.product, n.is.version = fork, v
		}
	}
	n.pid = info["process_id"]
	switch is := cmp.Or(info["redis_mode"], info["server_mode"]); { // the second is Valkey's
	case is == clustered && mode == alone:
		return errors.New("it is a node of a cluster: give its address as redis+cluster://HOST:PORT")
	case is == watcher && mode == alone:
		return errors.New("it is a sentinel: give its address as redis+sentinel://HOST:PORT/NAME, with the name of the master")
	case (mode == clustered || mode == watcher) && is != mode:
		return fmt.Errorf("it runs in %s mode, and a %s is needed", is, mode)
	case is != "" && is != "standalone" && is != mode:
		return fmt.Errorf("it runs in %s mode, and a standalone server is needed", is)
	case info["role"] == "slave" && mode != follower:
		return errors.New("it is a replica, which takes no locks: give the address of its master")
	}
	n.is.options = n.settings(ctx, info)
	n.is.durable = redisDurable(n.is.options)
	n.is.evicts = evicting(info)
	return nil
}

func (n *redisNode) about() about { return n.is }

// settings lists what decides how fast and how durable the server is, as it
// says itself. A server may refuse CONFIG; INFO knows less.
func (n *redisNode) settings(ctx context.Context, info map[string]string) string {
	var list []string
	for _, name := range []string{"save", "appendonly", "appendfsync", "io-threads", "maxmemory-policy"} {
		m, err := n.client.ConfigGet(ctx, name).Result()
		v, ok := m[name]
		switch {
		case err == nil && ok && v == "":
			list = append(list, name+" ''")
		case err == nil && ok && strings.Contains(v, " "):
			list = append(list, name+" '"+v+"'")
		case err == nil && ok:
			list = append(list, name+" "+v)
		case name == "appendonly" && info["aof_enabled"] == "0":
			list = append(list, "appendonly no")
		case name == "appendonly" && info["aof_enabled"] == "1":
			list = append(list, "appendonly yes")
		case name == "maxmemory-policy" && info["maxmemory_policy"] != "":
			list = append(list, name+" "+info["maxmemory_policy"])
		}
	}
	return strings.Join(list, " ")
}

// redisDurable says what of its keys outlives a server with these settings.
func redisDurable(options string) string {
	switch {
	case strings.Contains(options, "appendonly yes appendfsync always"):
		return "each write, on disk"
	case strings.Contains(options, "appendonly yes"):
		return "writes, on disk within a second"
	case strings.Contains(options, "appendonly no") && strings.Contains(options, "save ''"):
		return KeepsNothing
	case strings.Contains(options, "save "):
		return "snapshots, minutes old"
	}
	return "" // it did not let us ask
}

// parseInfo reads the "name:value" lines of INFO.
func parseInfo(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && !strings.HasPrefix(k, "#") {
			m[k] = v
		}
	}
	return m
}

// has reports whether the server knows feature: a command ("GETEX"), a
// subcommand or an option of one ("CLIENT TRACKING", "SET IFEQ"), a module, or
// "compare-and-delete", which is a command of different names.
func (n *redisNode) has(ctx context.Context, feature string) (bool, error) {
	if feature == "compare-and-delete" {
		for _, name := range []string{"DELEX", "DELIFEQ", "CAD"} { // Redis 8.4, Valkey 9, Tair
			if ok, err := n.has(ctx, name); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
	words := strings.Fields(strings.ToLower(feature))
	if len(words) == 0 {
		return true, nil
	}
	n.turn.Lock()
	defer n.turn.Unlock()
	known, err := n.client.Do(ctx, "COMMAND", "INFO", words[0]).Slice()
	if err == nil && len(known) == 1 && known[0] != nil {
		if len(words) == 1 {
			return true, nil
		}
		// Since Redis 7 the server documents subcommands and options.
		docs, err := n.client.Do(ctx, "COMMAND", "DOCS", words[0]).Result()
		return err == nil && mentions(docs, words[0], words[1]), nil
	}
	if err != nil && !errors.Is(err, redis.Nil) && !isReply(err) {
		return false, err
	}
	if len(words) > 1 {
		return false, nil
	}
	modules, err := n.client.Do(ctx, "MODULE", "LIST").Result()
	return err == nil && mentions(modules, "", words[0]), nil
}

// isReply reports whether err is what the server said, and not a failure to
// ask it.
func isReply(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

// mentions looks for word, or command|word, as a whole string anywhere in a
// nested reply.
func mentions(reply any, command, word string) bool {
	switch r := reply.(type) {
	case string:
		return strings.EqualFold(r, word) || strings.EqualFold(r, command+"|"+word)
	case []any:
		for _, x := range r {
			if mentions(x, command, word) {
				return true
			}
		}
	case map[any]any:
		for k, x := range r {
			if mentions(k, command, word) || mentions(x, command, word) {
				return true
			}
		}
	}
	return false
}

// usage reads the server's own statistics. INFO and PING are left out of the
// commands, because only this package sends them; and of the bytes those on
// our connection.
func (n *redisNode) usage(ctx context.Context) (Usage, error) {
	u := untold()
	if n.is.product == "miniredis" {
		return u, nil
	}
	n.turn.Lock()
	defer n.turn.Unlock()
	// When the server answers, it has counted our request, but not its answer.
	before := n.read.Load()
	text, err := n.client.Info(ctx, "all").Result()
	if err != nil {
		return u, err
	}
	own := float64(before + n.wrote.Load())
	info := parseInfo(text)
	for k, v := range info {
		name, ok := strings.CutPrefix(k, "cmdstat_")
		if !ok {
			continue
		}
		if math.IsNaN(u.Cmds) {
			u.Cmds = 0
		}
		if name == "info" || name == "ping" {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(v, "calls="), ",")
		if c, err := strconv.ParseFloat(calls, 64); err == nil {
			u.Cmds += c
		}
	}
	u.NetBytes = number(info, "total_net_input_bytes") + number(info, "total_net_output_bytes") - own
	u.CPU = 1e9 * (number(info, "used_cpu_sys") + number(info, "used_cpu_user"))
	u.Kept = number(info, "used_memory")
	return u, nil
}

// number is the value of name, NaN if there is none.
func number(info map[string]string, name string) float64 {
	v, err := strconv.ParseFloat(info[name], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func (n *redisNode) rtt(ctx context.Context, count int) ([]time.Duration, error) {
	n.turn.Lock()
	defer n.turn.Unlock()
	// The first ones dial and fill caches on both sides.
	for range 10 {
		if err := n.client.Ping(ctx).Err(); err != nil {
			return nil, err
		}
	}
	list := make([]time.Duration, 0, max(count, 0))
	for range count {
		start := time.Now()
		err := n.client.Ping(ctx).Err()
		d := time.Since(start)
		if err != nil {
			return list, err
		}
		list = append(list, d)
	}
	return list, nil
}

// batch is how many keys one UNLINK names: enough to save round trips, too few
// to hold up the other clients.
const batch = 500

func (n *redisNode) remove(ctx context.Context, names []string) (int, error) {
	n.turn.Lock()
	defer n.turn.Unlock()
	sum := 0
	for len(names) > 0 {
		k := min(batch, len(names))
		gone, err := n.client.Unlink(ctx, names[:k]...).Result()
		sum += int(gone)
		if err != nil {
			return sum, err
		}
		names = names[k:]
	}
	return sum, nil
}

func (n *redisNode) close() error { return n.client.Close() }
