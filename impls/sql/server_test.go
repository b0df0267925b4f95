package sql_test

import (
	"database/sql"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	locks "github.com/lockbench/lockbench/impls/sql"
)

// databases starts each kind of SQL server for as long as t runs, or skips.
func databases(t *testing.T, run func(t *testing.T, s *server.Server)) {
	for _, kind := range []string{"mysql", "postgresql"} {
		t.Run(kind, func(t *testing.T) { run(t, serve(t, kind)) })
	}
}

// serve starts a server of a kind until the end of t, or skips t, or fails it where
// LOCKBENCH_REQUIRE lists the kind.
func serve(t *testing.T, kind string) *server.Server {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	return serveFrom(t, kind, o)
}

// serveOwn is serve for a test that changes the server, which must be nobody else's.
func serveOwn(t *testing.T, kind string) *server.Server {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	if o.URLs = nil; o.Source == server.URL {
		o.Source = ""
	}
	return serveFrom(t, kind, o)
}

func serveFrom(t *testing.T, kind string, o server.Options) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), lock.Needs{Kind: kind}, o)
	switch {
	case errors.Is(err, server.ErrMissing) && slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), kind):
		t.Fatalf("LOCKBENCH_REQUIRE lists %s: %v", kind, err)
	case errors.Is(err, server.ErrMissing):
		t.Skipf("NOT RUN: there is no %s here; get it with scripts/servers %s", kind, kind)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// database is that of s until the end of t.
func database(t *testing.T, s *server.Server) *sql.DB {
	t.Helper()
	db, err := locks.Database(s.Kind, s.Deployment.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// opened is a Locker of algo on s.
func opened(t *testing.T, algo string, s *server.Server, c lock.Config) lock.Locker {
	t.Helper()
	return openedOf(t, locks.Variants(), algo, s, c)
}

// openedOf is opened for a lock of list.
func openedOf(t *testing.T, list []lock.Variant, algo string, s *server.Server, c lock.Config) lock.Locker {
	t.Helper()
	for _, v := range list {
		if v.Algo != algo || v.Needs.Kind != s.Kind {
			continue
		}
		l, err := v.Open(t.Context(), s.Deployment, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	t.Fatalf("there is no %s on %s", algo, s.Kind)
	return nil
}
