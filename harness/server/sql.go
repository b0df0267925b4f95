package server

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockbench/lockbench/impls/lock"
)

// openSQL prepares connections to the database at e.
func openSQL(e lock.Endpoint) (*sql.DB, error) {
	if isPostgres(e) {
		o, err := postgresConfig(e)
		if err != nil {
			return nil, err
		}
		db := stdlib.OpenDB(*o)
		// Each row that is removed waits for the server's disk, and several can wait at once.
		db.SetMaxOpenConns(8)
		db.SetMaxIdleConns(1)
		return db, nil
	}
	o, err := mysqlConfig(e)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(o)
	if err != nil {
		return nil, errNoMySQL
	}
	db := sql.OpenDB(writing{connector})
	db.SetMaxOpenConns(1)
	return db, nil
}

// writing makes connections whose statements commit by themselves, may write and may
// take their time, whatever the defaults of the server are: what is removed has to be
// gone. What stands behind /*M! is for MariaDB.
type writing struct{ driver.Connector }

// Connect implements driver.Connector.
func (w writing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"SET SESSION autocommit = 1, wait_timeout = 28800, innodb_lock_wait_timeout = 50 /*M!100300 , max_statement_time = 0 */",
		"SET SESSION TRANSACTION READ WRITE",
	} {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

var (
	errNoMySQL    = errors.New("the address is no URL of a MySQL database: want mysql://USER:PASSWORD@HOST[:PORT]/DATABASE")
	errNoPostgres = errors.New("the address is no URL of a PostgreSQL database: want postgres://USER:PASSWORD@HOST[:PORT]/DATABASE")
)

// isPostgres goes by the scheme of e.
func isPostgres(e lock.Endpoint) bool {
	scheme, _, _ := strings.Cut(e.Reveal(), "://")
	return scheme == "postgres" || scheme == "postgresql"
}

// mysqlConfig reads an address of a MySQL.
func mysqlConfig(e lock.Endpoint) (*mysql.Config, error) {
	u, err := url.Parse(e.Reveal())
	if err != nil || u.Scheme != "mysql" || u.Hostname() == "" {
		return nil, errNoMySQL
	}
	o := mysql.NewConfig()
	o.User = u.User.Username()
	o.Passwd, _ = u.User.Password()
	o.Net, o.Addr, o.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
	if u.Port() == "" {
		o.Addr += ":3306"
	}
	if o.DBName == "" {
		return nil, errors.New("the address names no database: want mysql://USER:PASSWORD@HOST:PORT/DATABASE")
	}
	o.TLSConfig = u.Query().Get("tls")
	o.Timeout, o.InterpolateParams, o.Logger = patience, true, &mysql.NopLogger{}
	return o, nil
}

// postgresConfig reads an address of a PostgreSQL.
func postgresConfig(e lock.Endpoint) (*pgx.ConnConfig, error) {
	u, err := url.Parse(e.Reveal())
	if err != nil || !isPostgres(e) || u.Hostname() == "" {
		return nil, errNoPostgres
	}
	o, err := pgx.ParseConfig(e.Reveal())
	if err != nil {
		return nil, errNoPostgres // its own may quote the address
	}
	o.ConnectTimeout = patience
	o.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		_, err := conn.Exec(ctx, `SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
			SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
			SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'`).ReadAll()
		return err
	}
	return o, nil
}

// mysqlHosts is the hosts of mysqlKind.
func mysqlHosts(e lock.Endpoint) ([]string, error) {
	o, err := mysqlConfig(e)
	if err != nil {
		return nil, err
	}
	return []string{o.Addr}, nil
}

// postgresHosts is the hosts of postgresKind, without the sockets of this machine.
func postgresHosts(e lock.Endpoint) (hosts []string, err error) {
	o, err := postgresConfig(e)
	if err != nil {
		return nil, err
	}
	add := func(host string, port uint16) {
		at := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if !strings.HasPrefix(host, "/") && !slices.Contains(hosts, at) {
			hosts = append(hosts, at)
		}
	}
	add(o.Host, o.Port)
	for _, f := range o.Fallbacks { // with TLS and without, and other hosts
		add(f.Host, f.Port)
	}
	return hosts, nil
}

// pingSQL asks once whether the database at e answers.
func pingSQL(ctx context.Context, e lock.Endpoint) error {
	db, err := openSQL(e)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return db.PingContext(ctx)
}

// sqlNode is what the administrator's views of databases share.
type sqlNode struct {
	db *sql.DB
	is about
}

func (n *sqlNode) about() about { return n.is }

// close returns no error: there is nothing to save, and the server may have ended what was
// idle.
func (n *sqlNode) close() error {
	_ = n.db.Close()
	return nil
}

func (n *sqlNode) rtt(ctx context.Context, count int) ([]time.Duration, error) {
	conn, err := n.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	var list []time.Duration
	for i := range 10 + max(count, 0) { // the first ones warm both sides up
		start := time.Now()
		if _, err := conn.ExecContext(ctx, "SELECT 1"); err != nil {
			return list, err
		}
		if i >= 10 {
			list = append(list, time.Since(start))
		}
	}
	return list, nil
}

// strings lists the first column of what query returns.
func (n *sqlNode) strings(ctx context.Context, query string, args ...any) (list []string, err error) {
	rows, err := n.db.QueryContext(ctx, query, args...)
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

// singleLine keeps what a library says of several attempts on one line.
type singleLine struct{ error }

func (s singleLine) Error() string { return strings.Join(strings.Fields(s.error.Error()), " ") }
func (s singleLine) Unwrap() error { return s.error }

// leadingVersion is the number before whatever a distribution adds.
func leadingVersion(text string) string {
	version, _, _ := strings.Cut(text, " ")
	return version
}

// sqlClock is the wall clock of the database at e, which query reads in seconds.
func sqlClock(ctx context.Context, e lock.Endpoint, query string) (time.Time, error) {
	db, err := openSQL(e)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = db.Close() }()
	var seconds float64
	err = db.QueryRowContext(ctx, query).Scan(&seconds)
	return time.UnixMicro(int64(seconds * 1e6)), err
}
