package impls_test

import (
	"slices"
	"testing"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// hostile are statements that give each session that comes after them defaults under
// which nothing commits by itself or may be written, values are cut and quoted
// otherwise, and whoever waits or is idle is ended soon.
func hostile(kind string) []string {
	if kind == "mysql" {
		return []string{
			"SET GLOBAL tx_isolation = 'SERIALIZABLE'", "SET GLOBAL tx_read_only = 1",
			"SET GLOBAL autocommit = 0", "SET GLOBAL completion_type = 'RELEASE'", "SET GLOBAL unique_checks = 0",
			"SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,EMPTY_STRING_IS_NULL,PAD_CHAR_TO_FULL_LENGTH'",
			"SET GLOBAL time_zone = '-12:00'", "SET GLOBAL wait_timeout = 1", "SET GLOBAL interactive_timeout = 1",
			"SET GLOBAL idle_transaction_timeout = 1", "SET GLOBAL idle_readonly_transaction_timeout = 1", "SET GLOBAL idle_write_transaction_timeout = 1",
			"SET GLOBAL innodb_lock_wait_timeout = 1", "SET GLOBAL lock_wait_timeout = 1", "SET GLOBAL max_statement_time = 0.3",
		}
	}
	return []string{
		"ALTER ROLE postgres SET default_transaction_isolation = 'serializable'", "ALTER ROLE postgres SET default_transaction_deferrable = on",
		"ALTER ROLE postgres SET TimeZone = 'Pacific/Chatham'",
		"ALTER ROLE postgres SET idle_session_timeout = '300ms'", "ALTER ROLE postgres SET idle_in_transaction_session_timeout = '300ms'",
		"ALTER ROLE postgres SET lock_timeout = '50ms'", "ALTER ROLE postgres SET statement_timeout = '300ms'",
		"ALTER ROLE postgres SET default_transaction_read_only = on",
	}
}

// TestConformanceHostile runs it on databases whose defaults are hostile to every lock.
func TestConformanceHostile(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mysql", "postgresql"} {
		t.Run(kind, func(t *testing.T) {
			needs := lock.Needs{Kind: kind}
			s := start(t, needs, onBinary(t, kind, lock.Single), true) // never one that is somebody's
			db, err := database(kind, s.Deployment.Nodes[0])
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			db.SetMaxOpenConns(1) // a session that was there before
			for _, statement := range hostile(kind) {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			variants := slices.DeleteFunc(impls.All(), func(v lock.Variant) bool { return v.Needs.Kind != kind })
			if testing.Short() {
				variants = slices.DeleteFunc(variants, func(v lock.Variant) bool { return v.Algo != "sql-insert" && v.Algo != "sql-for-update" })
				t.Log("NOT RUN: -short leaves out all but sql-insert and sql-for-update")
			}
			conformOn(t, map[lock.Needs]*server.Server{needs: s}, variants, locktest.Options{}, true)
		})
	}
}
