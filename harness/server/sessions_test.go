package server

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// orSkip starts one server of kind from a program, which CI must have.
func orSkip(t *testing.T, kind string, o Options) *Server {
	t.Helper()
	o.Source = Binary
	s, err := Start(t.Context(), lock.Needs{Kind: kind}, o)
	if errors.Is(err, ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), kind) {
		t.Skipf("NOT RUN: %v", err)
	}
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

// A session that is ended is gone, and the others are not.
func TestEndSession(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mysql", "postgresql", "zookeeper", "etcd"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := orSkip(t, kind, Options{})
			before, err := s.Sessions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n, err := s.reach(t.Context(), s.Deployment.Nodes[0]) // a client of another session
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = n.close() }()
			if e, ok := n.(*etcdNode); ok {
				if _, err := e.client.Grant(t.Context(), 60); err != nil {
					t.Fatal(err)
				}
			}
			var own []string
			after, err := s.Sessions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range after {
				if !slices.ContainsFunc(before, func(b Session) bool { return b.ID == one.ID }) {
					own = append(own, one.ID)
				}
			}
			if len(own) != 1 {
				t.Fatalf("sessions were %v and are %v, want one more", before, after)
			}
			if err := s.EndSession(t.Context(), own[0]); err != nil {
				t.Fatal(err)
			}
			left, err := s.Sessions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != len(before) {
				t.Errorf("sessions are %v after the end of %s, want %v", left, own[0], before)
			}
			if kind == "zookeeper" {
				if err := s.EndSession(t.Context(), own[0]); err == nil {
					t.Error("a session that has ended was ended again")
				}
			}
		})
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	for kind, settings := range map[string][]string{
		"mysql":      {"wait_timeout=1", "interactive_timeout=1", "max_statement_time=1"},
		"postgresql": {"idle_session_timeout=1s", "statement_timeout=1s"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := orSkip(t, kind, Options{Settings: map[string][]string{kind: settings}})
			for _, busy := range []bool{false, true} {
				if outlasts, err := s.Outlasts(t.Context(), 2*limit, busy); outlasts || err != nil {
					t.Errorf("a session outlasts %v busy=%v: %v, %v; want that the server ends it", 2*limit, busy, outlasts, err)
				}
			}
		})
	}
	t.Run("by default", func(t *testing.T) {
		t.Parallel()
		s := orSkip(t, "postgresql", Options{})
		for _, busy := range []bool{false, true} {
			if outlasts, err := s.Outlasts(t.Context(), limit, busy); !outlasts || err != nil {
				t.Errorf("a session outlasts %v busy=%v: %v, %v; want that nothing ends it", limit, busy, outlasts, err)
			}
		}
	})
	t.Run("elsewhere", func(t *testing.T) {
		t.Parallel()
		_, err := Start(t.Context(), lock.Needs{Kind: "zookeeper"}, Options{Source: Binary, Settings: map[string][]string{"zookeeper": {"a=1"}}})
		if !errors.Is(err, ErrMissing) {
			t.Errorf("settings of a ZooKeeper: %v, want that it takes none", err)
		}
	})
}
