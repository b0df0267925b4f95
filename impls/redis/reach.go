package redis

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// Reach dials every node of d and makes sure by a PING that it is a Redis that
// lets us in, for locks whose own library would say less clearly that one is
// not. Its errors are one line that names the address, never the password, and
// says what to do.
func Reach(ctx context.Context, dial Dial, d lock.Deployment, c lock.Config) ([]Conn, error) {
	if len(d.Nodes) == 0 {
		return nil, errNowhere
	}
	var list []Conn
	for _, ep := range d.Nodes {
		conn, err := reach(ctx, dial, ep, c)
		if err != nil {
			for _, other := range list {
				_ = other.Close() // why we part matters more than how
			}
			return nil, err
		}
		list = append(list, conn)
	}
	return list, nil
}
