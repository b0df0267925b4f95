package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// earlyPostgres are those settings that go with the packet which opens a session, lest a
// default of the server ends the session, or its first statement, before settlePostgres is
// through: a busy client sends that late.
func earlyPostgres() map[string]string {
	return map[string]string{"idle_session_timeout": "0", "statement_timeout": "0"}
}

// refusesEarly reports whether err says that a server knows a setting not, as PostgreSQL
// before 14 does not know idle_session_timeout, or that a pooler lets none through.
func refusesEarly(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "42704" || e.Code == "08P01")
}

// early opens sessions with settings in their first packet, and without them once the
// server has refused those.
type early struct {
	with, plain driver.Connector
	refused     atomic.Bool
}

// earlyConnector is the connector of o with settings, none of which has to be known there.
func earlyConnector(o *pgx.ConnConfig, settings map[string]string, options ...stdlib.OptionOpenDB) driver.Connector {
	plain := stdlib.GetConnector(*o, options...)
	if len(settings) == 0 {
		return plain
	}
	with := o.Copy()
	maps.Copy(with.RuntimeParams, settings)
	return &early{with: stdlib.GetConnector(*with, options...), plain: plain}
}

// Connect implements driver.Connector.
func (e *early) Connect(ctx context.Context) (driver.Conn, error) {
	if !e.refused.Load() {
		conn, err := e.with.Connect(ctx)
		if !refusesEarly(err) {
			return conn, err
		}
		e.refused.Store(true)
	}
	return e.plain.Connect(ctx)
}

// Driver implements driver.Connector.
func (e *early) Driver() driver.Driver { return e.plain.Driver() }

// connectEarly is early for one connection that is no driver's.
func connectEarly(ctx context.Context, o *pgconn.Config, settings map[string]string) (*pgconn.PgConn, error) {
	with := o.Copy()
	maps.Copy(with.RuntimeParams, settings)
	conn, err := pgconn.ConnectConfig(ctx, with)
	if refusesEarly(err) {
		return pgconn.ConnectConfig(ctx, o)
	}
	return conn, err
}
