package rueidis

import (
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/lockbench/lockbench/impls/redis"
)

// Track makes a client whose connection has tracking on for all that it reads.
// The library's own cache stays empty, as no command is sent through it.
func (c *conn) Track(ctx context.Context, changed func(keys []string)) (redis.Conn, error) {
	if err := c.line.over(); err != nil {
		return nil, unsent(err)
	}
	made, err := c.open(rueidis.ClientOption{
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
	})
	if err != nil {
		return nil, err
	}
	if _, err = made.Do(ctx, "PING"); err != nil {
		_ = made.Close() // it never fails
		if errors.Is(err, rueidis.ErrNoCache) {
			return nil, redis.Error("ERR no CLIENT TRACKING over RESP3")
		}
		return nil, err
	}
	return made, nil
}

var _ redis.Tracker = (*conn)(nil)
