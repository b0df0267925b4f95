package lock

import (
	"context"
	"errors"
)

// Step marks a point of an algorithm at which a fault may strike; see Config.Hook.
// Died reports its error.
func (c Config) Step(ctx context.Context, name string) error {
	if c.Hook == nil {
		return nil
	}
	if err := c.Hook(ctx, name); err != nil {
		return died{err}
	}
	return nil
}

// Died reports whether err, or one that it wraps, came from [Config.Step]. It stands
// for the death of the process, which gives nothing back and tidies up nothing.
func Died(err error) bool {
	var d died
	return errors.As(err, &d)
}

type died struct{ error }

func (d died) Unwrap() error { return d.error }
