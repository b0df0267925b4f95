package server

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// The sessions of PostgreSQL are processes of their own: what they spend is the
// server's, and they end with it.
func TestPostgresProcesses(t *testing.T) {
	s, err := Start(t.Context(), lock.Needs{Kind: "postgresql"}, Options{Source: Binary})
	if errors.Is(err, ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "postgresql") {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := s.Processes()
	if len(all) > 0 {
		session := 0
		if err := s.nodes[0].(*postgresNode).db.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&session); err != nil {
			t.Error(err)
		}
		found := false
		for _, p := range s.Processes() {
			found = found || p.PID == session
		}
		if !found {
			t.Errorf("the session %d is none of the server's processes %v", session, s.Processes())
		}
		before, err := s.Usage(t.Context())
		if err != nil {
			t.Error(err)
		}
		// Work that takes a processor and no time that is asserted.
		if _, err := s.nodes[0].(*postgresNode).db.ExecContext(t.Context(), "SELECT count(*) FROM generate_series(1, 1000000)"); err != nil {
			t.Error(err)
		}
		after, err := s.Usage(t.Context())
		if err != nil {
			t.Error(err)
		}
		if spent := between(before, after).CPU; math.IsNaN(spent) || spent < 5e6 {
			t.Errorf("counting to a million took %v ns of the server's CPU time", spent)
		}
		all = s.Processes()
	}
	waitsForNobody(t, s)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, p := range all {
		if p.Alive() {
			t.Errorf("process %d has outlived its server", p.PID)
		}
	}
}

// waitsForNobody sees that a Remove does not stand behind another, which may wait for a
// slow disk.
func waitsForNobody(t *testing.T, s *Server) {
	t.Helper()
	busy, err := s.nodes[0].(*postgresNode).db.Conn(t.Context())
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = busy.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Remove(ctx, "k"); err != nil {
		t.Errorf("Remove beside another one: %v", err)
	}
}
