package redis

import (
	"context"
	_ "embed" // the script
	"fmt"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

//go:embed register_swap.lua
var registerSwapSource string

// A Register keeps short texts by name on one server and changes them by
// compare-and-set. It is as durable as the server's configuration makes it, and no
// more available than one server is.
type Register struct {
	conn wire.Conn
	swap *wire.Script
}

// OpenRegister connects to the first node of d.
func OpenRegister(ctx context.Context, dial wire.Dial, d lock.Deployment, c lock.Config) (*Register, error) {
	s, err := wire.OpenSession(ctx, dial, d, c)
	if err != nil {
		return nil, err
	}
	return &Register{conn: s.Conn, swap: wire.NewScript(registerSwapSource)}, nil
}

// Read returns the text under name, "" if there is none.
func (r *Register) Read(ctx context.Context, name string) (string, error) {
	reply, err := r.conn.Do(ctx, "GET", name)
	if err != nil || reply == nil {
		return "", err
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("redis: GET %q gave %v", name, reply)
	}
	return text, nil
}

// Swap puts next in the place of old, which is "" for none, in one step, and
// reports whether it did. After an error it may have, or may yet.
func (r *Register) Swap(ctx context.Context, name, old, next string) (bool, error) {
	reply, err := wire.Eval(ctx, r.conn, r.swap, []string{name}, old, next)
	return wire.IsOne(reply), err
}

// Close closes the connections.
func (r *Register) Close() error { return r.conn.Close() }
