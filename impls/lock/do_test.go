package lock

import (
	"context"
	"errors"
	"testing"
)

// single is a Locker of one key, whose lease notes its release.
type single struct {
	acquire, release error
	lost             chan struct{}
	released         int
	ctx              context.Context // of the release
}

func (s *single) Acquire(context.Context, string) (Lease, error) {
	if s.acquire != nil {
		return nil, s.acquire
	}
	return s, nil
}
func (s *single) Close() error          { return nil }
func (s *single) Lost() <-chan struct{} { return s.lost }
func (s *single) Release(ctx context.Context) error {
	s.released, s.ctx = s.released+1, ctx
	return s.release
}

func TestDo(t *testing.T) {
	failed := errors.New("failed")
	for _, c := range []struct {
		name string
		l    single
		fn   error
		runs bool
		want []error
	}{
		{"all is well", single{}, nil, true, nil},
		{"no grant", single{acquire: ErrHeld}, nil, false, []error{ErrHeld}},
		{"fn fails", single{}, failed, true, []error{failed}},
		{"lost under it", single{release: ErrLost}, nil, true, []error{ErrLost}},
		{"both", single{release: ErrUncertain}, failed, true, []error{failed, ErrUncertain}},
	} {
		ran := 0
		err := Do(t.Context(), &c.l, "k", func(context.Context) error { ran++; return c.fn })
		if (err == nil) != (c.want == nil) || (ran == 1) != c.runs || (c.l.released == 1) != c.runs {
			t.Errorf("%s: %v, ran %d times, released %d times", c.name, err, ran, c.l.released)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v is not %v", c.name, err, want)
			}
		}
	}
}

// The key is given back where ctx ends and where fn panics, and fn hears of a lost lease.
func TestDoGivesBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := single{lost: make(chan struct{})}
	err := Do(ctx, &l, "k", func(inside context.Context) error {
		cancel()
		<-inside.Done()
		return inside.Err()
	})
	if !errors.Is(err, context.Canceled) || l.released != 1 || l.ctx.Err() != nil {
		t.Errorf("%v, released %d times, with a context that has ended: %v", err, l.released, l.ctx.Err())
	}
	func() {
		defer func() { _ = recover() }()
		_ = Do(t.Context(), &l, "k", func(context.Context) error { panic("fn") })
	}()
	if l.released != 2 {
		t.Errorf("after a panic it was released %d times", l.released)
	}
	close(l.lost)
	_ = Do(t.Context(), &l, "k", func(inside context.Context) error {
		<-inside.Done()
		if cause := context.Cause(inside); !errors.Is(cause, ErrLost) {
			t.Errorf("it ended with %v", cause)
		}
		return nil
	})
}
