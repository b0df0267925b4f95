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

// A server that is started takes as many connections as it is asked to.
func TestConns(t *testing.T) {
	for _, c := range []struct {
		kind, ask string
		conns     int
	}{
		{"mysql", "SELECT @@max_connections", 2345},
		{"postgresql", "SELECT current_setting('max_connections')::int", 1234},
	} {
		t.Run(c.kind, func(t *testing.T) {
			s, err := Start(t.Context(), lock.Needs{Kind: c.kind}, Options{Source: Binary, Conns: c.conns})
			if errors.Is(err, ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), c.kind) {
				t.Skipf("NOT RUN: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			if n, err := ask(t.Context(), s.nodes[0], c.ask); err != nil || n != c.conns {
				t.Errorf("it takes %d connections, want %d (%v)", n, c.conns, err)
			}
		})
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
