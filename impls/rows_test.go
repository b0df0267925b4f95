package impls_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockbench/lockbench/impls/lock"
)

// database opens the one that a server of kind was started with, for statements that
// may take their time.
func database(kind string, ep lock.Endpoint) (*sql.DB, error) {
	if kind == "postgresql" {
		o, err := pgx.ParseConfig(ep.Reveal())
		if err != nil {
			return nil, err
		}
		o.RuntimeParams["statement_timeout"] = "0"
		return stdlib.OpenDB(*o), nil
	}
	u, err := url.Parse(ep.Reveal())
	if err != nil {
		return nil, err
	}
	o := mysql.NewConfig()
	o.User, o.Net, o.Addr, o.DBName = u.User.Username(), "tcp", u.Host, strings.Trim(u.Path, "/")
	o.Passwd, _ = u.User.Password()
	o.Params = map[string]string{"autocommit": "1 /*M!100300 , max_statement_time = 0 */"}
	c, err := mysql.NewConnector(o)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// findRows lists the keys that contain part in the tables of impls/sql.
func findRows(ctx context.Context, kind string, ep lock.Endpoint, part string) (found []string, err error) {
	db, err := database(kind, ep)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tables := `SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME LIKE 'lockbench%' AND TABLE_SCHEMA = DATABASE()`
	query := `SELECT CONVERT(resource USING latin1) FROM %s WHERE INSTR(resource, ?) > 0`
	if kind == "postgresql" {
		tables = `SELECT 'lockbench.' || tablename FROM pg_tables WHERE schemaname = 'lockbench'`
		query = `SELECT encode(resource, 'escape') FROM %s WHERE position($1::bytea in resource) > 0`
	}
	list, err := texts(ctx, db, tables)
	for _, table := range list {
		more, e := texts(ctx, db, strings.Replace(query, "%s", table, 1), []byte(part))
		found, err = append(found, more...), errors.Join(err, e)
	}
	return found, err
}

// texts lists the first column of what query returns.
func texts(ctx context.Context, db *sql.DB, query string, args ...any) (list []string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}
