package fault

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A Mode is what a Proxy does with the bytes of one direction. The zero value
// is Pass.
type Mode time.Duration

// The modes, beside Delay.
const (
	// Pass hands everything on as it comes.
	Pass Mode = 0
	// Hold keeps everything, the end of a connection by FIN or RST included, and hands it on
	// in order under the next mode. That is what a partition looks like to TCP,
	// which sends again until it gets through.
	Hold Mode = -1
	// Drop throws bytes away although their sender has been told by TCP that
	// they arrived. No network does that to a connection, so one that has lost
	// bytes is reset when its direction leaves this mode: its next answer would
	// be taken for the lost one. Until then it looks open and silent. That an
	// end has closed is handed on.
	Drop Mode = -2
	// Reset ends every connection with RST on both sides, whichever direction it
	// is set for, and each new one as soon as it is made. What is kept is lost.
	Reset Mode = -3
)

// Delay hands everything on in order, each piece d after it came. The pieces
// wait side by side, as on a long line, so throughput is bounded only by what
// one direction of a connection may keep, maxKept in d. Making a connection
// takes no longer.
func Delay(d time.Duration) Mode { return Mode(max(d, 0)) }

// String is "pass", "hold", "drop", "reset" or "delay 5ms".
func (m Mode) String() string {
	switch {
	case m == Pass:
		return "pass"
	case m == Hold:
		return "hold"
	case m == Drop:
		return "drop"
	case m == Reset:
		return "reset"
	case m > 0:
		return "delay " + time.Duration(m).String()
	}
	return fmt.Sprintf("mode(%d)", int64(m))
}

// A Direction is one way through a Proxy.
type Direction int

// The directions.
const (
	Up   Direction = iota // from client to server
	Down                  // from server to client
)

// maxKept bounds the bytes that a Proxy keeps of one direction of one
// connection; a sender that has more is left to wait, as by a full TCP window.
const maxKept = 1 << 20

// A Proxy stands between the clients and the server at one TCP address and does
// to each direction what its mode says, whatever the protocol. Modes change at
// any time: what is read after Set has returned is treated by the new one, and
// what is kept too. Its methods are safe for concurrent use.
type Proxy struct {
	ln     net.Listener
	alarm  *alarm
	cancel context.CancelFunc // of the dials under way
	wg     sync.WaitGroup

	mu     sync.Mutex
	target string // where new connections lead to
	modes  [2]Mode
	cut    [2]bool // see ResetNext
	links  map[*link]struct{}
	open   map[*link]struct{} // those whose client has not ended its side
	due    dues
	seen   Traffic
	closed bool
}

// Traffic is what a Proxy has seen.
type Traffic struct {
	Open    int      // connections of clients now; one that its client has closed is none, though its server may not know yet
	Peak    int      // the most at once
	Kept    [2]int64 // bytes that wait now, by Direction
	Dropped [2]int64 // bytes thrown away in Drop, by Direction
}

// NewProxy starts a proxy for target, "host:port", on a free loopback port. It
// passes everything until Set says otherwise.
func NewProxy(target string) (*Proxy, error) {
	a, err := newAlarm()
	if err != nil {
		return nil, fmt.Errorf("fault: a timer for a proxy: %w", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.close()
		return nil, fmt.Errorf("fault: a port for a proxy: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{ln: ln, target: target, alarm: a, cancel: cancel, links: map[*link]struct{}{}, open: map[*link]struct{}{}}
	p.wg.Go(func() { p.accept(ctx) })
	p.wg.Go(p.ring)
	return p, nil
}

// Addr is where the proxy listens, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Redirect has new connections lead to target, "host:port", as an address does that another
// server has taken over. Those that there are lead where they did.
func (p *Proxy) Redirect(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Set puts m in force for direction d.
func (p *Proxy) Set(d Direction, m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.modes[d]
	p.modes[d] = m
	for l := range p.links {
		q := &l.pipes[d]
		if m == Reset || left == Drop && m != Drop && q.lost {
			p.abort(l)
		}
		q.changed.Broadcast()
	}
}

// Mode is the one in force for direction d.
func (p *Proxy) Mode(d Direction) Mode {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.modes[d]
}

// SetBoth puts m in force for both directions.
func (p *Proxy) SetBoth(m Mode) {
	p.Set(Up, m)
	p.Set(Down, m)
}

// ResetNext throws away the next bytes that come in direction d and resets the
// connection that they came on, and no other, in whatever mode. For Down that
// is the fault in which the server has run a command and its answer is lost.
func (p *Proxy) ResetNext(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut[d] = true
}

// Traffic reads what the proxy has seen so far.
func (p *Proxy) Traffic() Traffic {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// Close resets every connection, stops listening and waits until nothing of p
// runs any more. A second Close does nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	for l := range p.links {
		p.abort(l)
	}
	p.mu.Unlock()
	p.cancel()
	err := p.ln.Close()
	p.alarm.close()
	p.wg.Wait()
	return err
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as too many open files: others may close some
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		default:
			p.wg.Go(func() { p.serve(ctx, client.(*net.TCPConn)) })
		}
	}
}

// serve carries one connection until both ends have closed it, or it is reset.
func (p *Proxy) serve(ctx context.Context, client *net.TCPConn) {
	l := &link{client: client}
	p.enter(l)
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leave(l)
	}()
	target, ok := p.leads()
	if !ok {
		reset(client)
		return
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil { // as nobody listens there, nobody seems to listen here
		reset(client)
		return
	}
	l.connect(p, conn.(*net.TCPConn))
	p.mu.Lock()
	if p.closed || p.modes[Up] == Reset || p.modes[Down] == Reset {
		p.abort(l)
	} else {
		p.links[l] = struct{}{}
	}
	p.mu.Unlock()
	var pipes sync.WaitGroup
	for i := range l.pipes {
		pipes.Go(l.pipes[i].read)
		pipes.Go(l.pipes[i].write)
	}
	pipes.Wait()
	_ = l.client.Close() // both ways have ended; an error changes nothing
	_ = l.server.Close() //
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
	for i := range l.pipes {
		q := &l.pipes[i]
		p.forget(q)
		q.keep(-q.kept) // what a reset has lost
	}
}

// enter counts the client of l as open. One that closes a connection and then makes
// another has never two, so that those whose end nobody has read yet are counted off first.
func (p *Proxy) enter(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other := range p.open {
		if hungUp(other.client) {
			p.leave(other)
		}
	}
	p.open[l] = struct{}{}
	p.seen.Open = len(p.open)
	p.seen.Peak = max(p.seen.Peak, p.seen.Open)
}

// leave counts the client of l as gone; p.mu is held.
func (p *Proxy) leave(l *link) {
	delete(p.open, l)
	p.seen.Open = len(p.open)
}

// leads is where a new connection leads to; ok is false if there are to be none.
func (p *Proxy) leads() (target string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target, !p.closed && p.modes[Up] != Reset && p.modes[Down] != Reset
}

// reset closes c with RST and without delivering what is under way.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // a connection that is gone already needs no RST
	_ = c.Close()
}

// abort resets both sides of l; p.mu is held.
func (p *Proxy) abort(l *link) {
	if l.dead {
		return
	}
	l.dead = true
	p.leave(l)
	reset(l.client)
	reset(l.server)
	for i := range l.pipes {
		l.pipes[i].changed.Broadcast()
	}
}

// ring wakes the pipes whose time has come.
func (p *Proxy) ring() {
	for p.alarm.wait() {
		p.mu.Lock()
		now := time.Now()
		for len(p.due) > 0 && !p.due[0].due.After(now) {
			heap.Pop(&p.due).(*pipe).changed.Broadcast()
		}
		p.rearm(now)
		p.mu.Unlock()
	}
}

// wake has q woken at the given instant at the latest; p.mu is held.
func (p *Proxy) wake(q *pipe, at time.Time) {
	switch {
	case q.place < 0:
		q.due = at
		heap.Push(&p.due, q)
	case at.Before(q.due):
		q.due = at
		heap.Fix(&p.due, q.place)
	default:
		return
	}
	if p.due[0] == q {
		p.rearm(time.Now())
	}
}

// forget takes q off the list of those to be woken; p.mu is held.
func (p *Proxy) forget(q *pipe) {
	if q.place >= 0 {
		heap.Remove(&p.due, q.place)
	}
}

func (p *Proxy) rearm(now time.Time) {
	if len(p.due) > 0 {
		p.alarm.set(p.due[0].due.Sub(now))
	}
}

// dues is a heap of pipes by the instant at which they are to be woken.
type dues []*pipe

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dues) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push implements heap.Interface.
func (d *dues) Push(x any) {
	q := x.(*pipe)
	q.place = len(*d)
	*d = append(*d, q)
}

// Pop implements heap.Interface.
func (d *dues) Pop() any {
	last := len(*d) - 1
	q := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	q.place = -1
	return q
}
