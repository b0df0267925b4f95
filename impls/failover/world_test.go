package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A world is an engine or an authority in memory that can fail, as its clients see it.
type world struct {
	mu    sync.Mutex
	fails func(client int) error // nil while it works; waits if it hangs
	held  map[string]grant
	last  map[string]uint64
	text  map[string]string
	slow  map[int]time.Duration // how late the answers to Read are, by client
}

type grant struct {
	token uint64
	until time.Time
}

var errCut = errors.New("connection refused")

func newWorld() *world {
	return &world{held: map[string]grant{}, last: map[string]uint64{}, text: map[string]string{}}
}

// set makes every client meet err, nil being none.
func (w *world) set(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = func(int) error { return err }
}

// hang makes every command wait for the time-out.
func (w *world) hang(timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = func(int) error {
		time.Sleep(timeout)
		return fmt.Errorf("%w: %w", lock.ErrUncertain, os.ErrDeadlineExceeded)
	}
}

// cut makes the clients whose numbers are listed meet an error.
func (w *world) cut(clients ...int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails = func(client int) error {
		for _, c := range clients {
			if c == client {
				return errCut
			}
		}
		return nil
	}
}

// empty is a restart without the data.
func (w *world) empty() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.held)
	clear(w.last)
	clear(w.text)
}

func (w *world) meet(client int) error {
	w.mu.Lock()
	f := w.fails
	w.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(client)
}

// variant is the lock of w, seen by a client of that number.
func (w *world) variant(caps lock.Caps, client int) lock.Variant {
	return lock.Variant{
		Algo: "world", Caps: caps, Unsafe: lock.Pause | lock.Failover,
		Open: func(_ context.Context, _ lock.Deployment, c lock.Config) (lock.Locker, error) {
			if err := w.meet(client); err != nil {
				return nil, err
			}
			return &visitor{world: w, c: c.Filled(), client: client, closed: make(chan struct{})}, nil
		},
	}
}

type visitor struct {
	world  *world
	c      lock.Config
	client int
	keep   lock.Keeper
	once   sync.Once
	closed chan struct{}
}

func (v *visitor) Close() error {
	v.once.Do(func() { close(v.closed) })
	v.keep.Close()
	return nil
}

func (v *visitor) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	var lease lock.Lease
	err := lock.Poll(ctx, v.c, func(context.Context) (bool, error) {
		var err error
		lease, err = v.ask(key)
		return lease != nil, err
	})
	return lease, err
}

func (v *visitor) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	lease, err := v.ask(key)
	if lease == nil && err == nil {
		return nil, lock.ErrHeld
	}
	return lease, err
}

func (v *visitor) ask(key string) (lock.Lease, error) {
	select {
	case <-v.closed:
		return nil, errors.New("closed")
	default:
	}
	sent := time.Now()
	if err := v.world.meet(v.client); err != nil {
		return nil, err
	}
	w := v.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if g, ok := w.held[key]; ok && time.Now().Before(g.until) {
		return nil, nil
	}
	w.last[key]++
	token := w.last[key]
	w.held[key] = grant{token, time.Now().Add(v.c.TTL)}
	x := stay{visitor: v, key: key, token: token}
	renewed := x // a renewal may come before Keep has returned
	x.Kept = v.keep.Keep(v.c, sent, func(context.Context) error { return renewed.renew() })
	return x, nil
}

// stay is a lease of a world.
type stay struct {
	*lock.Kept
	visitor *visitor
	key     string
	token   uint64
}

func (s stay) Token() uint64 { return s.token }

func (s stay) renew() error {
	w := s.visitor.world
	if err := w.meet(s.visitor.client); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	g, ok := w.held[s.key]
	if !ok || g.token != s.token || !time.Now().Before(g.until) {
		return lock.ErrLost
	}
	w.held[s.key] = grant{s.token, time.Now().Add(s.visitor.c.TTL)}
	return nil
}

func (s stay) Release(context.Context) error {
	kept := s.Stop()
	w := s.visitor.world
	if err := w.meet(s.visitor.client); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	g, ok := w.held[s.key]
	if !ok || g.token != s.token || !time.Now().Before(g.until) {
		return lock.ErrLost
	}
	delete(w.held, s.key)
	if !kept {
		return lock.ErrLost
	}
	return nil
}

// register is w as the authority of a client.
type register struct {
	*world
	client int
}

func (r register) Read(_ context.Context, name string) (string, error) {
	if err := r.meet(r.client); err != nil {
		return "", err
	}
	r.mu.Lock()
	text, late := r.text[name], r.slow[r.client]
	r.mu.Unlock()
	time.Sleep(late)
	return text, nil
}

func (r register) Swap(_ context.Context, name, old, next string) (bool, error) {
	if err := r.meet(r.client); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text[name] != old {
		return false, nil
	}
	r.text[name] = next
	return true, nil
}

func (register) Close() error { return nil }

// A site is three engines, a, b and c, and an authority.
type site struct {
	a, b, c, authority *world
}

func newSite() *site { return &site{newWorld(), newWorld(), newWorld(), newWorld()} }

const (
	all  = lock.Try | lock.Fencing | lock.Renew
	key  = "k"
	ttl  = 4 * time.Second
	rest = ttl + ttl/4 // how long the leases rest on one look
)

// variant is one of the ways to fall back, for a client of that number.
func (s *site) variant(t *testing.T, algo string, client int, h Health) lock.Variant {
	t.Helper()
	authority := Authority{Open: func(context.Context, lock.Deployment, lock.Config) (Register, error) {
		if err := s.authority.meet(client); err != nil {
			return nil, err
		}
		return register{s.authority, client}, nil
	}}
	for _, v := range Variants("", h, authority, Engine{Name: "a", Variant: s.a.variant(all, client)},
		Engine{Name: "b", Variant: s.b.variant(all, client)}, Engine{Name: "c", Variant: s.c.variant(all, client)}) {
		if v.Algo == algo {
			return v
		}
	}
	t.Fatalf("there is no %s", algo)
	return lock.Variant{}
}

// open opens the client of that number, until the end of the test.
func (s *site) open(t *testing.T, algo string, client int) tryer {
	t.Helper()
	return s.openWith(t, algo, client, Health{}, lock.Config{TTL: ttl})
}

func (s *site) openWith(t *testing.T, algo string, client int, h Health, c lock.Config) tryer {
	t.Helper()
	l, err := s.variant(t, algo, client, h).Open(t.Context(), lock.Deployment{}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.(tryer)
}

// mustAcquire takes the key or fails the test; it says how long that took.
func mustAcquire(t *testing.T, l lock.Locker) (lock.Lease, time.Duration) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	lease, err := l.Acquire(ctx, key)
	if err != nil {
		t.Fatalf("Acquire, after %v: %v", time.Since(began), err)
	}
	return lease, time.Since(began)
}

func mustRelease(t *testing.T, lease lock.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func token(lease lock.Lease) uint64 { return lease.(lock.Fenced).Token() }

func isLost(lease lock.Lease) bool {
	select {
	case <-lease.Lost():
		return true
	default:
		return false
	}
}
