package sql

import (
	"database/sql"

	"github.com/lockbench/lockbench/impls/lock"
)

// Database opens the database at ep as a lock does.
func Database(kind string, ep lock.Endpoint) (*sql.DB, error) {
	c := lock.Config{Conns: 4}.Filled()
	if kind == "postgresql" {
		return openPostgres(ep, c, settlePostgres())
	}
	return openMySQL(ep, c, settleMySQL())
}
