package sql

import (
	"context"
	"database/sql/driver"
	"time"
)

// youngTries is how often a session is made that the server ends before it has its settings.
// One that ends them all is not knocked at for ever.
const youngTries = 5

// youngPause is waited before the second of them, and as much longer before each other one.
const youngPause = 50 * time.Millisecond

// A patient connector finishes what it has begun: a caller whose context ends while
// a connection is being made leaves it to the next one. Database servers make a
// process or a thread for each that knocks, also for one that has left again, so
// that callers who knock and leave faster than that would lock themselves out.
type patient struct {
	driver.Connector

	timeout time.Duration
	dials   chan struct{}    // holds one for each connection that is being made
	spare   chan driver.Conn // from a dial whose caller has left to one who waits
}

// patiently makes at most n connections at a time, each in timeout at the most.
func patiently(c driver.Connector, n int, timeout time.Duration) *patient {
	return &patient{Connector: c, timeout: timeout, dials: make(chan struct{}, n), spare: make(chan driver.Conn)}
}

// Connect implements driver.Connector.
func (p *patient) Connect(ctx context.Context) (driver.Conn, error) {
	select {
	case p.dials <- struct{}{}:
	case c := <-p.spare:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	type result struct {
		conn driver.Conn
		err  error
	}
	mine, left := make(chan result), make(chan struct{})
	go func() {
		dialling, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
		defer cancel()
		c, err := p.Connector.Connect(dialling)
		for tries := 1; tries < youngTries && endedYoung(err) && dialling.Err() == nil; tries++ {
			select { // the server may not have seen the end of the last one yet
			case <-time.After(time.Duration(tries) * youngPause):
			case <-dialling.Done():
			}
			c, err = p.Connector.Connect(dialling)
		}
		<-p.dials
		select {
		case mine <- result{c, err}:
			return
		case <-left:
		}
		if err != nil {
			return // nobody is left to be told
		}
		select {
		case p.spare <- c:
		default:
			_ = c.Close() // nobody has used it
		}
	}()
	select {
	case r := <-mine:
		return r.conn, r.err
	case c := <-p.spare:
		close(left)
		return c, nil
	case <-ctx.Done():
		close(left)
		return nil, ctx.Err()
	}
}
