package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

func TestOver(t *testing.T) {
	open, closed := make(chan struct{}), make(chan struct{})
	close(closed)
	reason := errors.New("the shop has shut")
	ended, end := context.WithCancelCause(t.Context())
	end(reason)
	for _, c := range []struct {
		name   string
		ctx    context.Context
		closed chan struct{}
		want   []error
	}{
		{"waiting", t.Context(), open, nil},
		{"waiting on what is never closed", t.Context(), nil, nil},
		{"closed", t.Context(), closed, []error{lock.ErrClosed}},
		{"ended", ended, open, []error{context.Canceled, reason}},
		{"both", ended, closed, []error{lock.ErrClosed}},
	} {
		err := lock.Over(c.ctx, c.closed)
		if (err != nil) != (c.want != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v does not wrap %v", c.name, err, want)
			}
		}
	}
}

// given is a lease whose Release is told to answer err.
type given struct {
	err      error
	released int
	by       time.Time // the end of the context of the last release
}

func (g *given) Release(ctx context.Context) error {
	g.released++
	g.by, _ = ctx.Deadline()
	return errors.Join(g.err, ctx.Err())
}

func (g *given) Lost() <-chan struct{} { return nil }

func TestGranted(t *testing.T) {
	refused := errors.New("no answer")
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name     string
		ctx      context.Context
		release  error
		released int
		want     []error
		not      error
	}{
		{"in time", t.Context(), nil, 0, nil, context.Canceled},
		{"too late", ended, nil, 1, []error{context.Canceled}, lock.ErrUncertain},
		{"too late, and lost", ended, lock.ErrLost, 1, []error{context.Canceled}, lock.ErrUncertain},
		{"too late, and kept", ended, refused, 1, []error{context.Canceled, lock.ErrUncertain, refused}, lock.ErrLost},
	} {
		g := &given{err: c.release}
		before := time.Now()
		lease, err := lock.Config{Timeout: time.Minute}.Granted(c.ctx, nil, g)
		if (err == nil) != (c.want == nil) || (lease == nil) != (c.want != nil) || errors.Is(err, c.not) {
			t.Errorf("%s: %v, %v", c.name, lease, err)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v does not wrap %v", c.name, err, want)
			}
		}
		if g.released != c.released {
			t.Errorf("%s: released %d times, want %d", c.name, g.released, c.released)
		}
		if left := g.by.Sub(before); c.released > 0 && (left < time.Minute || left > 2*time.Minute) {
			t.Errorf("%s: the release may take %v, want the time-out", c.name, left)
		}
	}
}

// door is what says how it was closed.
type door struct{ closed int }

func (d *door) Close() error {
	d.closed++
	return errors.New("it jams")
}

func TestDiscard(t *testing.T) {
	why, d := errors.New("no answer"), new(door)
	if err := lock.Discard(d, why); !errors.Is(err, why) || err.Error() != why.Error() || d.closed != 1 {
		t.Errorf("%v, closed %d times, want %v and once", err, d.closed, why)
	}
}
