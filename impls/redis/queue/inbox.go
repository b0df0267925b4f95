package queue

import (
	"context"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// inboxName begins the names of all inboxes. It stands in common.lua, too.
const inboxName = "lockbench:inbox:"

// inboxes are the channels on which a process is notified of grants.
type inboxes interface {
	// subscribed returns once a notice of key would be received.
	subscribed(ctx context.Context, key string) error
	// named is what the scripts must know of the inboxes for key: see common.lua.
	named(key string) string
	Close()
}

// openInboxes opens the inboxes of h on the server at ep.
func (h *locker) openInboxes(ctx context.Context, ep lock.Endpoint) error {
	if conn, ok := h.Conn.(wire.Sharded); ok {
		a, err := wire.ParseAddress(ep)
		if err != nil {
			return err
		}
		h.inboxes = newSlotInboxes(h, conn, a.HostPorts())
		return nil
	}
	all := func(string) bool { return true }
	b := &inbox{
		message: h.message, timeout: h.Config.Timeout, down: func() { h.fail(all) },
		gap: func() { h.running.Go(func() { h.recheck(all) }) }, // it asks the server, which takes a while
	}
	h.inboxes = b
	return b.open(ctx, h.Conn, inboxName+h.Prefix)
}

// slotInboxes are the inboxes on a cluster: one for each slot in which this process has
// ever waited, in that slot, so that the script of a release sees on its own node
// whether the process listens. They stay until Close: there are 16 384 at most, and the
// process is likely to wait in the slot again.
//
// One inbox for each node would do until a slot moves. One for each key would have to be
// unsubscribed again, which costs each wait two round trips.
type slotInboxes struct {
	*wire.Shards
	prefix string // of the Session

	mu    sync.Mutex
	names map[int]string // what the names of a slot's inboxes begin with
	slots map[string]int // by the inbox
}

func newSlotInboxes(h *locker, conn wire.Sharded, seeds []string) *slotInboxes {
	b := &slotInboxes{Shards: wire.NewShards(conn, seeds, h.Config), prefix: h.Prefix, names: make(map[int]string), slots: make(map[string]int)}
	concern := func(channel string) func(string) bool {
		b.mu.Lock()
		slot := b.slots[channel]
		b.mu.Unlock()
		return func(key string) bool { return wire.Slot(key) == slot }
	}
	b.Message = func(_, payload string, since time.Time) { h.message(payload, since) }
	b.Gap = func(channel string) { h.running.Go(func() { h.recheck(concern(channel)) }) }
	b.Down = func(channel string) { h.fail(concern(channel)) }
	return b
}

func (b *slotInboxes) named(key string) string { return b.name(wire.Slot(key)) }

// name is what the names of the inboxes in slot begin with.
func (b *slotInboxes) name(slot int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	name, ok := b.names[slot]
	if !ok {
		name = inboxName + "{" + wire.SlotTag(slot) + "}:"
		b.names[slot], b.slots[name+b.prefix] = name, slot
	}
	return name
}

func (b *slotInboxes) subscribed(ctx context.Context, key string) error {
	return b.Add(ctx, b.name(wire.Slot(key))+b.prefix)
}

// An inbox is the one channel of a process on a single server.
type inbox struct {
	// message is called by one goroutine, in order, and must not block. Nothing
	// that it is given was published before since.
	message func(payload string, since time.Time)
	gap     func() // likewise, after messages may have been missed
	// down is called once no connection could be made for timeout, and again each
	// timeout until one can.
	down    func()
	timeout time.Duration

	sub   wire.Subscription
	mu    sync.Mutex
	fresh time.Time
	alarm *time.Timer // runs while the connection is lost
}

// open subscribes to channel before it returns. The fields up to timeout must
// have been set.
func (b *inbox) open(ctx context.Context, conn wire.Conn, channel string) error {
	b.fresh = time.Now()
	sub, err := conn.Subscribe(ctx, wire.Handler{
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
			if b.alarm == nil { // or a connection has come and gone before anything was received
				b.alarm = time.AfterFunc(b.timeout, b.alert)
			}
			b.mu.Unlock()
		},
		Gap: func() {
			b.mu.Lock()
			b.stopAlarm()
			b.mu.Unlock()
			b.gap()
		},
	})
	if err != nil {
		return err
	}
	if err := sub.Add(ctx, channel); err != nil {
		return lock.Discard(sub, err)
	}
	b.sub = sub
	return nil
}

func (b *inbox) subscribed(context.Context, string) error { return nil }

func (b *inbox) named(string) string { return "" }

// close ends the subscription and waits for the goroutines behind it.
func (b *inbox) Close() {
	_ = b.sub.Close() // it only ever drops the connection
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopAlarm()
}

// alert calls down, and again after the next timeout: others may wait by then.
func (b *inbox) alert() {
	b.mu.Lock()
	lost := b.alarm != nil
	if lost {
		b.alarm.Reset(b.timeout)
	}
	b.mu.Unlock()
	if lost {
		b.down()
	}
}

// stopAlarm ends the alarm. It needs b.mu.
func (b *inbox) stopAlarm() {
	if b.alarm != nil {
		b.alarm.Stop()
		b.alarm = nil
	}
}
