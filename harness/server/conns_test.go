package server

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

// A server that is started takes as many connections as it is asked to, and not fewer than
// by itself.
func TestConns(t *testing.T) {
	for _, c := range []struct {
		kind, ask     string
		conns, atMost int
	}{
		{"mysql", "SELECT @@max_connections", 2345, 2345}, {"mysql", "SELECT @@max_connections", 0, 2000},
		{"postgresql", "SELECT current_setting('max_connections')::int", 1234, 1234}, {"postgresql", "SELECT current_setting('max_connections')::int", 5, 1000},
	} {
		s, err := Start(t.Context(), lock.Needs{Kind: c.kind}, Options{Source: Binary, Conns: c.conns})
		if errors.Is(err, ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), c.kind) {
			t.Logf("NOT TESTED: %v", err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := ask(t.Context(), s.nodes[0], c.ask)
		if err != nil || n != c.atMost {
			t.Errorf("%s, asked for %d: it takes %d, want %d (%v)", c.kind, c.conns, n, c.atMost, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// ask is a number that a server tells.
func ask(ctx context.Context, n node, query string) (number int, err error) {
	switch n := n.(type) {
	case *mysqlNode:
		err = n.db.QueryRowContext(ctx, query).Scan(&number)
	case *postgresNode:
		err = n.db.QueryRowContext(ctx, query).Scan(&number)
	}
	return number, err
}
