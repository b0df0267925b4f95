package redis

import (
	"context"
	"sync"
	"time"
)

// An inbox is the one channel on which a session is told of grants.
type inbox struct {
	// message is called by one goroutine, in order, and must not block. Nothing
	// that it is given was published before since.
	message func(payload string, since time.Time)
	gap     func() // likewise, after messages may have been missed
	// down is called once no connection could be made for patience.
	down     func()
	patience time.Duration

	sub   Subscription
	mu    sync.Mutex
	fresh time.Time
	alarm *time.Timer // runs while the connection is lost
}

// open subscribes to channel before it returns. The fields up to patience must
// have been set.
func (b *inbox) open(ctx context.Context, conn Conn, channel string) error {
	b.fresh = time.Now()
	sub, err := conn.Subscribe(ctx, Handler{
		Message: func(_, payload string) {
			b.mu.Lock()
			since := b.fresh
			b.mu.Unlock()
			b.message(payload, since)
		},
		Alive: func(sent time.Time) {
			b.mu.Lock()
			b.fresh = sent
			b.mu.Unlock()
		},
		Lost: func() {
			b.mu.Lock()
			b.alarm = time.AfterFunc(b.patience, b.down)
			b.mu.Unlock()
		},
		Gap: func() {
			b.mu.Lock()
			if b.alarm != nil {
				b.alarm.Stop()
			}
			b.mu.Unlock()
			b.gap()
		},
	})
	if err != nil {
		return err
	}
	if err := sub.Add(ctx, channel); err != nil {
		_ = sub.Close() // why matters more than how we part
		return err
	}
	b.sub = sub
	return nil
}

// close ends the subscription and waits for the goroutines behind it.
func (b *inbox) close() {
	_ = b.sub.Close() // it only ever drops the connection
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.alarm != nil {
		b.alarm.Stop()
	}
}
