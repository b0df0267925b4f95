package sql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/lockbench/lockbench/impls/lock"
)

// A dialect is everything in which two database systems differ: the same
// algorithms run on each. Keys are bytes, because a name must not exclude another
// that only sorts like it.
type dialect struct {
	kind, client string

	// open prepares connections to the server at ep, on each of which settle is run
	// first, and makes none.
	open   func(ep lock.Endpoint, c lock.Config, settle []string) (*sql.DB, error)
	settle []string
	// code is the server's code of an error, "" if the server did not send it.
	code func(err error) string

	duplicate string          // the code of a second row under one key
	busy      map[string]bool // of a statement that stood back for another, and did nothing
	waitAgain map[string]bool // of a wait that the server ended for reasons of its own

	schema []string // makes room for the tables
	tables map[string]string
	probe  func(table string) string // fails if there is no such table

	insert, free                     string // sql-insert
	look, seed, swap, swapBack       string // sql-version
	lease, leaseSeed                 string // sql-lease; the second only where lease updates alone
	leaseFree, leaseRenew            string
	anchor, await, awaitNot          string // sql-for-update: the row, its lock, and its lock or nothing
	advise, adviseNot, adviseRelease string // sql-advisory
	cancel                           string // ends what the session is waiting for
	adviseNothing                    string // gives back all that the session holds of sql-advisory
	advisory                         func(key string) any
	facts                            func(ctx context.Context, conn *sql.Conn) (facts, error)

	// listen, if not nil, opens a connection of its own on which what is told on channel
	// is heard, and says that a release tells it; see notifying.
	listen func(ctx context.Context, ep lock.Endpoint, c lock.Config, channel string, heard func(text string)) (listening, error)
	// leaseLeft asks for how many microseconds more a row is held, only where listen is
	// set.
	leaseLeft string
}

// mariadb is the dialect of MariaDB and MySQL.
func mariadb() *dialect {
	return &dialect{
		kind: "mysql", client: "mysql", open: openMySQL, settle: settleMySQL(), facts: factsMySQL,
		code: func(err error) string {
			var e *mysql.MySQLError
			if errors.As(err, &e) {
				return fmt.Sprint(e.Number)
			}
			return ""
		},
		duplicate: "1062",
		busy:      map[string]bool{"1205": true, "1213": true, "3572": true},
		// innodb_lock_wait_timeout, deadlock, max_statement_time, max_execution_time
		waitAgain: map[string]bool{"1205": true, "1213": true, "1969": true, "3024": true},
		tables: map[string]string{
			"insert":     `CREATE TABLE IF NOT EXISTS lockbench_insert (resource VARBINARY(2048) PRIMARY KEY, owner VARBINARY(64) NOT NULL) ENGINE=InnoDB`,
			"version":    `CREATE TABLE IF NOT EXISTS lockbench_version (resource VARBINARY(2048) PRIMARY KEY, owner VARBINARY(64), version BIGINT NOT NULL) ENGINE=InnoDB`,
			"lease":      `CREATE TABLE IF NOT EXISTS lockbench_lease (resource VARBINARY(2048) PRIMARY KEY, owner VARBINARY(64) NOT NULL, lock_until DATETIME(6) NOT NULL, token BIGINT NOT NULL) ENGINE=InnoDB`,
			"for_update": `CREATE TABLE IF NOT EXISTS lockbench_for_update (resource VARBINARY(2048) PRIMARY KEY) ENGINE=InnoDB`,
		},
		probe: func(table string) string { return "SELECT 1 FROM lockbench_" + table + " LIMIT 0" },

		insert: `INSERT INTO lockbench_insert (resource, owner) VALUES (?, ?)`,
		free:   `DELETE FROM lockbench_insert WHERE resource = ? AND owner = ?`,

		look:     `SELECT owner IS NULL, version FROM lockbench_version WHERE resource = ?`,
		seed:     `INSERT INTO lockbench_version (resource, owner, version) VALUES (?, NULL, 0)`,
		swap:     `UPDATE lockbench_version SET owner = ?, version = version + 1 WHERE resource = ? AND version = ? AND owner IS NULL`,
		swapBack: `UPDATE lockbench_version SET owner = NULL, version = version + 1 WHERE resource = ? AND version = ? AND owner = ?`,

		lease: `UPDATE lockbench_lease SET owner = ?, lock_until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, token = LAST_INSERT_ID(token + 1)
			WHERE resource = ? AND lock_until <= UTC_TIMESTAMP(6)`,
		leaseSeed: `INSERT INTO lockbench_lease (owner, lock_until, resource, token) VALUES (?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?, 1)`,
		leaseFree: `UPDATE lockbench_lease SET owner = '', lock_until = UTC_TIMESTAMP(6)
			WHERE resource = ? AND owner = ? AND lock_until > UTC_TIMESTAMP(6)`,
		leaseRenew: `UPDATE lockbench_lease SET lock_until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
			WHERE resource = ? AND owner = ? AND lock_until > UTC_TIMESTAMP(6)`,

		anchor:   `INSERT INTO lockbench_for_update (resource) VALUES (?)`,
		await:    `SELECT 1 FROM lockbench_for_update WHERE resource = ? FOR UPDATE`,
		awaitNot: `SELECT 1 FROM lockbench_for_update WHERE resource = ? FOR UPDATE NOWAIT`,

		advise:        `SELECT GET_LOCK(?, 31536000)`,
		adviseNot:     `SELECT GET_LOCK(?, 0)`,
		adviseRelease: `SELECT RELEASE_LOCK(?)`,
		advisory:      func(key string) any { return AdvisoryName(key) },
		adviseNothing: `DO RELEASE_ALL_LOCKS()`,
		cancel:        `KILL QUERY ?`,
	}
}

// postgres is the dialect of PostgreSQL.
func postgres() *dialect {
	return &dialect{
		kind: "postgresql", client: "pgx", open: openPostgres, settle: settlePostgres(), facts: factsPostgres,
		code: func(err error) string {
			var e *pgconn.PgError
			if errors.As(err, &e) {
				return e.Code
			}
			return ""
		},
		duplicate: "23505",
		busy:      map[string]bool{"55P03": true, "40P01": true, "40001": true},
		waitAgain: map[string]bool{"55P03": true, "40P01": true}, // lock_timeout, deadlock
		schema:    []string{`CREATE SCHEMA IF NOT EXISTS lockbench`},
		tables: map[string]string{
			"insert":     `CREATE TABLE IF NOT EXISTS lockbench.insert (resource bytea PRIMARY KEY, owner text NOT NULL)`,
			"version":    `CREATE TABLE IF NOT EXISTS lockbench.version (resource bytea PRIMARY KEY, owner text, version bigint NOT NULL)`,
			"lease":      `CREATE TABLE IF NOT EXISTS lockbench.lease (resource bytea PRIMARY KEY, owner text NOT NULL, lock_until timestamptz NOT NULL, token bigint NOT NULL)`,
			"for_update": `CREATE TABLE IF NOT EXISTS lockbench.for_update (resource bytea PRIMARY KEY)`,
		},
		probe: func(table string) string { return "SELECT 1 FROM lockbench." + table + " LIMIT 0" },

		insert: `INSERT INTO lockbench.insert (resource, owner) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
		free:   `DELETE FROM lockbench.insert WHERE resource = $1 AND owner = $2`,

		look:     `SELECT owner IS NULL, version FROM lockbench.version WHERE resource = $1`,
		seed:     `INSERT INTO lockbench.version (resource, owner, version) VALUES ($1, NULL, 0) ON CONFLICT DO NOTHING`,
		swap:     `UPDATE lockbench.version SET owner = $1, version = version + 1 WHERE resource = $2 AND version = $3 AND owner IS NULL`,
		swapBack: `UPDATE lockbench.version SET owner = NULL, version = version + 1 WHERE resource = $1 AND version = $2 AND owner = $3`,

		// clock_timestamp, because now() is when the transaction began.
		lease: `INSERT INTO lockbench.lease AS l (owner, lock_until, resource, token)
			VALUES ($1, clock_timestamp() + $2::bigint * interval '1 microsecond', $3, 1)
			ON CONFLICT (resource) DO UPDATE SET owner = excluded.owner, lock_until = excluded.lock_until, token = l.token + 1
			WHERE l.lock_until <= clock_timestamp() RETURNING token`,
		leaseFree: `UPDATE lockbench.lease SET owner = '', lock_until = clock_timestamp()
			WHERE resource = $1 AND owner = $2 AND lock_until > clock_timestamp()`,
		leaseRenew: `UPDATE lockbench.lease SET lock_until = clock_timestamp() + $1::bigint * interval '1 microsecond'
			WHERE resource = $2 AND owner = $3 AND lock_until > clock_timestamp()`,

		anchor:   `INSERT INTO lockbench.for_update (resource) VALUES ($1) ON CONFLICT DO NOTHING`,
		await:    `SELECT 1 FROM lockbench.for_update WHERE resource = $1 FOR UPDATE`,
		awaitNot: `SELECT 1 FROM lockbench.for_update WHERE resource = $1 FOR UPDATE NOWAIT`,

		advise:        `SELECT 1 FROM pg_advisory_lock($1)`,
		adviseNot:     `SELECT pg_try_advisory_lock($1)::int`,
		adviseRelease: `SELECT pg_advisory_unlock($1)::int`,
		advisory:      func(key string) any { return AdvisoryNumber(key) },
		adviseNothing: `SELECT pg_advisory_unlock_all()`,
		cancel:        `SELECT pg_cancel_backend($1)`,
	}
}

// AdvisoryName is the name that sql-advisory gives to GET_LOCK for key. The server
// takes 64 characters and does not tell capitals from small letters, so only a key
// of at most 64 of a-z, 0-9 and -_:./{} stands for itself; any other becomes "lb:"
// and the first 40 hex digits of its SHA-256.
func AdvisoryName(key string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("-_:./{}", r)
	}
	if key != "" && len(key) <= 64 && strings.IndexFunc(key, func(r rune) bool { return !plain(r) }) < 0 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "lb:" + hex.EncodeToString(sum[:20])
}

// AdvisoryNumber is the number that sql-advisory gives to pg_advisory_lock for key:
// the first 8 bytes of its SHA-256, big-endian and signed. In SQL:
//
//	('x' || substr(encode(sha256(convert_to(KEY, 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint
func AdvisoryNumber(key string) int64 {
	sum := sha256.Sum256([]byte(key))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// errAddress never repeats any part of the address, because nobody can tell which
// part of a broken one is the password.
func errAddress(want string) error {
	return errors.New("sql: the address is no URL that can be used: want " + want)
}

func openMySQL(ep lock.Endpoint, c lock.Config, settle []string) (*sql.DB, error) {
	const want = "mysql://USER:PASSWORD@HOST:PORT/DATABASE"
	u, err := url.Parse(ep.Reveal())
	if err != nil || u.Scheme != "mysql" || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
		return nil, errAddress(want)
	}
	o := mysql.NewConfig()
	o.User = u.User.Username()
	o.Passwd, _ = u.User.Password()
	o.Net, o.Addr, o.DBName = "tcp", u.Host, strings.Trim(u.Path, "/")
	if u.Port() == "" {
		o.Addr += ":3306"
	}
	o.TLSConfig = u.Query().Get("tls")
	o.Timeout = c.Timeout
	// A statement is one round trip and not the three of a prepared one.
	o.InterpolateParams = true
	// The library would write remarks on its connections to standard error.
	o.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(o)
	if err != nil {
		return nil, errAddress(want)
	}
	return sql.OpenDB(patiently(settled{connector, settle}, c.Conns, c.Timeout)), nil
}

func openPostgres(ep lock.Endpoint, c lock.Config, settle []string) (*sql.DB, error) {
	o, err := configPostgres(ep, c, settle)
	if err != nil {
		return nil, err
	}
	var before map[string]string
	if len(settle) > 0 {
		before = earlyPostgres()
	}
	connector := earlyConnector(o, before, stdlib.OptionShouldPing(aliveWithin(c.Timeout)))
	return sql.OpenDB(patiently(connector, c.Conns, c.Timeout)), nil
}

// aliveWithin pings a connection that was idle for a second before it is used again,
// as the library does, but waits no longer than timeout for the answer. The library
// waits for as long as the caller's context lasts, and an Acquire, which may have to
// wait for a connection, has none that ends: beside a server that had stopped to
// answer it hung. One that did not answer is closed, so that the library's own ping
// fails at once.
func aliveWithin(timeout time.Duration) func(context.Context, stdlib.ShouldPingParams) bool {
	return func(ctx context.Context, p stdlib.ShouldPingParams) bool {
		if p.IdleDuration <= time.Second {
			return false
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return p.Conn.PgConn().Ping(ctx) != nil
	}
}

func configPostgres(ep lock.Endpoint, c lock.Config, settle []string) (*pgx.ConnConfig, error) {
	const want = "postgres://USER:PASSWORD@HOST:PORT/DATABASE"
	u, err := url.Parse(ep.Reveal())
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Hostname() == "" {
		return nil, errAddress(want)
	}
	o, err := pgx.ParseConfig(ep.Reveal())
	if err != nil {
		return nil, errAddress(want) // its text may quote the address
	}
	o.ConnectTimeout, o.AfterConnect = c.Timeout, settling(settle)
	return o, nil
}
