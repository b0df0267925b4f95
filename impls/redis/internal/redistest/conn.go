package redistest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// Lossy is a Conn that may lose commands and answers on their way. Each command
// goes to Before, whose error stands for a command that did not arrive; then to
// the server; then its answer to After, which may replace it.
type Lossy struct {
	wire.Conn
	Before func(args []any) error
	After  func(args []any, reply any, err error) (any, error)
}

// Do sends one command unless Before or After loses it.
func (l *Lossy) Do(ctx context.Context, args ...any) (any, error) {
	if l.Before != nil {
		if err := l.Before(args); err != nil {
			return nil, err
		}
	}
	reply, err := l.Conn.Do(ctx, args...)
	if l.After != nil {
		return l.After(args, reply, err)
	}
	return reply, err
}

// Dial puts l between the locks and what real connects to.
func (l *Lossy) Dial(real wire.Dial) wire.Dial {
	return func(ctx context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
		conn, err := real(ctx, ep, c)
		if err != nil {
			return nil, err
		}
		l.Conn = conn
		return l, nil
	}
}

// LosesOne loses the answer to a script once lose is set, which it then takes back.
func LosesOne(lose *atomic.Bool) *Lossy {
	return &Lossy{After: func(args []any, reply any, err error) (any, error) {
		if strings.HasPrefix(args[0].(string), "EVAL") && err == nil && lose.CompareAndSwap(true, false) {
			return nil, errors.New("the answer is lost")
		}
		return reply, err
	}}
}

// Mute is a Dial whose Subscriptions receive no message while on is set.
func Mute(real wire.Dial, on *atomic.Bool) wire.Dial {
	return func(ctx context.Context, ep lock.Endpoint, c lock.Config) (wire.Conn, error) {
		conn, err := real(ctx, ep, c)
		return mute{conn, on}, err
	}
}

type mute struct {
	wire.Conn
	on *atomic.Bool
}

func (m mute) Subscribe(ctx context.Context, h wire.Handler) (wire.Subscription, error) {
	message := h.Message
	h.Message = func(channel, payload string) {
		if !m.on.Load() {
			message(channel, payload)
		}
	}
	return m.Conn.Subscribe(ctx, h)
}

// An Inbox is what a Subscription has received.
type Inbox struct {
	Messages     chan string // channel and payload
	Gaps, Losses chan struct{}
}

// Subscribe opens a Subscription by a Conn of its own.
func (s *Server) Subscribe(t *testing.T, c lock.Config) (wire.Subscription, Inbox) {
	t.Helper()
	in := Inbox{make(chan string, 1000), make(chan struct{}, 100), make(chan struct{}, 100)}
	sub, err := DialConn(t, s.Client, s.At, c).Subscribe(t.Context(), wire.Handler{
		Message: func(channel, payload string) { in.Messages <- channel + " " + payload },
		Gap:     func() { in.Gaps <- struct{}{} },
		Lost:    func() { in.Losses <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Close() })
	return sub, in
}
