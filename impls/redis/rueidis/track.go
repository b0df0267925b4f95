package rueidis

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/rueidis"

	"github.com/lockbench/lockbench/impls/redis/wire"
)

// tracking are the options of a client whose connections have tracking on for all
// that they read. The library's own cache stays empty, as no command is sent
// through it.
func tracking(changed func(keys []string)) rueidis.ClientOption {
	return rueidis.ClientOption{
		ClientTrackingOptions: []string{"OPTOUT", "NOLOOP"},
		OnInvalidations: func(list []rueidis.RedisMessage) {
			if list == nil {
				changed(nil)
				return
			}
			keys := make([]string, 0, len(list))
			for i := range list {
				if key, err := list[i].ToString(); err == nil { // a name is never anything else
					keys = append(keys, key)
				}
			}
			changed(keys)
		},
	}
}

// tracks returns made once it has an answer from a server that tracks.
func tracks(ctx context.Context, made wire.Conn) (wire.Conn, error) {
	if _, err := made.Do(ctx, "PING"); err != nil {
		_ = made.Close() // it never fails
		if errors.Is(err, rueidis.ErrNoCache) {
			return nil, wire.Error("ERR no CLIENT TRACKING over RESP3")
		}
		return nil, err
	}
	return made, nil
}

func (c *conn) Track(ctx context.Context, changed func(keys []string)) (wire.Conn, error) {
	if err := c.link.over(); err != nil {
		return nil, unsent(err)
	}
	made, err := c.open(tracking(changed))
	if err != nil {
		return nil, err
	}
	return tracks(ctx, made)
}

// Track makes a client of the whole cluster. Each node tells of the keys that were
// read from it; one whose slot leaves a node has changed there.
func (x *cluster) Track(ctx context.Context, changed func(keys []string)) (wire.Conn, error) {
	if x.open.over() {
		return nil, unsent(net.ErrClosed)
	}
	// The nodes have a connection each, and each may have something to tell.
	var one sync.Mutex
	return tracks(ctx, &cluster{a: x.a, c: x.c, options: tracking(func(keys []string) {
		one.Lock()
		defer one.Unlock()
		changed(keys)
	})})
}

var (
	_ wire.Tracker = (*conn)(nil)
	_ wire.Tracker = (*cluster)(nil)
)
