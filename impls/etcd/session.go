package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockbench/lockbench/impls/lock"
)

// A session is one lease of etcd, which all places of a client share.
type session struct {
	id   clientv3.LeaseID
	name string // in hexadecimal, as concurrency.Mutex writes it
	kept *lock.Kept
	// orphans are the names of places that could not be given back. The next renewal
	// removes them, or they would be in the way for as long as this client lives.
	// Guarded by locker.mu.
	orphans []string
	numbers uint64   // given out so far; guarded by locker.mu
	unused  []uint64 // of them, those that no place has; guarded by locker.mu
}

// number is one that no place of s has.
func (s *session) number(l *locker) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := len(s.unused) - 1; last >= 0 {
		n := s.unused[last]
		s.unused = s.unused[:last]
		return n
	}
	s.numbers++
	return s.numbers
}

// free gives a number back.
func (s *session) free(l *locker, number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.unused = append(s.unused, number)
}

// atMost is how many places one transaction of a renewal reads, and how many orphans it
// removes beside. Etcd's limit for both is 128 (--max-txn-ops).
const (
	atMost      = 100
	mostOrphans = 20
)

// seconds is the TTL to ask etcd for.
func seconds(c lock.Config) int64 {
	return lock.Units(c.TTL+c.Renew, time.Second)
}

// session is the one in use, or a new one if there is none or its lease has ended.
func (l *locker) session(ctx context.Context) (*session, error) {
	l.granting.Lock()
	defer l.granting.Unlock()
	l.mu.Lock()
	s := l.current
	l.mu.Unlock()
	if s != nil {
		select {
		case <-s.kept.Lost():
		default:
			return s, nil
		}
	}
	short, cancel := l.c.Bounded(ctx)
	defer cancel()
	sent := time.Now()
	r, err := l.client.Grant(short, seconds(l.c))
	if err != nil {
		return nil, fmt.Errorf("etcd: %s grants no lease: %w", l.where, plain(err))
	}
	s = &session{id: r.ID, name: strconv.FormatInt(int64(r.ID), 16)}
	c := l.c
	c.TTL = lock.Lasting(r.TTL, time.Second)
	s.kept = l.keeper.KeepWith(c, sent, l.batch, s.name, s)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = s
	return s, nil
}

// drop forgets s, whose lease has ended, although its renewal does not know yet.
func (l *locker) drop(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == s {
		l.current = nil
	}
}

// orphan has the next renewal remove p.
func (l *locker) orphan(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.s.orphans = append(p.s.orphans, p.name)
}

// renew keeps the lease of one session alive and sees whether the places that hold
// are still there. Kept are sessions and leases, all of one session.
func (l *locker) renew(ctx context.Context, kept []any) []error {
	ctx, cancel := context.WithTimeout(ctx, l.c.Timeout)
	defer cancel()
	var s *session
	var held []*lease
	for _, k := range kept {
		switch k := k.(type) {
		case *session:
			s = k
		case *lease:
			s, held = k.p.s, append(held, k)
		}
	}
	gone, err := l.refresh(ctx, s, held)
	errs := make([]error, len(kept))
	for i, k := range kept {
		h, holds := k.(*lease)
		switch {
		case err != nil:
			errs[i] = err
		case holds && gone[h]:
			errs[i] = lock.ErrLost
		}
	}
	return errs
}

func (l *locker) refresh(ctx context.Context, s *session, held []*lease) (gone map[*lease]bool, err error) {
	if _, err := l.client.KeepAliveOnce(ctx, s.id); errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return nil, lock.ErrLost
	} else if err != nil {
		return nil, err
	}
	l.mu.Lock()
	orphans := s.orphans[:min(len(s.orphans), mostOrphans)]
	l.mu.Unlock()
	var ops []clientv3.Op
	for _, h := range held {
		ops = append(ops, clientv3.OpGet(h.p.name, clientv3.WithKeysOnly()))
	}
	for _, name := range orphans {
		ops = append(ops, clientv3.OpDelete(name))
	}
	if len(ops) == 0 {
		return nil, nil
	}
	r, err := l.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	s.orphans = s.orphans[len(orphans):] // others are only ever added behind
	l.mu.Unlock()
	gone = map[*lease]bool{}
	for i, h := range held {
		gone[h] = !h.p.among(r.Responses[i].GetResponseRange().Kvs)
	}
	return gone, nil
}
