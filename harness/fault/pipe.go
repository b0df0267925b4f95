package fault

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// A link is one connection through a Proxy: that of the client and the one that
// was made to the server for it.
type link struct {
	client, server *net.TCPConn
	pipes          [2]pipe // by Direction

	// Guarded by the proxy's mu.
	dead bool // both sides have been reset
}

// A pipe is one direction of a link. Two goroutines serve it, one that reads and
// one that writes, so that bytes are taken in while others wait. What follows
// changed is guarded by the proxy's mu.
type pipe struct {
	p        *Proxy
	l        *link
	d        Direction
	from, to *net.TCPConn

	changed *sync.Cond // anything below, the mode, or that l is dead
	queue   []piece
	kept    int  // bytes taken in and not written yet
	writing bool // somebody writes, or what was read waits for its turn
	lost    bool // bytes of this pipe were dropped
	ended   bool // the end was handed on, behind which nothing is

	due   time.Time // when to be woken, if place ≥ 0
	place int       // in the proxy's list of those to be woken; −1 is not in it
}

// A piece is what one read returned; nil bytes stand for the end.
type piece struct {
	at    time.Time // when it came
	bytes []byte
	reset bool // the end is one by RST
}

// pieceSize is the most that one read returns.
const pieceSize = 16 << 10

func (l *link) connect(p *Proxy, server *net.TCPConn) {
	l.server = server
	l.pipes[Up] = pipe{p: p, l: l, d: Up, from: l.client, to: server, place: -1, changed: sync.NewCond(&p.mu)}
	l.pipes[Down] = pipe{p: p, l: l, d: Down, from: server, to: l.client, place: -1, changed: sync.NewCond(&p.mu)}
}

// read takes in what comes until the end, and writes it at once where nothing
// stands in the way, which saves a change of goroutines.
func (q *pipe) read() {
	buf := make([]byte, pieceSize)
	p := q.p
	for {
		p.mu.Lock()
		for q.kept >= maxKept && !q.l.dead {
			q.changed.Wait()
		}
		room := min(len(buf), maxKept-q.kept)
		dead := q.l.dead
		p.mu.Unlock()
		if dead {
			return
		}
		n, err := q.from.Read(buf[:room])
		now := time.Now()
		p.mu.Lock()
		if n > 0 && q.take(buf[:n], now) {
			p.mu.Unlock()
			_, failed := q.to.Write(buf[:n])
			p.mu.Lock()
			q.written(n, failed)
		}
		switch {
		case q.l.dead:
			err = net.ErrClosed
		case errors.Is(err, io.EOF):
			if q.d == Up {
				p.leave(q.l)
			}
			q.queue = append(q.queue, piece{at: now})
			q.changed.Broadcast()
		case err != nil:
			q.broke(now)
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// broke ends the link as the end that q comes from has reset it. Where q holds, the
// other one is not to learn of that yet. P.mu is held.
func (q *pipe) broke(now time.Time) {
	if q.p.modes[q.d] != Hold || q.ended {
		q.p.abort(q.l)
		return
	}
	if q.d == Up {
		q.p.leave(q.l)
	}
	q.queue = append(q.queue, piece{at: now, reset: true})
	q.changed.Broadcast()
}

// take decides about bytes that have just come; it reports whether they are to
// be written now. P.mu is held.
func (q *pipe) take(b []byte, now time.Time) bool {
	p := q.p
	switch m := p.modes[q.d]; {
	case q.l.dead:
		return false
	case p.cut[q.d]:
		p.cut[q.d] = false
		p.abort(q.l)
		return false
	case m == Drop:
		q.drop(len(b))
		return false
	case m == Pass && len(q.queue) == 0 && !q.writing:
		q.writing = true
		q.keep(len(b))
		return true
	}
	q.queue = append(q.queue, piece{at: now, bytes: slices.Clone(b)})
	q.keep(len(b))
	q.changed.Broadcast()
	return false
}

func (q *pipe) keep(n int) {
	q.kept += n
	q.p.seen.Kept[q.d] += int64(n)
}

func (q *pipe) drop(n int) {
	q.lost = true
	q.p.seen.Dropped[q.d] += int64(n)
}

// written ends a write of n bytes; p.mu is held.
func (q *pipe) written(n int, err error) {
	q.writing = false
	q.keep(-n)
	q.changed.Broadcast()
	if err != nil {
		q.l.pipes[1-q.d].broke(time.Now()) // what q leads to is gone
	}
}

// write hands on what is kept, when its time has come, until the end.
func (q *pipe) write() {
	p := q.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for !q.l.dead {
		if len(q.queue) == 0 || q.writing || !q.ripe() {
			q.changed.Wait()
			continue
		}
		head := q.queue[0]
		q.queue[0] = piece{}
		q.queue = q.queue[1:]
		switch {
		case head.reset:
			p.abort(q.l)
			return
		case head.bytes == nil:
			q.ended = true
			if q.to.CloseWrite() != nil {
				p.abort(q.l)
			}
			return
		case p.modes[q.d] == Drop: // kept under an earlier mode
			q.keep(-len(head.bytes))
			q.drop(len(head.bytes))
			q.changed.Broadcast()
		default:
			q.writing = true
			p.mu.Unlock()
			_, err := q.to.Write(head.bytes)
			p.mu.Lock()
			q.written(len(head.bytes), err)
		}
	}
}

// ripe reports whether the first piece may go now, and sees to being woken when
// it may; p.mu is held.
func (q *pipe) ripe() bool {
	m := q.p.modes[q.d]
	if m == Hold {
		return false
	}
	if m <= 0 {
		return true
	}
	at := q.queue[0].at.Add(time.Duration(m))
	if !time.Now().Before(at) {
		return true
	}
	q.p.wake(q, at)
	return false
}
