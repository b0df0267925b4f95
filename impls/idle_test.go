package impls_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// An Acquire over a connection that was idle for a while ends by itself where the
// server answers no more.
func TestIdleConnectionUnanswered(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mysql", "postgresql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			need := lock.Needs{Kind: kind}
			s := start(t, need, fromEnv(t), true)
			if s == nil {
				lacking(t, need)
			}
			idleUnanswered(t, s, kind)
		})
	}
}

func idleUnanswered(t *testing.T, s *server.Server, kind string) {
	for _, v := range impls.All() {
		if v.Needs.Kind != kind {
			continue
		}
		t.Run(v.Name(), func(t *testing.T) {
			t.Parallel()
			proxies, d, err := fault.Before(s.Deployment)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				for _, p := range proxies {
					_ = p.Close()
				}
			})
			l := open(t, v.Algo, v.Client, d, lock.Config{TTL: 3 * time.Second, Timeout: time.Second})
			const key = "idle"
			lease, err := l.Acquire(t.Context(), key+v.Name())
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := s.Remove(context.Background(), key+v.Name()); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(1100 * time.Millisecond) // longer than a library takes on trust
			proxies.Set(fault.Down, fault.Drop)
			done := make(chan error, 1)
			go func() {
				_, err := l.Acquire(context.Background(), key+v.Name())
				done <- err
			}()
			select {
			case err := <-done:
				if err == nil {
					t.Error("granted without an answer")
				}
			case <-time.After(patience):
				t.Error("Acquire hangs")
			}
		})
	}
}
