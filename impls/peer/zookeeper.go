package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/zookeeper"
)

// zkLockVariant is the Lock of go-zookeeper/zk: the library's own, on the client
// that our locks use, too.
//
// Its own: the recipe of ZooKeeper, with names that Curator knows (_c_GUID-lock-NUMBER).
// It knows no context: a wait that is given up goes on in the background, and gives
// the key back as soon as it is granted. A key is one node below the root, as ours.
//
// Beside what it cannot keep of the contract (see Exempt) it believes a grant without
// looking whether its own node is there. If its session ends between the making of
// the node and the list, the library goes on in a new session, finds nobody before
// it, and has the key beside the next owner. No fault of this suite strikes just there.
func zkLockVariant() lock.Variant {
	return lock.Variant{
		Algo: "peer-zk",
		Doc: "The Lock of the go-zookeeper library: ZooKeeper's recipe without a look at its own node. " +
			"Its wait has no end of its own.",
		Source: "github.com/go-zookeeper/zk, Lock",
		Caps:   lock.Fair | lock.Notify | lock.Renew,
		Needs:  lock.Needs{Kind: "zookeeper"},
		Unsafe: lock.Pause | lock.SessionEnd,
		Frees:  lock.BySession,
		Over:   []lock.Topology{lock.Ensemble},
		Keys:   zookeeper.Keys,
		Exempt: []string{
			// A client is closed by the end of its session, which frees what it holds.
			"lease-lasts",
			// It does not tell when a lease ends, nor that one has ended.
			"lost", "lost-to-next", "guard",
			// A request has no time-out but that of the session, which may be hours.
			"service-dies", "answer-late", "release-answer-lost",
		},
		Open: func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
			c, err := c.Checked(zookeeper.MaxTimeout)
			if err != nil {
				return nil, fmt.Errorf("peer: %w", err)
			}
			return openZK(ctx, d, c)
		},
	}
}

type zkLocker struct {
	c    lock.Config
	root string
	conn *zk.Conn
	done <-chan zk.Event
	dead chan struct{} // closed by Close
	once sync.Once

	mu  sync.Mutex
	now net.Conn
}

// dial remembers the connection, so that Close can end it. The library's own Close
// gives up if its requests are many, and then goes on for as long as the connection
// lasts (conn.go, queueRequest).
func (l *zkLocker) dial(network, addr string, timeout time.Duration) (net.Conn, error) {
	if isDone(l.dead) {
		return nil, net.ErrClosed
	}
	c, err := net.DialTimeout(network, addr, timeout)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = c
	if isDone(l.dead) {
		_ = c.Close() // nothing has been sent on it
	}
	return c, nil
}

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func openZK(ctx context.Context, d lock.Deployment, c lock.Config) (*zkLocker, error) {
	if len(d.Nodes) == 0 {
		return nil, errors.New("peer: no address was given")
	}
	parts, path, err := d.Nodes[0].Split()
	if err != nil {
		return nil, fmt.Errorf("peer: the address: %w", err)
	}
	var hosts []string
	for _, p := range parts {
		_, at, _ := strings.Cut(p.Reveal(), "://")
		at, own, _ := strings.Cut(at, "/")
		if i := strings.LastIndexByte(at, '@'); i >= 0 {
			at = at[i+1:]
		}
		if own != "" {
			path = "/" + own
		}
		hosts = append(hosts, at)
	}
	up := make(chan struct{})
	var first sync.Once
	l := &zkLocker{c: c, root: strings.TrimRight(path, "/"), dead: make(chan struct{})}
	l.conn, l.done, err = zk.Connect(hosts, c.TTL, zk.WithDialer(l.dial), zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithEventCallback(func(e zk.Event) {
		if e.State == zk.StateHasSession {
			first.Do(func() { close(up) })
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("peer: %s: %w", strings.Join(hosts, ","), err)
	}
	timer := time.NewTimer(c.Timeout)
	defer timer.Stop()
	select {
	case <-up:
		return l, nil
	case <-timer.C:
		err = errors.New("no session within the time-out of a command")
	case <-ctx.Done():
		err = lock.Ended(ctx)
	}
	return nil, lock.Discard(l, fmt.Errorf("peer: %s: %w", strings.Join(hosts, ","), err))
}

func (l *zkLocker) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	if err := lock.Over(ctx, nil); err != nil {
		return nil, err
	}
	l.c.Count.Attempt()
	own := zk.NewLock(l.conn, l.root+"/"+zookeeper.Znode(key), zk.WorldACL(zk.PermAll))
	for range 3 {
		l.c.Count.Cmd() // the library does not tell how many: at least create, list and delete
	}
	got := make(chan error, 1)
	go func() { got <- own.Lock() }()
	select {
	case err := <-got:
		if err != nil {
			return nil, fmt.Errorf("peer: %w: %w", lock.ErrUncertain, err)
		}
		return &zkLease{own: own}, nil
	case <-l.dead:
		return nil, fmt.Errorf("peer: %w", zk.ErrClosing)
	case <-ctx.Done():
		go func() {
			if <-got == nil {
				_ = own.Unlock()
			}
		}()
		return nil, lock.Over(ctx, nil)
	}
}

// Close ends the session, which frees what it holds.
func (l *zkLocker) Close() error {
	l.once.Do(func() {
		close(l.dead)
		l.conn.Close()
		l.mu.Lock()
		if l.now != nil {
			_ = l.now.Close() // the session has ended, or ends with its time
		}
		l.mu.Unlock()
		// A client that is closed while it sends may answer a request three times, of
		// which it has room for two (conn.go: queueRequest, sendData, flushRequests), and
		// never ends. Then its goroutines stay.
		end := time.After(2 * time.Second)
		for {
			select {
			case _, more := <-l.done:
				if !more {
					return
				}
			case <-end:
				return
			}
		}
	})
	return nil
}

type zkLease struct {
	mu  sync.Mutex
	own *zk.Lock
}

func (l *zkLease) Release(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("peer: not released: %w", lock.Ended(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch err := l.own.Unlock(); {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNotLocked), errors.Is(err, zk.ErrNoNode):
		return lock.ErrLost
	default:
		return fmt.Errorf("peer: %w: %w", lock.ErrUncertain, err)
	}
}

func (l *zkLease) Lost() <-chan struct{} { return nil }
