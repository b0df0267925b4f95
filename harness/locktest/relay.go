package locktest

import (
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A relay stands between one client and one server, so that a case can count
// the client's own connections and take answers away, whatever the protocol.
type relay struct {
	ln     net.Listener
	target string

	open, peak atomic.Int64 // connections of the client, now and at most
	muted      atomic.Bool  // answers are dropped, commands go through
	late       atomic.Int64 // delay of every answer, ns
	drop       atomic.Bool  // the next answer is dropped and its connection reset

	mu    sync.Mutex
	shut  bool
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

// relayable reports whether every node of d is a plain TCP address. TLS is
// not, because its certificate names the server and not the relay; nor are a
// cluster and sentinels, because they tell the client the servers' own addresses.
func relayable(d lock.Deployment) bool {
	for _, node := range d.Nodes {
		u, err := url.Parse(node.Reveal())
		if err != nil || u.Port() == "" || u.Scheme == "rediss" || node.Topology() != lock.Single {
			return false
		}
	}
	return len(d.Nodes) > 0
}

// newRelay starts a relay to node on a free loopback port and returns the URL
// that leads through it.
func newRelay(node lock.Endpoint) (*relay, lock.Endpoint, error) {
	u, err := url.Parse(node.Reveal())
	if err != nil {
		return nil, "", fmt.Errorf("%s is no URL", node)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	r := &relay{ln: ln, target: u.Host, conns: map[net.Conn]struct{}{}}
	u.Host = ln.Addr().String()
	r.wg.Go(r.accept)
	return r, lock.Endpoint(u.String()), nil
}

func (r *relay) accept() {
	for {
		client, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.serve(client) })
	}
}

// serve carries one connection until either end closes it.
func (r *relay) serve(client net.Conn) {
	defer hangUp(client)
	n := r.open.Add(1)
	defer r.open.Add(-1)
	for p := r.peak.Load(); n > p && !r.peak.CompareAndSwap(p, n); p = r.peak.Load() {
		continue
	}
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer hangUp(server)
	if !r.enter(client, server) {
		return
	}
	defer r.leave(client, server)
	var down sync.WaitGroup
	down.Go(func() {
		defer hangUp(client)
		r.answers(client, server)
	})
	defer down.Wait()
	defer hangUp(server)
	buf := make([]byte, 16<<10)
	for {
		n, err := client.Read(buf)
		if n > 0 {
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// hangUp closes c, from whichever side that comes first.
func hangUp(c net.Conn) { _ = c.Close() }

// answers copies from server to client as the faults allow.
func (r *relay) answers(client, server net.Conn) {
	buf := make([]byte, 16<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if d := r.late.Load(); d > 0 {
			time.Sleep(time.Duration(d))
		}
		if r.drop.CompareAndSwap(true, false) {
			return
		}
		if r.muted.Load() {
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (r *relay) enter(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		return false
	}
	for _, c := range conns {
		r.conns[c] = struct{}{}
	}
	return true
}

func (r *relay) leave(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.conns, c)
	}
}

// cut ends every connection and refuses new ones, as a dead server does.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	_ = r.ln.Close() // a second close changes nothing
	for c := range r.conns {
		hangUp(c)
	}
}

// close cuts and waits until nothing of r runs.
func (r *relay) close() {
	r.cut()
	r.wg.Wait()
}

// relays are those of one deployment.
type relays []*relay

func (list relays) each(f func(*relay)) {
	for _, r := range list {
		f(r)
	}
}

func (list relays) open() (n int64) {
	list.each(func(r *relay) { n += r.open.Load() })
	return n
}

func (list relays) peak() (n int64) {
	list.each(func(r *relay) { n = max(n, r.peak.Load()) })
	return n
}
