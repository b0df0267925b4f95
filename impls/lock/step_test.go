package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

func TestStep(t *testing.T) {
	struck := errors.New("struck")
	var passed []string
	hook := func(_ context.Context, step string) error {
		passed = append(passed, step)
		if step == "second" {
			return struck
		}
		return nil
	}
	for _, c := range []struct {
		name string
		hook func(context.Context, string) error
		step string
		died bool
	}{
		{"without a hook", nil, "second", false},
		{"passed", hook, "first", false},
		{"struck", hook, "second", true},
	} {
		err := lock.Config{Hook: c.hook}.Step(t.Context(), c.step)
		if (err != nil) != c.died || lock.Died(err) != c.died || errors.Is(err, struck) != c.died {
			t.Errorf("%s: %v, Died %t, want %t", c.name, err, lock.Died(err), c.died)
		}
		if wrapped := fmt.Errorf("acquire: %w", err); err != nil && !lock.Died(wrapped) {
			t.Errorf("%s: Died does not know %v", c.name, wrapped)
		}
	}
	if got := fmt.Sprint(passed); got != "[first second]" {
		t.Errorf("the hook saw %s", got)
	}
	if lock.Died(struck) {
		t.Error("Died takes an error for one of a step")
	}
}
