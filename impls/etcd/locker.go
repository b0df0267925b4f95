package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/lockbench/lockbench/impls/lock"
)

var errSlow = errors.New("no answer in time")

// locker is one client: a connection to each member, over which all requests and
// one stream of watches go side by side, and one lease.
type locker struct {
	c      lock.Config
	where  string
	client *clientv3.Client
	keeper lock.Keeper
	batch  *lock.Batch
	done   chan struct{} // closed by Close
	calls  sync.WaitGroup
	minds  sync.WaitGroup

	granting sync.Mutex // a session

	mu      sync.Mutex
	current *session
	down    chan struct{} // closed, and replaced, when no member could be reached for Config.Timeout
	closed  bool
}

func open(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
	c, err := c.Checked(lock.MaxTTL) // Renew, which seconds adds, has the same bound: etcd's own is above both
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	client, where, err := Dial(ctx, d, c)
	if err != nil {
		return nil, err
	}
	l := &locker{c: c, where: where, client: client, done: make(chan struct{}), down: make(chan struct{})}
	l.batch = &lock.Batch{Renew: l.renew, Most: atMost}
	if _, err := l.session(ctx); err != nil {
		return nil, lock.Discard(client, err)
	}
	l.minds.Go(l.mind)
	return l, nil
}

// reach sees that a member answers. Requests wait for a connection, so that they
// outlast the loss of one; this does not.
func reach(ctx context.Context, client *clientv3.Client) error {
	_, err := pb.NewMaintenanceClient(client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	return err
}

// plain is err without the context of one request, which is none of the caller's.
func plain(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errSlow
	case errors.Is(err, context.Canceled):
		return lock.ErrClosed
	}
	return err
}

// refused reports whether err proves that etcd has changed nothing.
func refused(err error) bool {
	for _, is := range []error{
		rpctypes.ErrNoSpace, rpctypes.ErrRequestTooLarge, rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken,
		rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrEmptyKey,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// enter counts a call until l.calls.Done.
func (l *locker) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return lock.ErrClosed
	}
	l.calls.Add(1)
	return nil
}

// outage is closed when no member can be reached for too long.
func (l *locker) outage() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down
}

// mind watches the connection: a watch by itself would wait for ever for one.
func (l *locker) mind() {
	conn, life := l.client.ActiveConnection(), l.client.Ctx()
	for life.Err() == nil {
		if state := conn.GetState(); state == connectivity.Ready {
			conn.WaitForStateChange(life, state)
			continue
		}
		short, cancel := context.WithTimeout(life, l.c.Timeout)
		back := connected(short, conn)
		cancel()
		if !back && life.Err() == nil {
			l.mu.Lock()
			close(l.down)
			l.down = make(chan struct{})
			l.mu.Unlock()
		}
	}
}

// A connection is what connected needs of that of gRPC.
type connection interface {
	GetState() connectivity.State
	WaitForStateChange(ctx context.Context, source connectivity.State) bool
	Connect()
}

// connected waits until conn is ready and reports whether that was before the end
// of ctx.
func connected(ctx context.Context, conn connection) bool {
	for {
		switch state := conn.GetState(); state {
		case connectivity.Ready:
			return true
		case connectivity.Shutdown:
			<-ctx.Done()
			return false
		case connectivity.Idle:
			conn.Connect()
			fallthrough
		default:
			if !conn.WaitForStateChange(ctx, state) {
				return false
			}
		}
	}
}

// Close implements lock.Locker. Those who wait leave their line before.
func (l *locker) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.done)
	l.calls.Wait()
	l.keeper.Close()
	err := l.client.Close()
	l.minds.Wait()
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcd: close: %w", err)
	}
	return nil
}
