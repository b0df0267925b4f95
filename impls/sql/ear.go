package sql

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lockbench/lockbench/impls/lock"
)

// ear hears which keys are freed, and wakes the waiters of one Locker. It has one
// connection, opened with the first wait and made anew whenever it is lost. One
// channel tells of all keys, so that nobody waits for the server to begin or to end
// listening to a key; what is told of a key that nobody waits for is dropped.
//
// It is only a hint when to try again, and no wait fails for it: whoever is deaf polls,
// and is woken when the ear hears again.
type ear struct {
	c    lock.Config
	dial func(ctx context.Context, heard func(text string)) (listening, error)

	running sync.WaitGroup

	mu      sync.Mutex
	end     context.CancelFunc // nil until somebody waits
	closed  bool
	hearing bool
	seats   map[string]*list.List // of *seat in the order of arrival, by what is told of the key
}

// listening is a connection on which messages are heard. It calls the function that it
// was opened with, by the goroutine that waits, for each.
type listening interface {
	// wait returns nil once it has heard something, or heard nothing for as long as a
	// statement may last and the server has answered since; else the connection is lost.
	wait(ctx context.Context) error
	close()
}

// seat is one waiter. Its bell rings when it should try again.
type seat struct {
	name  string
	place *list.Element
	bell  chan bool // takes one ring, so that none is missed during a try: true if its key was freed

	// Of its waiter alone:
	told  bool // it was rung, and no try has ended since
	freed bool // what it was rung with last, false if it has slept since
}

func newEar(c lock.Config, dial func(context.Context, func(string)) (listening, error)) *ear {
	return &ear{c: c, dial: dial, seats: make(map[string]*list.List)}
}

func newSeat(key string) *seat {
	sum := sha256.Sum256([]byte(key))
	return &seat{name: hex.EncodeToString(sum[:]), bell: make(chan bool, 1)}
}

// follow returns a seat behind those that there are, or nil if nobody waits for key or
// nothing is heard. Its waiter need not try before the bell rings: the first in the line
// has tried, or will, and rings for the next if it gives up.
func (e *ear) follow(key string) *seat {
	s := newSeat(key)
	e.mu.Lock()
	defer e.mu.Unlock()
	line := e.seats[s.name]
	if line == nil || !e.hearing {
		return nil
	}
	s.place = line.PushBack(s)
	return s
}

// join returns a seat, and whether all is heard from now on. If not, the bell rings
// once that is so.
func (e *ear) join(key string) (s *seat, hears bool) {
	s = newSeat(key)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end == nil && !e.closed {
		life, end := context.WithCancel(context.Background())
		e.end = end
		e.running.Go(func() { e.run(life) })
	}
	line := e.seats[s.name]
	if line == nil {
		line = list.New()
		e.seats[s.name] = line
	}
	s.place = line.PushBack(s)
	return s, e.hearing
}

// leave gives the seat up. If its waiter gave up, too, and not because it has the key,
// then what it would have had to see to goes to the next one: a ring that it did not
// answer and, if it was the first in the line, the end of the holder's lease.
func (e *ear) leave(s *seat, gaveUp bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	line := e.seats[s.name]
	first := line.Front() == s.place
	line.Remove(s.place)
	if line.Len() == 0 {
		delete(e.seats, s.name)
		return
	}
	select {
	case <-s.bell:
		s.told = true
	default:
	}
	if gaveUp && (first || s.told) {
		ring(line, false)
	}
}

func (e *ear) hears() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hearing
}

// sleep ends with ctx, when the bell rings, or after d.
func (s *seat) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	s.freed = false
	select {
	case <-ctx.Done():
	case s.freed = <-s.bell:
		s.told = true
	case <-timer.C:
	}
}

// ring wakes the longest of the waiters that have not been rung yet, and reports
// whether there was one. Those that have been will try after this anyway.
func ring(line *list.List, freed bool) bool {
	for p := line.Front(); p != nil; p = p.Next() {
		select {
		case p.Value.(*seat).bell <- freed:
			return true
		default:
		}
	}
	return false
}

// heard takes one message.
func (e *ear) heard(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if line := e.seats[name]; line != nil && ring(line, true) {
		e.c.Count.Wakeup()
	}
}

// turn notes whether anything is heard now, and lets everybody try again: messages may
// have been missed, or the server may be gone, which its waiters have to learn.
func (e *ear) turn(hearing bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hearing = hearing
	for _, line := range e.seats {
		for ring(line, false) {
		}
	}
}

// run hears until close, over one connection after the other.
func (e *ear) run(life context.Context) {
	back := lock.Retry{Delay: 10 * time.Millisecond, Max: e.c.Timeout}
	for failures := 0; life.Err() == nil; failures++ {
		if e.hear(life) {
			failures = 0
		}
		select {
		case <-life.Done():
		case <-time.After(back.Next(failures)):
		}
	}
}

// hear makes a connection and hears until it is lost. It reports whether there was one.
func (e *ear) hear(life context.Context) bool {
	dialling, cancel := context.WithTimeout(life, e.c.Timeout)
	l, err := e.dial(dialling, e.heard)
	cancel()
	if err != nil {
		return false
	}
	defer l.close()
	e.turn(true)
	defer e.turn(false)
	for l.wait(life) == nil {
	}
	return true
}

// close ends the connection and waits for the goroutine behind it. Waiters are to be
// woken by other means.
func (e *ear) close() {
	e.mu.Lock()
	e.closed = true
	if e.end != nil {
		e.end()
	}
	e.mu.Unlock()
	e.running.Wait()
}

// postgresFeed is a connection to PostgreSQL that has sent LISTEN.
type postgresFeed struct {
	conn *pgconn.PgConn
	c    lock.Config
}

func listenPostgres(ctx context.Context, ep lock.Endpoint, c lock.Config, channel string, heard func(string)) (listening, error) {
	o, err := configPostgres(ep, c, settlePostgres())
	if err != nil {
		return nil, err
	}
	o.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { heard(n.Payload) }
	conn, err := connectEarly(ctx, &o.Config, earlyPostgres())
	if err != nil {
		return nil, err
	}
	f := &postgresFeed{conn, c}
	c.Count.Cmd()
	if _, err := conn.Exec(ctx, "LISTEN "+channel).ReadAll(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *postgresFeed) wait(ctx context.Context) error {
	quiet, cancel := context.WithTimeout(ctx, f.c.Timeout)
	defer cancel()
	err := f.conn.WaitForNotification(quiet)
	if err == nil || quiet.Err() == nil || ctx.Err() != nil || f.conn.IsClosed() {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, f.c.Timeout)
	defer cancel()
	f.c.Count.Cmd()
	return f.conn.Ping(asking)
}

// close does not wait for a server that does not answer.
func (f *postgresFeed) close() {
	ctx, cancel := context.WithTimeout(context.Background(), f.c.Timeout)
	defer cancel()
	_ = f.conn.Close(ctx) // why it was lost matters to nobody: there will be another
}
