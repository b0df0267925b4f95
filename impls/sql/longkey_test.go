package sql_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

// A key that has no room is refused and not cut, also where the server's default is to
// cut: a cut one would be another's key as well, and its row would never be found again.
func TestKeyIsNotCut(t *testing.T) {
	s := serveOwn(t, "mysql")
	db := database(t, s)
	change(t, db, "SET GLOBAL sql_mode = ''")
	for algo, table := range map[string]string{
		"sql-insert": "lockbench_insert", "sql-version": "lockbench_version", "sql-lease": "lockbench_lease", "sql-for-update": "lockbench_for_update",
	} {
		l := opened(t, algo, s, lock.Config{})
		lease, err := l.(lock.Tryer).TryAcquire(t.Context(), strings.Repeat("k", 3000))
		if lease != nil || err == nil || errors.Is(err, lock.ErrHeld) {
			t.Errorf("%s: a key of 3000 bytes: lease %v, error %v", algo, lease, err)
		}
		var rows int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		if rows != 0 {
			t.Errorf("%s: %d rows are left of a key that was refused", algo, rows)
		}
	}
}
