package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/stdlib"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockbench/lockbench/impls/lock"
)

// ErrNoSessions says that a kind of server keeps no sessions, or shows none.
var ErrNoSessions = errors.New("server: it shows no sessions")

// A Session is what a server keeps for a client: a connection of a database, a session of
// ZooKeeper, a lease of etcd.
type Session struct {
	ID string // as the server writes it
	// Last is the statement that a session of PostgreSQL has run last; "" elsewhere.
	Last string
}

// sessioned is a node whose server keeps sessions.
type sessioned interface {
	sessions(ctx context.Context) ([]Session, error)
	// endSession may return before the session has ended.
	endSession(ctx context.Context, id string) error
}

// Sessions lists the sessions of the first node, those of this package among them.
func (s *Server) Sessions(ctx context.Context) ([]Session, error) {
	n, err := s.sessioned()
	if err != nil {
		return nil, err
	}
	list, err := n.sessions(ctx)
	if err != nil {
		return nil, s.nodeErr("sessions", 0, err)
	}
	return list, nil
}

// EndSession has the first node end a session, as an administrator would or as the server
// does by itself when it takes a client for dead, and returns when it has ended. The client
// is not asked.
func (s *Server) EndSession(ctx context.Context, id string) error {
	n, err := s.sessioned()
	if err == nil {
		err = n.endSession(ctx, id)
	}
	if err != nil {
		return s.nodeErr("end session "+id, 0, err)
	}
	err = await(ctx, "session "+id+" goes on", func(ctx context.Context) error {
		list, err := n.sessions(ctx)
		if err == nil && slices.ContainsFunc(list, func(one Session) bool { return one.ID == id }) {
			err = errors.New("it is still there")
		}
		return err
	})
	if err != nil {
		return s.nodeErr("end session", 0, err)
	}
	return nil
}

func (s *Server) sessioned() (sessioned, error) {
	nodes := s.connected()
	if len(nodes) == 0 {
		return nil, ErrNoSessions
	}
	n, ok := nodes[0].(sessioned)
	if !ok {
		return nil, ErrNoSessions
	}
	return n, nil
}

// Outlasts opens a session with the defaults of the first node, a database, and reports
// whether it goes on when it has been idle for d, or busy with one statement.
func (s *Server) Outlasts(ctx context.Context, d time.Duration, busy bool) (bool, error) {
	if s.Kind != "mysql" && s.Kind != "postgresql" || len(s.Deployment.Nodes) == 0 {
		return false, ErrNoSessions
	}
	db, err := plainSQL(s.Deployment.Nodes[0])
	if err != nil {
		return false, err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(ctx, patience+d)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	began := time.Now()
	if busy {
		_, err := conn.ExecContext(ctx, sleep(s.Deployment.Nodes[0]), d.Seconds())
		// MariaDB ends a SLEEP that takes too long without an error.
		return err == nil && time.Since(began) >= d, ctx.Err()
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	_, err = conn.ExecContext(ctx, "SELECT 1")
	return err == nil, ctx.Err()
}

// plainSQL is openSQL for sessions that have all the defaults of the server.
func plainSQL(e lock.Endpoint) (*sql.DB, error) {
	if isPostgres(e) {
		o, err := postgresConfig(e)
		if err != nil {
			return nil, err
		}
		o.AfterConnect = nil
		return stdlib.OpenDB(*o), nil
	}
	o, err := mysqlConfig(e)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(o)
	if err != nil {
		return nil, errNoMySQL
	}
	return sql.OpenDB(connector), nil
}

// sleep is a statement that takes ? seconds.
func sleep(e lock.Endpoint) string {
	if isPostgres(e) {
		return "SELECT pg_sleep($1)"
	}
	return "SELECT SLEEP(?)"
}

func (n *postgresNode) sessions(ctx context.Context) ([]Session, error) {
	return n.listed(ctx, "SELECT pid::text, query FROM pg_stat_activity WHERE backend_type = 'client backend'")
}

func (n *postgresNode) endSession(ctx context.Context, id string) error {
	pid, err := strconv.Atoi(id)
	if err == nil {
		_, err = n.db.ExecContext(ctx, "SELECT pg_terminate_backend($1, 10000)", pid)
	}
	return err
}

func (n *mysqlNode) sessions(ctx context.Context) ([]Session, error) {
	return n.listed(ctx, "SELECT ID, '' FROM information_schema.PROCESSLIST WHERE USER <> 'system user' AND USER <> 'event_scheduler'")
}

func (n *mysqlNode) endSession(ctx context.Context, id string) error {
	number, err := strconv.ParseInt(id, 10, 64)
	if err == nil {
		_, err = n.kill(ctx, number)
	}
	return err
}

// listed reads sessions from the two columns of query.
func (n *sqlNode) listed(ctx context.Context, query string) (list []Session, err error) {
	rows, err := n.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var one Session
		var last sql.NullString
		if err := rows.Scan(&one.ID, &last); err != nil {
			return nil, err
		}
		one.Last = last.String
		list = append(list, one)
	}
	return list, rows.Err()
}

func (n *etcdNode) sessions(ctx context.Context) (list []Session, err error) {
	r, err := n.client.Leases(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range r.Leases {
		list = append(list, Session{ID: strconv.FormatInt(int64(l.ID), 16)})
	}
	return list, nil
}

func (n *etcdNode) endSession(ctx context.Context, id string) error {
	number, err := strconv.ParseInt(id, 16, 64)
	if err == nil {
		_, err = n.client.Revoke(ctx, clientv3.LeaseID(number))
	}
	return err
}

// sessions reads them from the word dump, in which each has a line of its own: its number,
// and in an ensemble its time-out behind that.
func (n *keeperNode) sessions(ctx context.Context) (list []Session, err error) {
	text, err := word(ctx, n.hosts[0], "dump")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		id, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if number, ok := strings.CutPrefix(id, "0x"); ok && !strings.Contains(number, ":") { // else it begins a list of nodes
			list = append(list, Session{ID: id})
		}
	}
	return list, nil
}

func (n *keeperNode) endSession(ctx context.Context, id string) error {
	number, err := strconv.ParseUint(strings.TrimPrefix(id, "0x"), 16, 64)
	if err != nil {
		return fmt.Errorf("%q is no number of a session", id)
	}
	return closeKeeperSession(ctx, n.hosts[0], number)
}
