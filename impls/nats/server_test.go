package nats

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls/lock"
)

// patience bounds the wait for whatever must happen in the end.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	builtin.Main()
	os.Exit(m.Run())
}

// start runs the NATS that is built in until the end of t.
func start(t *testing.T, topology lock.Topology) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), lock.Needs{Kind: "nats"}, server.Options{
		Source: server.Embedded, Embeds: builtin.Embeds(), Topologies: map[string]lock.Topology{"nats": topology},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// client opens a Locker until the end of t.
func client(t *testing.T, s *server.Server, c lock.Config) *locker {
	t.Helper()
	l, err := open(t.Context(), s.Deployment, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.(*locker)
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func acquired(ctx context.Context, t *testing.T, l lock.Locker, key string) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func returned(ctx context.Context, t *testing.T, lease lock.Lease) {
	t.Helper()
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
}

func until(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		if ctx.Err() != nil {
			t.Fatal("never: " + what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
