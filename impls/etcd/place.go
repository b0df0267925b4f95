package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockbench/lockbench/impls/lock"
)

// A place is one owner's in the line of a key.
type place struct {
	l      *locker
	s      *session
	prefix string // of the line: key/
	name   string // key/lease-number
	number uint64 // of the session's, this place's alone until it is off
	rev    int64  // that created it
	// before is the place in front when it was last looked at, "" if there was
	// none, as of the revision at; seen is when that was asked.
	before string
	at     int64
	seen   time.Time
	// lapsed says that the place is gone, with the lease or otherwise, so that its
	// owner may queue again.
	lapsed bool

	removing sync.Mutex
	off      bool // it was deleted, and the name may be another place's by now
	doubtful bool // a request of unknown outcome may still delete the name
}

// place is a new place in the line of key, under a name that no other place of this
// client has. Names are used again: etcd keeps each that ever was in its index until
// it is compacted, which nobody may see to, and looks at all of them to find who is
// in front.
func (l *locker) place(s *session, key string) *place {
	n := s.number(l)
	return &place{l: l, s: s, prefix: key + "/", name: key + "/" + s.name + "-" + strconv.FormatUint(n, 10), number: n}
}

// put creates the place.
func (p *place) put() clientv3.Op { return clientv3.OpPut(p.name, "", clientv3.WithLease(p.s.id)) }

// enqueue takes the last place. The read comes before the write, so it finds who is
// in front.
func (p *place) enqueue(ctx context.Context) error {
	last := clientv3.OpGet(p.prefix, append(clientv3.WithLastCreate(), clientv3.WithKeysOnly())...)
	r, err := p.join(ctx, nil, []clientv3.Op{last, p.put()}, nil)
	if err != nil || p.lapsed {
		return err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return nil
	}
	if p.before = string(kvs[0].Key); !p.direct(kvs[0]) {
		// A place in the line of another key, whose name goes on after this one.
		if err := p.look(ctx); err != nil {
			return p.leave(ctx, err)
		}
	}
	return nil
}

// enqueueFirst takes the first place, or returns lock.ErrHeld.
func (p *place) enqueueFirst(ctx context.Context) error {
	empty := clientv3.Compare(clientv3.CreateRevision(p.prefix), "=", 0).WithPrefix()
	first := clientv3.OpGet(p.prefix, append(clientv3.WithFirstCreate(), clientv3.WithKeysOnly())...)
	r, err := p.join(ctx, []clientv3.Cmp{empty}, []clientv3.Op{p.put()}, []clientv3.Op{first})
	if err != nil || p.lapsed || r.Succeeded {
		return err
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) > 0 && !p.direct(kvs[0]) {
		return p.enqueue(ctx) // only a look at all tells
	}
	p.s.free(p.l, p.number)
	return fmt.Errorf("etcd: %w", lock.ErrHeld)
}

// join runs the transaction that creates the place, unless ctx has ended by then.
func (p *place) join(ctx context.Context, cmps []clientv3.Cmp, then, otherwise []clientv3.Op) (*clientv3.TxnResponse, error) {
	l := p.l
	p.seen = time.Now()
	short, cancel := l.c.Bounded(ctx)
	defer cancel()
	r, err := l.client.Txn(short).If(cmps...).Then(then...).Else(otherwise...).Commit()
	switch {
	case err == nil:
		p.rev, p.at = r.Header.Revision, r.Header.Revision
		return r, nil
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		l.drop(p.s)
		p.lapsed = true
		return nil, nil
	case refused(err):
		return nil, fmt.Errorf("etcd: %w", plain(err))
	}
	// The place may be there, or come yet.
	return nil, p.doubt(ctx, fmt.Errorf("etcd: %w", plain(err)))
}

// direct reports whether kv is in this line and not in that of a key whose name
// begins with this one's and a slash.
func (p *place) direct(kv *mvccpb.KeyValue) bool {
	return !strings.Contains(string(kv.Key[len(p.prefix):]), "/")
}

// await returns when nobody is in front. Without wait it leaves the line instead
// where somebody is, with lock.ErrHeld.
func (p *place) await(ctx context.Context, wait bool) error {
	for p.before != "" {
		if !wait {
			return p.leave(ctx, fmt.Errorf("etcd: %w", lock.ErrHeld))
		}
		looked, err := p.watch(ctx)
		if err == nil && !looked {
			err = p.look(ctx)
		}
		if err != nil {
			return p.leave(ctx, err)
		}
		if p.lapsed {
			return nil
		}
	}
	return nil
}

// watch returns when the place in front may be gone, or when a look has found
// another there.
//
// The watch begins with what happens after it was made. One that began at the
// revision of the last look, as concurrency.Mutex has it, would be late: others have
// queued since, and etcd serves a watch that begins in the past only every 100 ms. So
// one look more, while there is nothing else to do, sees what happened in between.
func (p *place) watch(ctx context.Context) (looked bool, err error) {
	l := p.l
	// Not under ctx, whose values might make a stream of its own for this watch.
	life, cancel := context.WithCancel(context.Background())
	defer cancel()
	down := l.outage()
	// A member without a leader ends the watch, which might miss what others decide.
	// Watch returns once a member has answered, which may be never.
	made := make(chan clientv3.WatchChan, 1)
	front := p.before
	go func() {
		made <- l.client.Watch(clientv3.WithRequireLeader(life), front, clientv3.WithCreatedNotify(), clientv3.WithFilterPut())
	}()
	var events clientv3.WatchChan // nil until then
	for {
		select {
		case events = <-made:
		case r, ok := <-events:
			switch {
			case ok && r.Created && r.Err() == nil && r.Header.Revision > p.at:
				if err := p.look(ctx); err != nil || p.lapsed || p.before != front {
					return true, err
				}
				continue
			case ok && r.Err() == nil && len(r.Events) == 0:
				continue
			case ok && r.Err() == nil:
				l.c.Count.Wakeup()
				return false, nil
			}
			// Compacted, or no leader: a look tells more, but not in a tight loop.
			select {
			case <-time.After(l.c.Retry.Max):
			case <-ctx.Done():
			case <-l.done:
			}
			return false, nil
		case <-p.s.kept.Lost():
			return false, nil // look finds the place gone
		case <-ctx.Done():
			return false, lock.Over(ctx, nil)
		case <-l.done:
			return false, lock.ErrClosed
		case <-down:
			return false, fmt.Errorf("etcd: %s cannot be reached any more", l.where)
		}
	}
}

// look reads in one instant whether the place is still there and who is in front.
func (p *place) look(ctx context.Context) error {
	front := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(p.rev-1), clientv3.WithKeysOnly())
	r, err := p.read(ctx, front)
	if err != nil || p.lapsed {
		return err
	}
	kvs := r.Responses[1].GetResponseRange().Kvs
	if len(kvs) > 0 && !p.direct(kvs[0]) {
		all := []clientv3.OpOption{
			clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend),
			clientv3.WithMaxCreateRev(p.rev - 1), clientv3.WithKeysOnly(),
		}
		if r, err = p.read(ctx, all); err != nil || p.lapsed {
			return err
		}
		kvs = r.Responses[1].GetResponseRange().Kvs
	}
	p.before, p.at = "", r.Header.Revision
	for _, kv := range kvs {
		if p.direct(kv) {
			p.before = string(kv.Key)
			break
		}
	}
	return nil
}

func (p *place) read(ctx context.Context, front []clientv3.OpOption) (*clientv3.TxnResponse, error) {
	p.seen = time.Now()
	short, cancel := p.l.c.Bounded(ctx)
	defer cancel()
	r, err := p.l.client.Txn(short).Then(
		clientv3.OpGet(p.name, clientv3.WithKeysOnly()), clientv3.OpGet(p.prefix, front...)).Commit()
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", plain(err))
	}
	p.lapsed = !p.among(r.Responses[0].GetResponseRange().Kvs)
	return r, nil
}

func (p *place) among(kvs []*mvccpb.KeyValue) bool {
	return len(kvs) == 1 && kvs[0].CreateRevision == p.rev
}

// remove deletes the place, or returns lock.ErrLost if it was gone.
func (p *place) remove(ctx context.Context) error {
	p.removing.Lock()
	defer p.removing.Unlock()
	if p.off {
		return lock.ErrLost
	}
	short, cancel := p.l.c.Bounded(ctx)
	defer cancel()
	// The name is this place's alone until an answer says that it is deleted, so what
	// is deleted is no later owner's; a transaction that compared the revision could
	// say no more.
	r, err := p.l.client.Delete(short, p.name)
	switch {
	case err != nil && refused(err):
		return fmt.Errorf("etcd: %w", plain(err))
	case err != nil:
		p.doubtful = true
		p.l.orphan(p)
		return fmt.Errorf("etcd: %w: %w", lock.ErrUncertain, plain(err))
	}
	p.off = true
	if !p.doubtful {
		p.s.free(p.l, p.number)
	}
	if r.Deleted == 0 {
		return lock.ErrLost
	}
	return nil
}

// leave gives up a place for the reason why, which it returns.
func (p *place) leave(ctx context.Context, why error) error {
	if err := p.remove(ctx); err != nil && !errors.Is(err, lock.ErrLost) {
		if !errors.Is(err, lock.ErrUncertain) {
			p.l.orphan(p)
		}
		return fmt.Errorf("%w; its place in the line could not be given back: %w: %w", why, lock.ErrUncertain, err)
	}
	return why
}

// doubt gives up a place that may not be there, or not yet: the command that makes
// it was sent.
func (p *place) doubt(ctx context.Context, why error) error {
	short, cancel := p.l.c.Bounded(ctx)
	defer cancel()
	if r, err := p.l.client.Delete(short, p.name); err == nil && r.Deleted > 0 {
		return why
	}
	p.l.orphan(p)
	return fmt.Errorf("%w: %w", lock.ErrUncertain, why)
}
