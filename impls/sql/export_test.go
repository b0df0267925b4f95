package sql

import (
	"database/sql"

	"github.com/lockbench/lockbench/impls/lock"
)

// Database opens the database at ep as a lock does.
func Database(kind string, ep lock.Endpoint) (*sql.DB, error) {
	d := dialectOf(kind)
	return d.open(ep, lock.Config{Conns: 4}.Filled(), d.settle)
}

// BareDatabase is Database with the settings that the server gives its sessions.
func BareDatabase(kind string, ep lock.Endpoint) (*sql.DB, error) {
	return dialectOf(kind).open(ep, lock.Config{Conns: 4}.Filled(), nil)
}

// Bare lists the locks that are bound to a session, whose sessions keep the settings that
// the server gives them, as where those of a client are refused.
func Bare(kind string) []lock.Variant {
	d := dialectOf(kind)
	d.settle = nil
	return []lock.Variant{forUpdate(d), advisory(d)}
}

func dialectOf(kind string) *dialect {
	if kind == "postgresql" {
		return postgres()
	}
	return mariadb()
}
