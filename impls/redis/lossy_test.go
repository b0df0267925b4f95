package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// lossy is a Conn that may lose commands and answers on their way. Each command
// goes to before, whose error stands for a command that did not arrive; then to
// the server; then its answer to after, which may replace it.
type lossy struct {
	wire.Conn
	before func(args []any) error
	after  func(args []any, reply any, err error) (any, error)
}

func (w *lossy) Do(ctx context.Context, args ...any) (any, error) {
	if w.before != nil {
		if err := w.before(args); err != nil {
			return nil, err
		}
	}
	reply, err := w.Conn.Do(ctx, args...)
	if w.after != nil {
		return w.after(args, reply, err)
	}
	return reply, err
}

// dial puts w between the locks and what real makes.
func (w *lossy) dial(real wire.Dial) wire.Dial {
	return func(ctx context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
		conn, err := real(ctx, ep, c)
		if err != nil {
			return nil, err
		}
		w.Conn = conn
		return w, nil
	}
}

// losesOne loses the answer to a script once lose is set, which it then takes back.
func losesOne(lose *atomic.Bool) *lossy {
	return &lossy{after: func(args []any, reply any, err error) (any, error) {
		if strings.HasPrefix(args[0].(string), "EVAL") && err == nil && lose.CompareAndSwap(true, false) {
			return nil, errors.New("the answer is lost")
		}
		return reply, err
	}}
}
