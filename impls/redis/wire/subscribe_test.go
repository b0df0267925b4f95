package wire_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// What Subscription promises, of every adapter.

// clients is how many connections in subscribed state the server has.
func (s *server) clients(t *testing.T) int {
	t.Helper()
	return strings.Count(s.Do(t, "CLIENT", "LIST", "TYPE", "pubsub").(string), "\n")
}

// A message that is published after Add has returned is received, and one that
// is published after Remove is not.
func TestSubscribe(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		var count lock.Counters
		sub, in := s.Subscribe(t, lock.Config{Count: &count})
		before, _, _ := count.Read()
		for i := range 50 {
			a, b := fmt.Sprintf("a%d\r\n", i), fmt.Sprintf("b%d", i)
			if err := sub.Add(t.Context(), a, b); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{b, a} {
				if got := s.Do(t, "PUBLISH", name, "1"); got != int64(1) {
					t.Fatalf("a message to %q reached %v clients, want 1", name, got)
				}
				if got := redistest.Wait(t, name, in.Messages); got != name+" 1" {
					t.Fatalf("received %q, want %q", got, name+" 1")
				}
			}
			if err := sub.Remove(t.Context(), a, b); err != nil {
				t.Fatal(err)
			}
			if got := s.Do(t, "PUBLISH", a, "2"); got != int64(0) {
				t.Fatalf("after Remove a message reached %v clients", got)
			}
		}
		if after, _, _ := count.Read(); after-before < 100 || after-before > 110 { // and some PINGs
			t.Errorf("%d commands counted, want 100", after-before)
		}
		if err := sub.Add(t.Context()); err != nil {
			t.Errorf("Add of nothing: %v", err)
		}
		if err := sub.Remove(t.Context()); err != nil {
			t.Errorf("Remove of nothing: %v", err)
		}
	})
}

// Adds and Removes of many goroutines do not take each other's answers.
func TestSubscribeConcurrently(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		sub, _ := s.Subscribe(t, lock.Config{})
		raw := s.Raw
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range 50 {
					name := fmt.Sprintf("g%d/%d", g, i)
					if err := sub.Add(t.Context(), name, name+"'"); err != nil {
						t.Error(err)
						return
					}
					if got, err := raw.Do(context.Background(), "PUBLISH", name, "x"); got != int64(1) || err != nil {
						t.Errorf("%s: %v receivers, %v", name, got, err)
					}
					if err := sub.Remove(t.Context(), name, name+"'"); err != nil {
						t.Error(err)
						return
					}
					if got, err := raw.Do(context.Background(), "PUBLISH", name, "x"); got != int64(0) || err != nil {
						t.Errorf("%s: %v receivers after Remove, %v", name, got, err)
					}
				}
			})
		}
		all.Wait()
	})
}

// A lost connection is made anew and reported, with its channels in place.
func TestSubscribeGap(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		sub, in := s.Subscribe(t, lock.Config{})
		if err := sub.Add(t.Context(), "a", "b", "gone"); err != nil {
			t.Fatal(err)
		}
		if err := sub.Remove(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if got := s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub"); got != int64(1) {
				t.Fatalf("%v connections killed, want 1", got)
			}
			redistest.Wait(t, "Lost", in.Losses)
			redistest.Wait(t, "Gap", in.Gaps)
			if got := s.Do(t, "PUBLISH", "gone", "x"); got != int64(0) {
				t.Error("a removed channel is subscribed again")
			}
			for _, name := range []string{"a", "b"} {
				if got := s.Do(t, "PUBLISH", name, "x"); got != int64(1) {
					t.Errorf("after Gap a message to %s reached %v clients", name, got)
				}
				redistest.Wait(t, "a message after Gap", in.Messages)
			}
		}
		if len(in.Gaps) > 0 {
			t.Errorf("%d more gaps than connections killed", len(in.Gaps))
		}
	})
}

// An Add that the server does not confirm ends with its context, or with Close.
func TestSubscribeAway(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			stuck := make(chan struct{})
			t.Cleanup(func() { close(stuck) })
			f := newFake(t, func(name string) string {
				if name == "SUBSCRIBE" {
					<-stuck
				}
				return "+PONG\r\n"
			})
			s := &server{&redistest.Server{Client: a, At: lock.Endpoint("redis://" + f.addr)}}
			sub, _ := s.Subscribe(t, lock.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := sub.Add(ctx, "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("Add whose context ended: %v", err)
			}
			done := make(chan error, 1)
			go func() { done <- sub.Add(context.Background(), "b") }()
			if err := sub.Close(); err != nil {
				t.Error(err)
			}
			if err := redistest.Wait(t, "Add", done); !errors.Is(err, wire.ErrUnsent) {
				t.Errorf("Add on a subscription that is closed: %v", err)
			}
		})
	}
}

// Silence is a fault: a server that does not answer the PINGs is left for a
// new connection.
func TestSubscribeSilence(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			stuck := make(chan struct{})
			var pings atomic.Int64
			f := newFake(t, func(string) string {
				if n := pings.Add(1); n == 2 {
					<-stuck
				}
				return "+PONG\r\n"
			})
			t.Cleanup(func() { close(stuck) })
			s := &server{&redistest.Server{Client: a, At: lock.Endpoint("redis://" + f.addr)}}
			_, in := s.Subscribe(t, lock.Config{Timeout: 200 * time.Millisecond})
			redistest.Wait(t, "Gap", in.Gaps)
		})
	}
}

// Close leaves no goroutine and no connection, and says no to what comes later.
func TestSubscribeClose(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		conn, err := s.Dial(t.Context(), s.At, lock.Config{}.Filled())
		if err != nil {
			t.Fatal(err)
		}
		before := goleak.IgnoreCurrent()
		for range 5 {
			sub, err := conn.Subscribe(t.Context(), wire.Handler{Message: func(string, string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if err := sub.Add(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := sub.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			if err := sub.Add(t.Context(), "a"); err == nil {
				t.Error("Add after Close succeeds")
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
		for deadline := time.Now().Add(30 * time.Second); s.clients(t) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d connections after Close", s.clients(t))
			}
		}
	})
}
