package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

// A server that starts removes the temporary tables of others that share its
// directory for them. While they were all in /tmp, two that were made at once could
// fail, and a server of the user's could have lost its own.
func TestMySQLTemporaryTables(t *testing.T) {
	s, err := Start(t.Context(), lock.Needs{Kind: "mysql"}, Options{Source: Binary})
	if errors.Is(err, ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "mysql") {
		t.Skipf("NOT RUN: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var tmp, data string
	row := s.nodes[0].(*mysqlNode).db.QueryRowContext(t.Context(), "SELECT @@tmpdir, @@datadir")
	if err := row.Scan(&tmp, &data); err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(filepath.Clean(data)) != tmp {
		t.Errorf("temporary tables are in %s, and the server is in %s", tmp, data)
	}
}

// Why no database could be made is said, and not where to post bugs.
func TestInstallError(t *testing.T) {
	const end = "\n\nThe latest information about mariadb-install-db is available at\nsome page.\nPlease post bugs at\nsome other page\n"
	for out, want := range map[string]string{
		"Installing MariaDB/MySQL system tables in 'd' ...\n2026-11-23 9:02:21 1 [Warning] Could not remove temporary table: 'd', error: 2\n2026-11-23 9:02:22 0 [ERROR] InnoDB: Cannot open 'd/ibdata1'\n2026-11-23 9:02:22 0 [ERROR] Aborting" + end: "2026-11-23 9:02:22 0 [ERROR] InnoDB: Cannot open 'd/ibdata1'",
		"mkdir: cannot create directory 'd'\nFatal error Can't create database directory 'd'" + end: "Fatal error Can't create database directory 'd'",
		"gone\n": "gone",
		"":       "it said nothing",
	} {
		if got := installError([]byte(out)); got != want {
			t.Errorf("of %q it says %q, want %q", out, got, want)
		}
	}
}
