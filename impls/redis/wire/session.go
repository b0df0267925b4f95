package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// ErrClosed is the error of a Locker that is closed. Nothing is sent.
var ErrClosed = fmt.Errorf("%w: %w", ErrUnsent, lock.ErrClosed)

// A Session is what the locks share: one server and the way to talk to it.
type Session struct {
	Conn   Conn
	Config lock.Config // Filled
	Keeper lock.Keeper // empty unless the algorithm renews

	// Prefix begins the owner tokens, which are Prefix:n. It holds 130 random bits, so
	// two Sessions differ wherever they run; n is unique within one. A token identifies
	// an owner and keeps no secret, so it need not be unpredictable.
	Prefix string
	last   atomic.Uint64
}

// OpenSession connects to the first node of d.
func OpenSession(ctx context.Context, dial Dial, d lock.Deployment, c lock.Config) (*Session, error) {
	if len(d.Nodes) == 0 {
		return nil, ErrNoServer
	}
	c, err := c.Checked(lock.MaxTTL)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	conn, err := Connect(ctx, dial, d.Nodes[0], c)
	if err != nil {
		return nil, err
	}
	return NewSession(conn, c), nil
}

// NewSession returns a Session over conn, nil for a lock that sends to several servers.
// C must have been Filled.
func NewSession(conn Conn, c lock.Config) *Session {
	return &Session{Conn: conn, Config: c, Prefix: rand.Text()}
}

// Close drops the connections; the leases run out.
func (s *Session) Close() error {
	s.Keeper.Close()
	return s.Conn.Close()
}

// Number returns a number that no other call on s returns. It grows with each.
func (s *Session) Number() uint64 { return s.last.Add(1) }

// Owner returns a token that no other call returns, anywhere.
func (s *Session) Owner() string {
	return s.Prefix + ":" + strconv.FormatUint(s.Number(), 10)
}

// Step runs command between the steps before-name and after-name. If the error comes
// from a step, lock.Died reports it.
func (s *Session) Step(ctx context.Context, name string, command func() (any, error)) (any, error) {
	if err := s.Config.Step(ctx, "before-"+name); err != nil {
		return nil, err
	}
	reply, err := command()
	if err != nil {
		return nil, fmt.Errorf("redis: %s: %w", name, err)
	}
	if err := s.Config.Step(ctx, "after-"+name); err != nil {
		return nil, err
	}
	return reply, nil
}

// Do sends one command of an algorithm under its step name.
func (s *Session) Do(ctx context.Context, name string, args ...any) (any, error) {
	return s.Step(ctx, name, func() (any, error) { return s.Conn.Do(ctx, args...) })
}

// Eval runs one script of an algorithm under its step name.
func (s *Session) Eval(ctx context.Context, name string, script *Script, keys []string, args ...any) (any, error) {
	return s.Step(ctx, name, func() (any, error) { return Eval(ctx, s.Conn, script, keys, args...) })
}

// Unanswered reports whether the command that returned err may have run, or
// may yet run, although no answer said so.
func Unanswered(err error) bool {
	var refused Error
	return err != nil && !errors.As(err, &refused) && !errors.Is(err, ErrUnsent) && !lock.Died(err)
}

// Uncertain marks the error of a command that grants or frees a key as uncertain,
// if that is what it is.
func Uncertain(err error) error {
	if Unanswered(err) {
		return fmt.Errorf("%w: %w", lock.ErrUncertain, err)
	}
	return err
}

// IsOne reports whether an integer reply is 1, which in all our commands means
// that they did what they were asked.
func IsOne(reply any) bool { return reply == int64(1) }

// Freed turns the reply to a release, 1 or 0, into the result of Release.
func Freed(reply any, err error) error {
	switch {
	case err != nil:
		return Uncertain(err)
	case !IsOne(reply):
		return lock.ErrLost
	}
	return nil
}

// Millis is d in whole milliseconds, rounded up and at least 1: what PX and
// PEXPIRE take.
func Millis(d time.Duration) int64 {
	return lock.Units(d, time.Millisecond)
}
