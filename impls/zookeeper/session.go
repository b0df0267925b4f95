package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

// session is one client of ZooKeeper: one connection, and the session that the
// server keeps for it. When a session has ended, the library begins another; what
// belonged to the old one stays with its life.
//
// What the states of a session mean for a lease:
//
//   - connected: the session is kept alive, by the library's pings and by
//     requests of ours that move the Deadline of the leases.
//   - suspended: the connection is lost. Nobody can say whether the session lives,
//     so Lost is not closed; but the Deadline no longer moves, and what it guards
//     stops in time. A connection that comes back within the time-out of the session
//     finds every lease as it was.
//   - lost: the server has said that the session expired, or the time-out has passed
//     since the last request that was answered. Lost is closed.
type session struct {
	c     lock.Config // Filled
	root  string
	acl   []zk.ACL
	own   []zk.ACL // see sign
	conn  *zk.Conn
	links *links
	done  <-chan zk.Event // closed when the library has ended

	closed chan struct{}
	calls  sync.WaitGroup // that wait for a key, or tidy up
	parted chan struct{}  // closed when Close has seen the last of them
	keeper chan struct{}  // closed when keep has returned
	// Requests that are under way. The library must not be closed under them: it may
	// answer one three times then, and stands still at the third.
	requests sync.WaitGroup

	mu      sync.Mutex
	ended   bool // closed is
	life    *life
	epoch   int           // the number of connections that have been made
	up      chan struct{} // closed while there is a connection
	away    chan struct{} // closed when there has been none for Config.Timeout
	timers  []*time.Timer // of the time without a connection
	held    map[*node]struct{}
	orphans map[*node]struct{} // that a lost answer may have left behind
	queues  map[string]*queue
}

// A life is one session, from its beginning to its end.
type life struct {
	id    int64
	lasts time.Duration // the time-out that the server has granted
	over  chan struct{} // closed when it has ended, as far as we can know

	// Guarded by session.mu.
	heard time.Time // when the last request that was answered was sent
	ended bool      // over is closed
}

// MaxTimeout is the longest time-out that a session can ask for: the protocol has an
// int32 of ms for it (zookeeper.jute, ConnectRequest.timeOut), about 24 days. A server
// grants no more than its maxSessionTimeout, and what it has granted counts.
const MaxTimeout = math.MaxInt32 * time.Millisecond

var errAway = errors.New("zookeeper: no server has been reached for the time-out of a command")

// silent keeps the library from writing to the standard error.
type silent struct{}

func (silent) Printf(string, ...any) {}

// connect opens a session on the first node of d, which may be an ensemble.
func connect(ctx context.Context, d lock.Deployment, c lock.Config) (*session, error) {
	c, err := c.Checked(MaxTimeout)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %w", err)
	}
	if len(d.Nodes) == 0 {
		return nil, errors.New("zookeeper: no address was given")
	}
	at, root, err := address(d.Nodes[0])
	if len(at) > 0 {
		if gone := reach(ctx, at, c); gone != nil {
			err = gone
		}
	}
	if err != nil {
		return nil, err
	}
	s := &session{
		c: c, root: root, acl: zk.WorldACL(zk.PermAll),
		closed: make(chan struct{}), parted: make(chan struct{}), keeper: make(chan struct{}),
		up: make(chan struct{}), away: make(chan struct{}),
		held: map[*node]struct{}{}, orphans: map[*node]struct{}{}, queues: map[string]*queue{},
	}
	s.links = &links{timeout: c.Timeout, greeted: s.greeted}
	ready := make(chan struct{})
	s.conn, s.done, err = zk.Connect(at, max(c.TTL, time.Millisecond),
		zk.WithDialer(s.links.dial), zk.WithHostProvider(&hosts{list: at}), zk.WithLogger(silent{}), zk.WithLogInfo(false),
		zk.WithEventCallback(func(e zk.Event) {
			<-ready // closed as soon as s is complete
			s.event(e)
		}))
	close(ready)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: %s: %w", strings.Join(at, ","), err)
	}
	timer := time.NewTimer(c.Timeout)
	defer timer.Stop()
	select {
	case <-s.upNow():
		go s.keep()
		return s, nil
	case <-timer.C:
		err = errors.New("it gives no session within the time-out of a command: is it a ZooKeeper that serves?")
	case <-ctx.Done():
		err = lock.Ended(ctx)
	}
	close(s.keeper)
	return nil, lock.Discard(s, fmt.Errorf("zookeeper: %s: %w", strings.Join(at, ","), err))
}

func (s *session) upNow() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.up
}

func (s *session) awayNow() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

// greeted hears of a session before the library does; id 0 says that the one
// that was asked for has expired.
//
// Born is a moment before it was asked for.
func (s *session) greeted(id int64, lasts time.Duration, born time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.life; l != nil && (l.id != id || l.ended) {
		s.end(l)
		s.life = nil
	}
	switch {
	case id == 0:
	case s.life == nil:
		s.life = &life{id: id, lasts: lasts, over: make(chan struct{}), heard: born}
	default:
		s.life.heard = born // the server has heard of the session
	}
}

// end takes l for over. S.mu is held.
func (s *session) end(l *life) {
	if !l.ended {
		l.ended = true
		close(l.over)
	}
}

// event follows the connection. It is called by the library's only loop.
func (s *session) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.State {
	case zk.StateHasSession:
		for _, t := range s.timers {
			t.Stop()
		}
		s.timers = nil
		s.epoch++
		if isClosed(s.away) {
			s.away = make(chan struct{})
		}
		if !isClosed(s.up) {
			close(s.up)
		}
		if len(s.orphans) > 0 && !s.ended {
			s.calls.Go(s.adopt)
		}
	case zk.StateDisconnected:
		if s.ended || !isClosed(s.up) {
			return
		}
		s.up = make(chan struct{})
		away := s.away
		s.timers = append(s.timers, time.AfterFunc(s.c.Timeout, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if away == s.away && !isClosed(s.up) && !isClosed(away) {
				close(away)
			}
		}))
		if l := s.life; l != nil {
			s.timers = append(s.timers, time.AfterFunc(time.Until(l.heard.Add(l.lasts)), func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				if !isClosed(s.up) { // a connection that came back has its say
					s.end(l)
				}
			}))
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// do sends one request and returns when it is answered, or its connection lost.
// Its context is nobody's: a request whose answer nobody reads may have taken the
// key. Config.Timeout bounds it, after which the connection is given up.
func (s *session) do(request func() error) error {
	s.mu.Lock()
	if isClosed(s.parted) {
		s.mu.Unlock()
		return lock.ErrClosed
	}
	s.requests.Add(1)
	s.mu.Unlock()
	defer s.requests.Done()
	if err := s.connected(); err != nil {
		return err
	}
	s.c.Count.Cmd()
	s.mu.Lock()
	l := s.life
	s.mu.Unlock()
	sent := time.Now()
	late := time.AfterFunc(s.c.Timeout, s.links.drop)
	err := request()
	late.Stop()
	if !unanswered(err) {
		s.mu.Lock()
		if l != nil && l.heard.Before(sent) {
			l.heard = sent
		}
		s.mu.Unlock()
	}
	return err
}

// connected waits for a connection, for as long as a command may last.
func (s *session) connected() error {
	up := s.upNow()
	if isClosed(up) {
		return nil
	}
	timer := time.NewTimer(s.c.Timeout)
	defer timer.Stop()
	select {
	case <-up:
		return nil
	case <-s.parted:
		return lock.ErrClosed
	case <-timer.C:
		return errAway
	}
}

// unanswered reports whether err leaves open what the server did: everything does
// but the server's own refusals.
func unanswered(err error) bool {
	switch {
	case err == nil, errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNotEmpty),
		errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrInvalidACL),
		errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrAPIError), errors.Is(err, zk.ErrBadArguments),
		errors.Is(err, zk.ErrInvalidPath):
		return false
	}
	return true
}

// unsent reports whether the server cannot have seen the request.
func unsent(err error) bool {
	return errors.Is(err, errAway) || errors.Is(err, lock.ErrClosed) || errors.Is(err, zk.ErrNoServer)
}

// keep sends a request each Config.Renew while something is held or waited for, and
// at least three in the time-out of the session. So the leases have a Deadline that
// moves, a grant after a long wait begins with one in the future, and a waiter whose
// connection is lost for a moment does not take its session for ended. The library's
// own pings keep the session alive, too, but tell nobody when they were answered.
func (s *session) keep() {
	defer close(s.keeper)
	for {
		s.mu.Lock()
		every := s.c.Renew
		if s.life != nil {
			every = min(every, s.life.lasts/3)
		}
		s.mu.Unlock()
		timer := time.NewTimer(max(every, time.Millisecond))
		select {
		case <-s.closed:
			timer.Stop()
			return
		case <-timer.C:
		}
		s.mu.Lock()
		n := len(s.held) + len(s.queues) // which are there while somebody is in them
		s.mu.Unlock()
		if n > 0 && isClosed(s.upNow()) {
			_ = s.do(func() error {
				_, _, err := s.conn.Exists(s.path(""))
				return err
			})
		}
	}
}

// path is where the node called name lies, or the root of all.
func (s *session) path(name string) string {
	if name == "" {
		return max(s.root, "/")
	}
	return s.root + "/" + name
}

// begin counts a call that Close must wait for, or refuses it.
func (s *session) begin(ctx context.Context) error {
	if err := lock.Over(ctx, nil); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return lock.ErrClosed
	}
	s.calls.Add(1)
	return nil
}

// Close ends the waits, whose nodes are removed, and drops the connection: a
// session that holds something expires, so that its leases end with their time and
// not now. One that holds nothing is ended.
func (s *session) Close() error {
	s.mu.Lock()
	first := !s.ended
	s.ended = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	close(s.closed)
	s.calls.Wait()
	s.mu.Lock()
	close(s.parted)
	s.mu.Unlock()
	s.requests.Wait()
	<-s.keeper
	s.mu.Lock()
	for _, t := range s.timers {
		t.Stop()
	}
	holds := len(s.held) > 0
	s.mu.Unlock()
	if holds {
		s.links.silence()
	}
	s.conn.Close() // a silenced connection carries no word of it
	s.links.silence()
	s.links.drop()
	for range s.done { // until the library has ended
	}
	return nil
}
