package sql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockbench/lockbench/impls/lock"
)

// A session of ours sets what the algorithms rely on, whatever the defaults of the
// server, of the database and of the user are: that each statement commits by itself,
// and may write; the isolation that the systems come with; that values that do not fit
// are refused and not cut; and that nothing ends a session which holds a key, or a wait
// for one, because it has lasted for some time.
//
// A server or a proxy may set a bound to what a session can choose (mariadbd
// --maximum-wait-timeout), so that after that the session is asked how long it may be
// idle; see session.idle. A pooler that hands sessions from client to client between
// transactions resets what was set, or gives it to somebody else: no lock that is bound
// to a session works behind it.

// settleMySQL is for MariaDB and MySQL. The first statement lets the server cut what
// exceeds a bound of its own, where strict modes would refuse all. /*M!100300 is read by
// MariaDB from 10.3 alone, /*!50708 by MySQL from 5.7.8 alone.
func settleMySQL() []string {
	return []string{
		`SET SESSION sql_mode = ''`,
		`SET SESSION autocommit = 1, completion_type = 0, unique_checks = 1, time_zone = '+00:00',
			wait_timeout = 31536000, lock_wait_timeout = 31536000, innodb_lock_wait_timeout = 100000000
			/*M!100300 , max_statement_time = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0 */
			/*!50708 , max_execution_time = 0 */
			, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'`,
		`SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE`,
	}
}

// settlePostgres is for PostgreSQL, where every user may set all of this. The first text
// goes before the second, so that no limit and no default ends or delays that: it sets
// what not every version has.
func settlePostgres() []string {
	return []string{
		`SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
			SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
			SET default_transaction_deferrable = off; SET TimeZone = 'UTC'`,
		`SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout')`,
	}
}

// errUnsettled is that a session did not take its settings.
var errUnsettled = errors.New("the session takes no settings")

// endedYoung reports whether err says that a session was ended before it had its settings, as
// a server does whose default is that sessions may be idle for less time than a busy client
// takes to send them. Nothing was done in it, and the next one may be quicker.
func endedYoung(err error) bool {
	var theirs *pgconn.PgError
	var others *mysql.MySQLError
	switch {
	case !errors.Is(err, errUnsettled):
		return false
	case errors.As(err, &theirs):
		return theirs.Code == "57P05" // idle_session_timeout
	case errors.As(err, &others):
		return others.Number == 4031 // ER_CLIENT_INTERACTION_TIMEOUT
	}
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn)
}

// settled makes connections on which statements have been run.
type settled struct {
	driver.Connector
	statements []string
}

// Connect implements driver.Connector.
func (s settled) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, statement := range s.statements {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			return nil, lock.Discard(conn, fmt.Errorf("%w: %w", errUnsettled, err))
		}
	}
	return conn, nil
}

// settling is settled for the library of PostgreSQL, which has a place for it.
func settling(statements []string) func(context.Context, *pgconn.PgConn) error {
	return func(ctx context.Context, conn *pgconn.PgConn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement).ReadAll(); err != nil {
				return fmt.Errorf("%w: %w", errUnsettled, err)
			}
		}
		return nil
	}
}

// facts are what a session tells of itself.
type facts struct {
	id int64 // the server's number of it
	// idle is after how long without a statement the server ends it at the earliest; 0
	// is never.
	idle time.Duration
}

func factsMySQL(ctx context.Context, conn *sql.Conn) (f facts, err error) {
	var seconds int64
	err = conn.QueryRowContext(ctx, `SELECT CONNECTION_ID(), LEAST(@@wait_timeout, @@wait_timeout
		/*M!100300 , COALESCE(NULLIF(@@idle_transaction_timeout, 0), @@wait_timeout),
		COALESCE(NULLIF(@@idle_readonly_transaction_timeout, 0), @@wait_timeout),
		COALESCE(NULLIF(@@idle_write_transaction_timeout, 0), @@wait_timeout) */)`).Scan(&f.id, &seconds)
	f.idle = lock.Lasting(seconds, time.Second)
	return f, err
}

func factsPostgres(ctx context.Context, conn *sql.Conn) (f facts, err error) {
	err = conn.Raw(func(c any) error {
		f.id = int64(c.(*stdlib.Conn).Conn().PgConn().PID())
		return nil
	})
	if err != nil {
		return f, err
	}
	var ms int64
	err = conn.QueryRowContext(ctx, `SELECT COALESCE(MIN(NULLIF(setting::bigint, 0)), 0) FROM pg_settings
		WHERE name IN ('idle_in_transaction_session_timeout', 'idle_session_timeout')`).Scan(&ms)
	f.idle = lock.Lasting(ms, time.Millisecond)
	return f, err
}
