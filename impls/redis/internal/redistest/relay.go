package redistest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

// A Relay is one address behind which a test puts one server after the other, as a
// virtual address or a name does. Connections stay with the server that they were made
// to.
type Relay struct {
	At lock.Endpoint

	ln      net.Listener
	running sync.WaitGroup

	mu     sync.Mutex
	to     string // host:port of the server
	closed bool
	conns  []net.Conn
}

// NewRelay starts a Relay to the server at at, until the end of the test.
func NewRelay(t *testing.T, at lock.Endpoint) *Relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{At: lock.Endpoint("redis://" + ln.Addr().String()), ln: ln}
	r.Point(t, at)
	r.running.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

// Point lets new connections lead to the server at at.
func (r *Relay) Point(t *testing.T, at lock.Endpoint) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = HostPort(t, at)
}

// HostPort is the host:port of a single server.
func HostPort(t *testing.T, at lock.Endpoint) string {
	t.Helper()
	u, err := url.Parse(at.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func (r *Relay) accept() {
	for {
		in, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		to := r.to
		r.mu.Unlock()
		out, err := net.Dial("tcp", to)
		if err != nil {
			_ = in.Close() // the client sees a server that hangs up
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, in, out)
		closed := r.closed
		r.mu.Unlock()
		if closed {
			_, _ = in.Close(), out.Close() // nobody looks any more
			return
		}
		r.running.Go(func() { carry(in, out) })
		r.running.Go(func() { carry(out, in) })
	}
}

// carry copies until one end closes, and then closes both.
func carry(from, to net.Conn) {
	_, _ = io.Copy(to, from) // either end may break off
	_, _ = from.Close(), to.Close()
}

func (r *Relay) close() {
	r.mu.Lock()
	r.closed = true
	conns := r.conns
	r.mu.Unlock()
	_ = r.ln.Close() // it only ever fails if it is closed
	for _, c := range conns {
		_ = c.Close() // likewise
	}
	r.running.Wait()
}
