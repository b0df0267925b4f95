package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// extend lets the key end after ttl where it is ours, and returns nil once a
// majority has confirmed that.
func (b *ballot) extend(ctx context.Context, ttl time.Duration) error {
	uncut := context.WithoutCancel(ctx)
	for range 2 { // as what is pending may be reserved meanwhile
		b.regain(ctx)
		// Who has not answered to the SET yet may be one of the majority that counts.
		b.await(ctx.Done(), nil, func() bool { return b.count(pending) == 0 })
	}
	var mu sync.Mutex
	var held, renewed, foreign, asked int
	b.mu.Lock()
	var at []int
	for i, v := range b.votes {
		if v == yes && !b.unwanted {
			at = append(at, i)
		}
	}
	held = len(at)
	b.mu.Unlock()
	answers := make(chan struct{}, held)
	for _, i := range at {
		ok := b.spawn(func() {
			reply, err := Eval(uncut, b.list[i].conn, b.pexpire, []string{b.key}, b.owner, millis(ttl))
			mu.Lock()
			asked++
			switch {
			case err == nil && one(reply):
				renewed++
			case err == nil:
				foreign++
			case silent(err):
				b.suspect(b.list[i])
			}
			mu.Unlock()
			answers <- struct{}{}
		})
		if !ok {
			return errClosed
		}
	}
	for {
		mu.Lock()
		r, f, open := renewed, foreign, held-asked
		mu.Unlock()
		switch {
		case r >= b.need:
			return nil
		case held-f < b.need:
			return lock.ErrLost
		case r+open < b.need:
			return fmt.Errorf("%w: %d of %d nodes have extended the lease, a majority is needed", lock.ErrUncertain, r, len(b.list))
		}
		select {
		case <-answers:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", lock.ErrUncertain, lock.Ended(ctx))
		}
	}
}
