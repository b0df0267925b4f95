package sql

import (
	"context"
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

// EarlyStatementTimeouts is the statement_timeout of three sessions at ep that were opened
// with settings: two of one database, and one that is a connection by itself.
func EarlyStatementTimeouts(ctx context.Context, ep lock.Endpoint, settings map[string]string) ([]string, error) {
	const ask = "SHOW statement_timeout"
	o, err := configPostgres(ep, lock.Config{}.Filled(), nil)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(earlyConnector(o, settings))
	db.SetMaxIdleConns(-1) // each statement has a session of its own
	defer func() { _ = db.Close() }()
	seen := make([]string, 3)
	for i := range 2 {
		if err := db.QueryRowContext(ctx, ask).Scan(&seen[i]); err != nil {
			return nil, err
		}
	}
	conn, err := connectEarly(ctx, &o.Config, settings)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	results, err := conn.Exec(ctx, ask).ReadAll()
	if err != nil {
		return nil, err
	}
	seen[2] = string(results[0].Rows[0][0])
	return seen, nil
}
