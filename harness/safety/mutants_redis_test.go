package safety_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	goredislib "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/wire"
	"github.com/lockbench/lockbench/impls/zookeeper"
)

// A seeded is a small lock on one Redis, sound if flaw is "". Its kind says which; a
// flaw changes one thing of it.
type seeded struct {
	kind, flaw string
	c          lock.Config
	conn       wire.Conn
	db         goredislib.UniversalClient
	id         string        // of the client
	grants     atomic.Uint64 // of the client
}

// kinds are the sound locks, by what they can do.
func kinds() map[string]lock.Caps {
	return map[string]lock.Caps{
		"leased":  lock.Try | lock.Fencing,              // SET NX PX, and freed by its owner alone
		"renewed": lock.Try | lock.Fencing | lock.Renew, // leased, and renewed while held
		"endless": lock.Try | lock.Reentrant,            // a count of holds, without a lease
		"stamped": lock.Try,                             // an instant at which it ends, taken over by GETSET
		"shared":  lock.Try | lock.Shared,               // leased, with readers
		"queued":  lock.Try | lock.Fair,                 // leased, in the order of arrival

		"etcd":     lock.Try | lock.Fencing,                                        // a key with a lease
		"advisory": lock.Try,                                                       // held by a connection to PostgreSQL
		"quorum":   lock.Try,                                                       // leased, on a majority of servers
		"znodes":   lock.Try | lock.Fencing | lock.Fair | lock.Notify | lock.Renew, // a queue of ephemeral nodes
	}
}

func seededVariant(kind, flaw string) lock.Variant {
	algo := "seeded-" + kind
	if flaw != "" {
		algo += ": " + flaw
	}
	v := lock.Variant{Algo: algo, Doc: "A lock to test the tester with.", Caps: kinds()[kind]}
	switch kind {
	case "etcd":
		v.Needs.Kind, v.Open = "etcd", openEtcd(flaw)
		return v
	case "advisory":
		v.Needs.Kind, v.Open, v.Keys = "postgresql", openAdvisory(flaw), func(string) []string { return nil }
		return v
	case "quorum":
		v.Needs, v.Open = lock.Needs{Kind: "redis", Nodes: 5}, openQuorum(flaw)
		v.Keys = func(key string) []string { return []string{key, key + ":fence"} }
		return v
	case "znodes":
		v.Needs.Kind, v.Open, v.Keys, v.Frees = "zookeeper", openZnodes(flaw), zookeeper.Keys, lock.BySession
		return v
	}
	return lock.Variant{
		Algo: algo, Doc: v.Doc, Caps: kinds()[kind], Needs: lock.Needs{Kind: "redis"},
		Keys: func(key string) []string {
			return []string{key, key + ":fence", key + ":readers", key + ":queue", key + ":alive"}
		},
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			conn, err := goredis.Dial(ctx, d.Nodes[0], c.Filled())
			if err != nil {
				return nil, err
			}
			return &seeded{kind: kind, flaw: flaw, c: c.Filled(), conn: conn, db: goredis.Library(conn), id: rand.Text()}, nil
		},
	}
}

func (s *seeded) Close() error { return s.conn.Close() }

func (s *seeded) owner() string {
	switch s.flaw {
	case "one owner for all":
		return "owner"
	case "owners counted in each process":
		return strconv.FormatUint(s.grants.Add(1), 10)
	case "owner is the process":
		return s.id
	}
	return rand.Text()
}

func (s *seeded) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	if s.flaw == "waits for the message alone" {
		return s.await(ctx, key)
	}
	return s.wait(ctx, s.c, key, s.owner(), false)
}

func (s *seeded) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return s.wait(ctx, s.c.Once(), key, s.owner(), false)
}

func (s *seeded) AcquireShared(ctx context.Context, key string) (lock.Lease, error) {
	return s.wait(ctx, s.c, key, s.owner(), true)
}

func (s *seeded) AcquireAs(ctx context.Context, key, owner string) (lock.Lease, error) {
	return s.wait(ctx, s.c, key, owner, false)
}

func (s *seeded) wait(ctx context.Context, c lock.Config, key, owner string, shared bool) (lock.Lease, error) {
	return lock.Wait{Config: c}.Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		return s.try(ctx, key, owner, shared)
	})
}

// await tries again only when a Release has sent a message.
func (s *seeded) await(ctx context.Context, key string) (lock.Lease, error) {
	messages := s.db.Subscribe(ctx, key)
	defer func() { _ = messages.Close() }()
	if _, err := messages.Receive(ctx); err != nil {
		return nil, err
	}
	owner, heard := s.owner(), messages.Channel()
	for {
		l, err := s.try(ctx, key, owner, false)
		if err != nil || l != nil {
			return l, err
		}
		select {
		case <-heard:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// run sends one script between two steps that have its name.
func (s *seeded) run(ctx context.Context, step, script, key string, args ...any) (int64, error) {
	return s.stepped(ctx, step, func() (int64, error) { return s.eval(ctx, script, key, args...) })
}

func (s *seeded) stepped(ctx context.Context, step string, f func() (int64, error)) (int64, error) {
	if err := s.c.Step(ctx, step); err != nil {
		return 0, err
	}
	n, err := f()
	if err != nil {
		return 0, err
	}
	return n, s.c.Step(ctx, "after-"+step)
}

func (s *seeded) eval(ctx context.Context, script, key string, args ...any) (int64, error) {
	keys := []string{key, key + ":fence", key + ":readers", key + ":queue", key + ":alive"}
	n, err := s.db.Eval(ctx, script, keys, args...).Int64()
	if errors.Is(err, goredislib.Nil) {
		return 0, nil
	}
	return n, err
}

// The scripts are those of the sound locks. ARGV is the owner and the lease in ms.
const (
	now = `local t = redis.call('time') local now = t[1] * 1000 + math.floor(t[2] / 1000) `

	takeLeased = `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('incr', KEYS[2]) end return 0`
	freeLeased = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('publish', KEYS[1], '') return redis.call('del', KEYS[1]) end return 0`
	renewOwn   = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`

	takeEndless = `if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call('hincrby', KEYS[1], ARGV[1], 1)`
	freeEndless = `if redis.call('hincrby', KEYS[1], ARGV[1], -1) <= 0 then redis.call('del', KEYS[1]) end return 1`

	purgeReaders = now + `redis.call('zremrangebyscore', KEYS[3], '-inf', now) `
	takeShared   = purgeReaders + `if redis.call('exists', KEYS[1]) == 1 then return 0 end redis.call('pexpire', KEYS[3], ARGV[2]) redis.call('zadd', KEYS[3], now + ARGV[2], ARGV[1]) return 1`
	takeAlone    = purgeReaders + `if redis.call('zcard', KEYS[3]) > 0 then return 0 end if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0`
	freeShared   = `return redis.call('zrem', KEYS[3], ARGV[1])`

	joinQueue = now + `if not redis.call('zscore', KEYS[5], ARGV[1]) then redis.call('rpush', KEYS[4], ARGV[1]) end redis.call('zadd', KEYS[5], now + ARGV[2], ARGV[1]) `
	purgeDead = `local h = redis.call('lindex', KEYS[4], 0) while h do local e = redis.call('zscore', KEYS[5], h) if e and tonumber(e) > now then break end redis.call('zrem', KEYS[5], h) redis.call('lpop', KEYS[4]) h = redis.call('lindex', KEYS[4], 0) end `
	takeHead  = `if redis.call('lindex', KEYS[4], 0) == ARGV[1] and redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then redis.call('lpop', KEYS[4]) redis.call('zrem', KEYS[5], ARGV[1]) return 1 end return 0`
)

// takes are the scripts of flaws that take the key by another script.
func takes() map[string]string {
	return map[string]string{
		"no NX":                          `redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return redis.call('incr', KEYS[2])`,
		"answer of SET NX ignored":       `redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) return redis.call('incr', KEYS[2])`,
		"seconds for milliseconds":       `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return redis.call('incr', KEYS[2]) end return 0`,
		"milliseconds for seconds":       `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', math.floor(ARGV[2] / 1000)) then return redis.call('incr', KEYS[2]) end return 0`,
		"no TTL":                         `if redis.call('set', KEYS[1], ARGV[1], 'NX') then return redis.call('incr', KEYS[2]) end return 0`,
		"owner is the process":           `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('incr', KEYS[2]) end ` + takeLeased,
		"tokens end with the lease":      `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then local n = redis.call('incr', KEYS[2]) redis.call('pexpire', KEYS[2], ARGV[2]) return n end return 0`,
		"holds of others not looked at":  `return redis.call('hincrby', KEYS[1], ARGV[1], 1)`,
		"holds not counted":              `if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end redis.call('hset', KEYS[1], ARGV[1], 1) return 1`,
		"owner cannot re-enter":          `if redis.call('exists', KEYS[1]) == 1 then return 0 end return redis.call('hincrby', KEYS[1], ARGV[1], 1)`,
		"writer ignores readers":         takeLeased,
		"dead waiters stay in the queue": joinQueue + takeHead,
		"tokens grow by ten":             `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('incrby', KEYS[2], 10) end return 0`,
		"waiters ask twice":              `if redis.call('exists', KEYS[1]) == 1 then return 0 end ` + takeLeased,
		"refusals taken for grants":      `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 2`,
	}
}

func (s *seeded) try(ctx context.Context, key, owner string, shared bool) (lock.Lease, error) {
	l := &seededLease{s: s, key: key, owner: owner, shared: shared}
	sent := time.Now()
	n, err := s.take(ctx, key, owner, shared, l)
	if err != nil || n == 0 {
		return nil, err
	}
	l.token = uint64(n)
	switch s.flaw {
	case "one token for all":
		l.token = 7
	case "tokens counted in each process":
		l.token = s.grants.Add(1)
	case "deadline counted from the answer":
		sent = time.Now()
	}
	if s.kind != "endless" {
		l.deadline.Store(new(sent.Add(s.c.TTL)))
	}
	if s.kind == "renewed" && s.flaw != "no renewal" {
		l.lost, l.stop, l.stopped = make(chan struct{}), make(chan struct{}), make(chan struct{})
		go l.renew(context.WithoutCancel(ctx))
	}
	return l, nil
}

func (s *seeded) take(ctx context.Context, key, owner string, shared bool, l *seededLease) (int64, error) {
	ms := s.c.TTL.Milliseconds()
	if s.kind == "stamped" {
		return s.takeStamped(ctx, key, l)
	}
	switch s.flaw {
	case "EXISTS, then SET":
		if n, err := s.run(ctx, "exists", `return redis.call('exists', KEYS[1])`, key); err != nil || n == 1 {
			return 0, err
		}
		return s.run(ctx, "set", takes()["no NX"], key, owner, ms)
	case "SETNX, then EXPIRE":
		if n, err := s.run(ctx, "setnx", takes()["no TTL"], key, owner, ms); err != nil || n == 0 {
			return 0, err
		}
		return s.run(ctx, "expire", `return redis.call('pexpire', KEYS[1], ARGV[2])`, key, owner, ms)
	}
	script := map[string]string{
		"leased": takeLeased, "renewed": takeLeased, "endless": takeEndless, "shared": takeAlone,
		"queued": joinQueue + purgeDead + takeHead,
	}[s.kind]
	if other := takes()[s.flaw]; other != "" {
		script = other
	}
	if shared {
		script = takeShared
		if s.flaw == "reader ignores writer" {
			script = `redis.call('zadd', KEYS[3], 'inf', ARGV[1]) return 1`
		}
	}
	return s.run(ctx, "set", script, key, owner, ms)
}

// takeStamped stores the instant at which the lease ends, and takes the key over by GETSET
// when that has passed.
func (s *seeded) takeStamped(ctx context.Context, key string, l *seededLease) (int64, error) {
	now, err := s.db.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	if s.flaw == "clock of the client" {
		now = s.c.Now()
	}
	end := strconv.FormatInt(now.Add(s.c.TTL).UnixMicro(), 10)
	l.owner = end
	if n, err := s.run(ctx, "setnx", `return redis.call('setnx', KEYS[1], ARGV[1])`, key, end); err != nil || n == 1 {
		return n, err
	}
	seen, err := s.stepped(ctx, "get", func() (int64, error) { return zeroIfNil(s.db.Get(ctx, key).Int64()) })
	if err != nil || seen == 0 || seen > now.UnixMicro() {
		return 0, err
	}
	if s.flaw == "DEL of a dead lock, then SETNX" {
		if _, err := s.run(ctx, "del", `return redis.call('del', KEYS[1])`, key); err != nil {
			return 0, err
		}
		return s.run(ctx, "setnx-again", `return redis.call('setnx', KEYS[1], ARGV[1])`, key, end)
	}
	old, err := s.stepped(ctx, "getset", func() (int64, error) { return zeroIfNil(s.db.GetSet(ctx, key, end).Int64()) })
	if err != nil || old != seen && s.flaw != "result of GETSET ignored" {
		return 0, err
	}
	return 1, nil
}

func zeroIfNil(n int64, err error) (int64, error) {
	if errors.Is(err, goredislib.Nil) {
		return 0, nil
	}
	return n, err
}

type seededLease struct {
	s                   *seeded
	key, owner          string
	shared              bool
	token               uint64
	deadline            atomic.Pointer[time.Time]
	lost, stop, stopped chan struct{}
}

func (l *seededLease) Token() uint64 { return l.token }

func (l *seededLease) Lost() <-chan struct{} {
	if l.s.flaw == "neither deadline nor Lost" {
		return nil
	}
	return l.lost
}

func (l *seededLease) Deadline() time.Time {
	if at := l.deadline.Load(); at != nil && l.s.flaw != "neither deadline nor Lost" {
		return *at
	}
	return time.Time{}
}

// renew renews the lease until Release, or until it is another's.
func (l *seededLease) renew(ctx context.Context) {
	defer close(l.stopped)
	script := renewOwn
	switch l.s.flaw {
	case "renewal by anybody":
		script = `return redis.call('pexpire', KEYS[1], ARGV[2])`
	case "renewal by SET":
		script = `redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1`
	case "renewal in seconds":
		script = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('expire', KEYS[1], ARGV[2]) end return 0`
	case "renewal to a thousandth":
		script = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], math.floor(ARGV[2] / 1000)) end return 0`
	}
	tick := time.NewTicker(l.s.c.Renew)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		sent := time.Now()
		if l.s.flaw == "deadline moved without an answer" {
			l.deadline.Store(new(sent.Add(l.s.c.TTL)))
			go func() { _, _ = l.s.eval(ctx, script, l.key, l.owner, l.s.c.TTL.Milliseconds()) }()
			continue
		}
		n, err := l.s.run(ctx, "renew", script, l.key, l.owner, l.s.c.TTL.Milliseconds())
		if err == nil && n == 0 {
			close(l.lost)
			return
		}
		if err == nil {
			l.deadline.Store(new(sent.Add(l.s.c.TTL)))
		}
	}
}

func (l *seededLease) Release(ctx context.Context) error {
	if l.stop != nil && l.s.flaw != "renewal outlasts Release, which frees nothing" {
		close(l.stop)
		<-l.stopped
	}
	script := freeLeased
	if l.s.kind == "endless" {
		script = freeEndless
	}
	if l.shared {
		script = freeShared
	}
	switch l.s.flaw {
	case "plain DEL":
		script = `return redis.call('del', KEYS[1])`
	case "DEL of another key":
		script = `return redis.call('del', KEYS[1] .. ':lock')`
	case "no DEL", "renewal outlasts Release, which frees nothing":
		script = `return 1`
	case "holds not counted down":
		script = `return redis.call('hget', KEYS[1], ARGV[1])`
	case "first Release frees all holds":
		script = `return redis.call('del', KEYS[1])`
	case "GET, compare, DEL":
		mine, err := l.s.run(ctx, "get", `if redis.call('get', KEYS[1]) == ARGV[1] then return 1 end return 0`, l.key, l.owner)
		if err != nil || mine == 0 {
			return errors.Join(err, lock.ErrLost)
		}
		script = `return redis.call('del', KEYS[1])`
	}
	n, err := l.s.run(ctx, "release", script, l.key, l.owner)
	if err == nil && n == 0 {
		err = lock.ErrLost
	}
	return err
}
