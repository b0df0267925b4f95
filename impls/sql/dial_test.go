package sql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// gate is a connector whose dials end when they are let through.
type gate struct {
	driver.Connector
	begun chan struct{}
	open  chan error
}

type plug struct {
	driver.Conn
	closed chan struct{}
}

func (p *plug) Close() error { close(p.closed); return nil }

func (g *gate) Connect(ctx context.Context) (driver.Conn, error) {
	g.begun <- struct{}{}
	select {
	case err := <-g.open:
		if err != nil {
			return nil, err
		}
		return &plug{closed: make(chan struct{})}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type dialled struct {
	conn driver.Conn
	err  error
}

func connect(ctx context.Context, p *patient) <-chan dialled {
	c := make(chan dialled, 1)
	go func() {
		conn, err := p.Connect(ctx)
		c <- dialled{conn, err}
	}()
	return c
}

// A caller who leaves stops no dial; who comes next has the connection, and no more
// are made at a time than allowed.
func TestPatientDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{begun: make(chan struct{}, 9), open: make(chan error)}
		p := patiently(g, 1, time.Minute)
		short, cancel := context.WithCancel(t.Context())
		first := connect(short, p)
		<-g.begun
		cancel()
		if r := <-first; !errors.Is(r.err, context.Canceled) {
			t.Fatalf("a caller who has left: %v", r.err)
		}
		second := connect(t.Context(), p)
		synctest.Wait()
		if len(g.begun) > 0 {
			t.Fatal("two connections are being made, and one is allowed")
		}
		g.open <- nil
		// It is the second's, or the second makes one of its own, in any order of the two.
		synctest.Wait()
		select {
		case r := <-second:
			if r.err != nil {
				t.Fatal(r.err)
			}
		default:
			<-g.begun
			g.open <- nil
			if r := <-second; r.err != nil {
				t.Fatal(r.err)
			}
		}
		third := connect(t.Context(), p)
		<-g.begun
		broken := errors.New("broken")
		g.open <- broken
		if r := <-third; !errors.Is(r.err, broken) {
			t.Fatalf("a dial that failed: %v", r.err)
		}
	})
}

// A dial that hangs ends after its time, for whoever waits.
func TestPatientDialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{begun: make(chan struct{}, 9), open: make(chan error)}
		p := patiently(g, 1, time.Minute)
		start := time.Now()
		if _, err := p.Connect(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("it ended after %v", took)
		}
	})
}

// A connection that nobody wants any more is closed.
func TestPatientDialCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := &plug{closed: make(chan struct{})}
		let := make(chan struct{})
		p := patiently(connectorFunc(func(context.Context) (driver.Conn, error) {
			<-let
			return made, nil
		}), 1, time.Minute)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Connect(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		close(let)
		<-made.closed
	})
}

type connectorFunc func(context.Context) (driver.Conn, error)

func (f connectorFunc) Connect(ctx context.Context) (driver.Conn, error) { return f(ctx) }
func (connectorFunc) Driver() driver.Driver                              { return nil }

// A session that the server has ended before it had its settings is replaced by another one.
// Any other refusal is the caller's to hear.
func TestEndedYoung(t *testing.T) {
	idle := &pgconn.PgError{Code: "57P05"}
	for _, c := range []struct {
		err   error
		again bool
	}{
		{fmt.Errorf("%w: %w", errUnsettled, idle), true},
		{fmt.Errorf("%w: %w", errUnsettled, &mysql.MySQLError{Number: 4031}), true},
		{fmt.Errorf("%w: %w", errUnsettled, mysql.ErrInvalidConn), true},
		{fmt.Errorf("%w: %w", errUnsettled, &pgconn.PgError{Code: "42501"}), false},
		{fmt.Errorf("%w: %w", errUnsettled, context.Canceled), false},
		{idle, false}, // it had its settings
	} {
		g := &gate{begun: make(chan struct{}, 9), open: make(chan error, 2)}
		g.open <- c.err
		g.open <- nil
		d := <-connect(t.Context(), patiently(g, 1, time.Minute))
		if (d.err == nil) != c.again || !c.again && !errors.Is(d.err, c.err) {
			t.Errorf("after %v: %v", c.err, d.err)
		}
	}
}
