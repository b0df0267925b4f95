package etcd

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls/lock"
)

// patience bounds the wait for whatever must happen in the end.
const patience = 30 * time.Second

func required(word string) bool {
	return slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), word)
}

// needs skips the test loudly where there is no such program, or fails it if
// LOCKBENCH_REQUIRE lists it.
func needs(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	if required(program) {
		t.Fatalf("LOCKBENCH_REQUIRE lists %s, and there is none; get it with scripts/servers %s", program, program)
	}
	t.Skipf("NOT RUN: there is no %s; get it with scripts/servers %s", program, program)
	return ""
}

func TestMain(m *testing.M) {
	builtin.Main()
	os.Exit(m.Run())
}

// start runs an etcd of its own until the end of t: the installed one, or that in a
// child process where there is none and none is required.
func start(t *testing.T) lock.Deployment {
	t.Helper()
	o := server.Options{Embeds: builtin.Embeds()}
	if required("etcd") {
		o.Source = server.Binary
	}
	s, err := server.Start(t.Context(), lock.Needs{Kind: "etcd"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Deployment
}

// client opens a Locker until the end of t.
func client(t *testing.T, d lock.Deployment, c lock.Config) *locker {
	t.Helper()
	l, err := open(t.Context(), d, c)
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
