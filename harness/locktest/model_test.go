package locktest

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A bug is one way in which a client of the model service is broken; "" is
// sound. Its text stands in mutants_test.go only, where the case that must
// catch it stands beside it.
type bug string

// kind is which of the model's clients a variant opens.
type kind int

const (
	fixed   kind = iota // leases that end, and can be extended
	renewed             // leases that are kept alive
	rich                // readers, several keys, re-entry and conditions
	line                // first come, first served
)

// model is a variant of a sound client, with one bug put in.
func model(k kind, b bug) lock.Variant {
	v := lock.Variant{Algo: "model", Needs: lock.Needs{Kind: "model"}, Unsafe: lock.Pause}
	switch k {
	case fixed:
		v.Caps = lock.Try | lock.Fencing | lock.Extend
	case renewed:
		v.Caps = lock.Try | lock.Fencing | lock.Renew
	case rich:
		v.Caps = lock.Try | lock.Fencing | lock.Extend | lock.Shared | lock.Multi | lock.Reentrant | lock.Cond
	case line:
		v.Caps = lock.Try | lock.Fencing | lock.Extend | lock.Fair
	}
	if b == "leaves more names" {
		v.Keys = func(key string) []string { return []string{key} }
	}
	var shared sync.Map // of the bugs that reach from one client into another
	v.Open = func(_ context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		u, err := url.Parse(d.Nodes[0].Reveal())
		if err != nil {
			return nil, err
		}
		if b == "ttl is taken for seconds" {
			c.TTL *= 1000
		}
		if b == "another default" && c.TTL == 0 {
			c.TTL = time.Minute
		}
		if c, err = c.Checked(lock.MaxTTL); err != nil && b != "takes any ttl" {
			return nil, err
		}
		m := &modelLocker{kind: k, bug: b, c: c, addr: u.Host, shared: &shared, closed: make(chan struct{})}
		n := m.c.Conns
		if n == 0 {
			n = 8
		}
		if b == "too many connections" {
			n += 3
		}
		if k == line {
			m.c.Retry.Max = m.c.Retry.Delay // everybody waits for the poll of the one at the head
		}
		m.slots = make(chan *modelConn, n)
		for range n {
			m.slots <- nil
		}
		if b == "opens lazily" {
			return m.as(), nil
		}
		if _, err := m.ask(request{Op: "ping"}); err != nil {
			switch b {
			case "repeats the password":
				return nil, fmt.Errorf("dial %s: %w", d.Nodes[0].Reveal(), err)
			case "two lines":
				return nil, fmt.Errorf("dial %s:\n%w", u.Host, err)
			case "names no address":
				return nil, errors.New("cannot connect")
			}
			return nil, fmt.Errorf("dial %s: %w", u.Host, err)
		}
		return m.as(), nil
	}
	return v
}

// modelLocker is a client with a pool of connections.
type modelLocker struct {
	kind   kind
	bug    bug
	c      lock.Config
	addr   string
	slots  chan *modelConn
	keep   lock.Keeper
	shared *sync.Map
	last   atomic.Uint64
	once   sync.Once
	closed chan struct{}
}

type modelConn struct {
	net.Conn
	in  *gob.Decoder
	out *gob.Encoder
}

var errClosed = errors.New("model: closed")

func (m *modelLocker) as() lock.Locker {
	if m.kind == rich {
		return richLocker{m}
	}
	return m
}

// ask sends one command. The error wraps ErrUncertain if it may have run.
func (m *modelLocker) ask(q request) (answer, error) {
	tries := 1
	if m.bug == "sends again" {
		tries = 3
	}
	for {
		a, err := m.askOnce(q)
		if tries--; err == nil || tries == 0 || errors.Is(err, errClosed) {
			return a, err
		}
	}
}

func (m *modelLocker) askOnce(q request) (a answer, err error) {
	var c *modelConn
	select {
	case <-m.closed:
		if m.bug != "works after close" {
			return a, errClosed
		}
	default:
	}
	c = <-m.slots
	defer func() { m.slots <- c }()
	select {
	case <-m.closed:
		if m.bug != "works after close" {
			return a, errClosed
		}
	default:
	}
	m.c.Count.Cmd()
	if c == nil {
		raw, err := net.DialTimeout("tcp", m.addr, m.c.Timeout)
		if err != nil {
			return a, err
		}
		c = &modelConn{Conn: raw, in: gob.NewDecoder(raw), out: gob.NewEncoder(raw)}
	}
	_ = c.SetDeadline(time.Now().Add(m.c.Timeout))
	if err = c.out.Encode(q); err == nil {
		err = c.in.Decode(&a)
	}
	if err == nil {
		return a, nil
	}
	_ = c.Close()
	c = nil
	if m.bug == "certain" {
		return a, err
	}
	return a, fmt.Errorf("%w: %w", lock.ErrUncertain, err)
}

func (m *modelLocker) Close() error {
	m.once.Do(func() {
		switch m.bug {
		case "close releases":
			m.shared.Range(func(k, _ any) bool {
				_, _ = m.ask(request{Op: "free", Keys: []string{k.(string)}, Blind: true})
				return true
			})
		case "close closes the others":
			if other, ok := m.shared.Load("holder"); ok && other != m {
				_ = other.(*modelLocker).Close()
			}
		}
		m.keep.Close()
		close(m.closed)
		if m.bug == "leaks a connection" {
			return
		}
		for range cap(m.slots) {
			if c := <-m.slots; c != nil {
				_ = c.Close()
			}
			m.slots <- nil
		}
	})
	return nil
}

// owners numbers all owners of the process: the address of a client may be that
// of one which is gone, whose owners the service remembers.
var owners atomic.Uint64

func (m *modelLocker) owner() string { return fmt.Sprintf("%p-%d", m, owners.Add(1)) }

func (m *modelLocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	return m.acquire(ctx, m.c, request{Keys: []string{key}, Owner: m.owner()})
}

func (m *modelLocker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	c := m.c
	c.Retry.Limit = 1
	switch m.bug {
	case "try waits":
		c.Retry.Limit = 0
	case "try knows no ErrHeld":
		lease, err := m.acquire(ctx, c, request{Keys: []string{key}, Owner: m.owner()})
		if errors.Is(err, lock.ErrHeld) {
			err = errors.New("held")
		}
		return lease, err
	}
	return m.acquire(ctx, c, request{Keys: []string{key}, Owner: m.owner()})
}

// acquire polls with q, which names the keys and the owner.
func (m *modelLocker) acquire(ctx context.Context, c lock.Config, q request) (lock.Lease, error) {
	q.Op, q.TTL, q.began = "take", c.TTL, time.Now()
	if m.kind == line && m.bug != "grants in any order" && c.Retry.Limit == 0 {
		q.Op = "line"
	}
	switch m.bug {
	case "excludes nobody":
		q.Blind = true
	case "no ttl", "dies midway":
		q.TTL = 0
	case "short ttl":
		q.TTL /= 3
	case "trims the key":
		q.Keys = []string{strings.TrimSpace(q.Keys[0])}
	case "cuts the key":
		q.Keys = []string{q.Keys[0][:min(len(q.Keys[0]), 200)]}
	case "no limit":
		c.Retry.Limit = 0
	case "owner is the process":
		q.Owner = fmt.Sprintf("%p", m)
	case "close closes the others":
		m.shared.LoadOrStore("holder", m)
	case "close releases":
		m.shared.Store(q.Keys[0], true)
	}
	if m.bug == "leaves more names" {
		_, _ = m.ask(request{Op: "take", Keys: []string{q.Keys[0] + ":queue"}, Owner: "queue"})
	}
	if m.bug == "leaks goroutines" {
		go func() { <-make(chan struct{}) }()
	}
	if m.bug == "takes before it looks" {
		a, err := m.ask(q)
		if err == nil && a.OK && ctx.Err() == nil {
			return m.lease(q, a, time.Now()), nil
		}
	}
	if m.bug == "counts nothing" {
		c.Count = nil
	}
	life := ctx
	if m.bug == "ignores ctx" {
		ctx = context.WithoutCancel(ctx)
	}
	var lease lock.Lease
	err := lock.Poll(ctx, c, func(ctx context.Context) (bool, error) {
		var err error
		lease, err = m.attempt(ctx, q)
		return lease != nil, err
	})
	if err == nil {
		if m.bug == "lease ends with ctx" {
			context.AfterFunc(life, func() { _, _ = m.ask(request{Op: "free", Keys: q.Keys, Owner: q.Owner}) })
		}
		return lease, nil
	}
	if q.Op == "line" && !errors.Is(err, errClosed) {
		_, _ = m.ask(request{Op: "leave", Keys: q.Keys, Owner: q.Owner})
	}
	switch m.bug {
	case "stays in the queue":
		go func() {
			for {
				if a, err := m.ask(q); err != nil || a.OK {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
	case "hides the error of ctx":
		return nil, errors.New("gave up")
	case "lease and error":
		return m.lease(q, answer{}, time.Now()), err
	}
	return nil, err
}

// attempt tries once.
func (m *modelLocker) attempt(ctx context.Context, q request) (lock.Lease, error) {
	if err := m.c.Step(ctx, "before-take"); err != nil {
		return nil, err
	}
	sent := time.Now()
	if m.bug == "takes over by its own clock" || m.bug == "two take over" {
		if lease, err := m.optimistic(ctx, q); lease != nil || err != nil {
			return lease, err
		}
		return nil, nil
	}
	a, err := m.ask(q)
	if errors.Is(err, errClosed) && m.bug == "waits on after close" {
		return nil, nil
	}
	if err != nil || !a.OK {
		return nil, err
	}
	if err := m.c.Step(ctx, "after-take"); err != nil && m.bug != "ignores the hook" {
		return nil, err
	}
	if m.bug == "dies midway" {
		if _, err := m.ask(request{Op: "renew", Keys: q.Keys, Owner: q.Owner, TTL: m.c.TTL}); err != nil {
			return nil, err
		}
	}
	switch m.bug {
	case "counts the deadline from the answer":
		sent = time.Now()
	case "lease begins with the wait":
		sent = q.began
	}
	return m.lease(q, a, sent), nil
}

// optimistic stores the client's own deadline and takes over what has passed.
func (m *modelLocker) optimistic(ctx context.Context, q request) (lock.Lease, error) {
	sent := time.Now()
	at := m.c.Now().Add(m.c.TTL)
	q.TTL, q.Value = 0, strconv.FormatInt(at.UnixNano(), 10)
	a, err := m.ask(q)
	if err != nil {
		return nil, err
	}
	if !a.OK {
		seen, err := m.ask(request{Op: "look", Keys: q.Keys})
		if err != nil || !seen.OK {
			return nil, err
		}
		if err := m.c.Step(ctx, "after-look"); err != nil {
			return nil, err
		}
		if ns, _ := strconv.ParseInt(seen.Value, 10, 64); m.c.Now().UnixNano() < ns {
			return nil, nil
		}
		// The one frees whatever is there by now, the other only what it saw.
		free := request{Op: "free", Keys: q.Keys, Owner: seen.Owner, Blind: m.bug == "two take over"}
		if _, err := m.ask(free); err != nil {
			return nil, err
		}
		if a, err = m.ask(q); err != nil || !a.OK {
			return nil, err
		}
	}
	return m.lease(q, a, sent), nil
}
