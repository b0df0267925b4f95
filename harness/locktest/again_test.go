package locktest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// TestAgain sees what is carried out again: a case that ran into a time-out, and
// no other.
func TestAgain(t *testing.T) {
	for _, tc := range []struct {
		name     string
		run      func(e *env, n int)
		goes     int
		problems int
	}{
		{"kept", func(*env, int) {}, 1, 0},
		{"slow once", func(e *env, n int) {
			if n == 1 {
				e.Fatalf("acquire: %v", os.ErrDeadlineExceeded)
			}
		}, 2, 0},
		{"hurried once", func(e *env, n int) {
			if n == 1 {
				e.Fatalf("acquire: %v", tooSlow{errors.New("connection closed")})
			}
		}, 2, 0},
		{"slow for ever", func(e *env, _ int) { e.Fatalf("acquire: %v", errors.Join(lock.ErrUncertain, os.ErrDeadlineExceeded)) }, goes, 1},
		{"refused", func(e *env, _ int) { e.Fatalf("acquire: %v", errors.New("refused")) }, 1, 1},
		{"broken", func(e *env, _ int) { e.Broken("seen: %v", os.ErrDeadlineExceeded) }, 1, 1},
		{"broken and slow", func(e *env, _ int) {
			e.Errorf("two were in")
			e.Fatalf("acquire: %v", os.ErrDeadlineExceeded)
		}, 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := 0
			c := Case{Name: "case", Sentence: "sentence", run: func(e *env) {
				n++
				tc.run(e, n)
			}}
			var r *recorder
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				r = examine(t.Context(), c, lock.Variant{}, lock.Deployment{}, Options{})
				if waited, want := time.Since(began), time.Duration(tc.goes*(tc.goes-1)/2)*calm; waited != want {
					t.Errorf("between the goes %v went by, want %v", waited, want)
				}
			})
			if n != tc.goes || len(r.problems) != tc.problems {
				t.Errorf("%d goes, %q; want %d and %d", n, r.problems, tc.goes, tc.problems)
			}
			again := 0
			for _, l := range r.logs {
				if strings.HasPrefix(l, "AGAIN") {
					again++
				}
			}
			if again != tc.goes-1 {
				t.Errorf("the log %q tells of %d goes more, want %d", r.logs, again, tc.goes-1)
			}
		})
	}
}
