package local

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// none lets everybody in at once. It is the negative control: a measurement
// that does not find its violations would not find anybody's.
//
//	state    –
//	cost     nothing: what remains is the harness's own
//	safe     never
//	breaks   always
//	source   the empty lock of LiTL, which measures the cost of interposition
func none() lock.Variant {
	return lock.Variant{
		Algo: "local-none",
		Doc: "Excludes nobody: the negative control of the safety check. " +
			"Its rate is what the harness alone can do.",
		Source: "the empty lock of LiTL (Guiroux, Lachaize, Quéma, USENIX ATC 2016)",
		Caps:   lock.Try,
		Unsafe: lock.NoExclusion,
		Open: func(_ context.Context, _ lock.Deployment, c lock.Config) (lock.Locker, error) {
			return noneLocker{count: c.Count}, nil
		},
	}
}

type noneLocker struct{ count *lock.Counters }

func (n noneLocker) Acquire(ctx context.Context, _ string) (lock.Lease, error) {
	if err := lock.Over(ctx, nil); err != nil {
		return nil, err
	}
	n.count.Attempt()
	return noneLease{}, nil
}

func (n noneLocker) TryAcquire(ctx context.Context, key string) (lock.Lease, error) {
	return n.Acquire(ctx, key)
}

func (noneLocker) Close() error { return nil }

type noneLease struct{}

func (noneLease) Release(context.Context) error { return nil }
func (noneLease) Lost() <-chan struct{}         { return nil }

var _ lock.Tryer = noneLocker{}
