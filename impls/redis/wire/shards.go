package wire

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// Shards receives the messages of sharded channels of a cluster. A channel is
// subscribed on the node that serves its slot, which is found by asking any node
// and following MOVED; those of one node share a connection.
//
// A connection that is lost, or whose slot has moved, is closed, and each of its channels
// is subscribed anew, wherever its slot is served then. The channels of other nodes are
// not affected.
type Shards struct {
	conn  Sharded
	seeds []string // host:port of nodes to begin with
	c     lock.Config
	// Message is called by one goroutine for each node, in order, and must not
	// block. Nothing that it is given was published before since.
	Message func(channel, payload string, since time.Time)
	// Gap is called when a lost channel is subscribed again; messages of it may
	// have been missed. It must not block.
	Gap func(channel string)
	// Down is called for a channel that was lost and could not be subscribed again for
	// as long as a command is waited for, and again each time that has passed. It must
	// not block.
	Down func(channel string)

	running sync.WaitGroup // Add only under mu and before the end
	end     chan struct{}  // closed by Close

	mu        sync.Mutex
	closed    bool
	conns     map[string]*nodeConn // by host:port
	additions map[string]*addition // by channel
}

// A nodeConn is the connection to one node.
type nodeConn struct {
	at    string
	ready chan struct{} // closed when sub and err are set
	sub   Subscription
	err   error

	// Guarded by mu of its Shards.
	lost     bool
	channels []string
	fresh    time.Time
}

// An addition is the first subscription of a channel.
type addition struct {
	ready chan struct{} // closed when it has ended, by err
	err   error
}

// NewShards returns a Shards that asks seeds, host:port each, where a slot is served. Its
// Message, Gap and Down must be set before Add.
func NewShards(conn Sharded, seeds []string, c lock.Config) *Shards {
	return &Shards{
		conn: conn, seeds: seeds, c: c, end: make(chan struct{}),
		conns: make(map[string]*nodeConn), additions: make(map[string]*addition),
	}
}

// Add returns once messages of channel are received, or were: a lost channel is
// subscribed again by itself. Adding a channel again costs
// nothing. It waits no longer than the time-out. After an error the channel is
// not subscribed.
func (s *Shards) Add(ctx context.Context, channel string) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	p := s.additions[channel]
	first := p == nil
	if first {
		p = &addition{ready: make(chan struct{})}
		s.additions[channel] = p
	}
	s.mu.Unlock()
	if first {
		// Others wait for this, so our ctx must not end it.
		bounded, cancel := s.c.Bounded(ctx)
		p.err = s.subscribe(bounded, channel)
		cancel()
		if p.err != nil {
			s.mu.Lock()
			delete(s.additions, channel)
			s.mu.Unlock()
		}
		close(p.ready)
	}
	select {
	case <-p.ready:
		return p.err
	default:
	}
	select {
	case <-p.ready:
		return p.err
	case <-ctx.Done():
		return lock.Ended(ctx)
	}
}

// subscribe subscribes channel on the node that serves its slot. It tries until ctx
// ends, unless a node refuses the command for good.
func (s *Shards) subscribe(ctx context.Context, channel string) (err error) {
	back := lock.Retry{Delay: 10 * time.Millisecond, Max: time.Second}
	at := ""
	for n := 0; ; n++ {
		if at == "" {
			at = s.anyNode(n)
		}
		var e *nodeConn
		if e, err = s.nodeConn(ctx, at); err == nil {
			if err = e.sub.Add(ctx, channel); err == nil && s.subscribed(e, channel) {
				return nil
			}
		}
		var refused Error
		if moved := errors.As(err, &refused) && refused.Code() == "MOVED"; moved && n%redirections < redirections-1 {
			at = movedTo(refused, at)
			continue // at once
		}
		switch refused.Code() {
		case "", "MOVED", "CLUSTERDOWN", "LOADING", "TRYAGAIN", "MASTERDOWN":
		default:
			return err
		}
		at = ""
		select {
		case <-ctx.Done():
			if err == nil || errors.Is(err, ctx.Err()) {
				err = lock.Ended(ctx)
			}
			return err
		case <-s.end:
			return ErrClosed
		case <-time.After(back.Next(n)):
		}
	}
}

// redirections is how many nodes in a row may send a channel on before there is
// a pause: while a cluster changes, two of them may disagree.
const redirections = 5

// movedTo reads "MOVED SLOT HOST:PORT" of the node at from. Without a HOST it is
// the same as from's.
func movedTo(moved Error, from string) string {
	words := strings.Fields(string(moved))
	if len(words) < 3 {
		return ""
	}
	host, port, err := net.SplitHostPort(words[2])
	if err != nil {
		return ""
	}
	if host == "" {
		if host, _, err = net.SplitHostPort(from); err != nil {
			return ""
		}
	}
	return net.JoinHostPort(host, port)
}

// anyNode is the n-th of the nodes that may be asked: first those with a connection, then
// the seeds.
func (s *Shards) anyNode(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for at := range s.conns {
		list = append(list, at)
	}
	slices.Sort(list)
	list = append(list, s.seeds...)
	return list[n%len(list)]
}

// nodeConn returns the connection to the node at host:port, and makes it if there is
// none.
func (s *Shards) nodeConn(ctx context.Context, at string) (*nodeConn, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	e := s.conns[at]
	if e != nil {
		s.mu.Unlock()
		select {
		case <-e.ready:
			return e, e.err
		case <-ctx.Done():
			return nil, lock.Ended(ctx)
		}
	}
	e = &nodeConn{at: at, ready: make(chan struct{}), fresh: time.Now()}
	s.conns[at] = e
	s.mu.Unlock()
	e.sub, e.err = s.conn.SubscribeAt(ctx, at, Handler{
		Message: func(channel, payload string) {
			s.mu.Lock()
			since := e.fresh
			s.mu.Unlock()
			s.Message(channel, payload, since)
		},
		Alive: func(sent time.Time) {
			s.mu.Lock()
			e.fresh = sent
			s.mu.Unlock()
		},
		Lost: func() { s.lose(e) },
	})
	if e.err != nil {
		s.mu.Lock()
		delete(s.conns, at)
		s.mu.Unlock()
	}
	close(e.ready)
	return e, e.err
}

// subscribed notes that channel is on e, unless e has been lost meanwhile.
func (s *Shards) subscribed(e *nodeConn, channel string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.lost {
		return false
	}
	e.channels = append(e.channels, channel)
	return true
}

// lose closes e and begins to subscribe its channels elsewhere. It is called by the
// goroutine that e.sub.Close waits for.
func (s *Shards) lose(e *nodeConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || e.lost {
		return
	}
	e.lost = true
	if s.conns[e.at] == e {
		delete(s.conns, e.at)
	}
	channels := e.channels
	s.running.Go(func() {
		<-e.ready
		if e.sub != nil {
			_ = e.sub.Close() // it only ever drops the connection
		}
	})
	s.running.Go(func() { s.restore(channels) })
}

// restore subscribes lost channels, one after the other, until that has been done
// for all. It calls Down for the rest each time-out: others may wait by then.
func (s *Shards) restore(channels []string) {
	last := time.Now()
	for len(channels) > 0 {
		var failed []string
		for i, channel := range channels {
			// A node that does not answer must not delay the next channel for long.
			ctx, cancel := context.WithTimeout(context.Background(), max(s.c.Timeout/8, 50*time.Millisecond))
			err := s.subscribe(ctx, channel)
			cancel()
			switch {
			case err == nil:
				s.Gap(channel)
			case errors.Is(err, ErrClosed):
				return
			default:
				failed = append(failed, channel)
			}
			if time.Since(last) < s.c.Timeout {
				continue
			}
			last = time.Now()
			for _, left := range slices.Concat(failed, channels[i+1:]) {
				s.Down(left)
			}
		}
		channels = failed
	}
}

// Close ends all subscriptions and waits for the goroutines behind them.
func (s *Shards) Close() {
	s.mu.Lock()
	s.closed = true
	ears := s.conns
	s.conns = nil
	s.mu.Unlock()
	close(s.end)
	for _, e := range ears {
		<-e.ready
		if e.sub != nil {
			_ = e.sub.Close() // it only ever drops the connection
		}
	}
	s.running.Wait()
}
