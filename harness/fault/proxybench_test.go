package fault

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limit bounds every wait for what must happen in the end.
const limit = 30 * time.Second

// A bench is a proxy before a server whose connections the test holds itself.
type bench struct {
	*testing.T
	p        *Proxy
	accepted chan *net.TCPConn
}

func newBench(t *testing.T) *bench {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, accepted: make(chan *net.TCPConn, 64)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			b.accepted <- c.(*net.TCPConn)
		}
	}()
	b.p, err = NewProxy(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.p.Close(); err != nil {
			t.Error(err)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return b
}

// dial connects a client and returns both ends.
func (b *bench) dial() (client, server *net.TCPConn) {
	b.Helper()
	c, err := net.Dial("tcp", b.p.Addr())
	if err != nil {
		b.Fatal(err)
	}
	client = c.(*net.TCPConn)
	b.Cleanup(func() { _ = client.Close() })
	select {
	case server = <-b.accepted:
	case <-time.After(limit):
		b.Fatal("the connection did not reach the server")
	}
	b.Cleanup(func() { _ = server.Close() })
	for _, c := range []*net.TCPConn{client, server} {
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			b.Fatal(err)
		}
	}
	return client, server
}

func (b *bench) send(c *net.TCPConn, text string) {
	b.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		b.Fatal(err)
	}
}

// receive reads exactly want.
func (b *bench) receive(c *net.TCPConn, want string) {
	b.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		b.Fatalf("got %q, %v; want %q", got[:n], err, want)
	}
}

// until polls f.
func (b *bench) until(what string, f func(Traffic) bool) {
	b.Helper()
	for end := time.Now().Add(limit); !f(b.p.Traffic()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("not seen after %v: %s; %+v", limit, what, b.p.Traffic())
		}
	}
}

func (b *bench) gone() {
	b.Helper()
	b.until("no connection is left", func(t Traffic) bool { return t.Open == 0 && t.Kept == [2]int64{} })
	b.until("nothing is left of them", func(Traffic) bool {
		b.p.mu.Lock()
		defer b.p.mu.Unlock()
		return len(b.p.links) == 0
	})
}

// broken sees that c was reset.
func (b *bench) broken(c *net.TCPConn, what string) {
	b.Helper()
	_, err := io.Copy(io.Discard, c)
	if !errors.Is(err, syscall.ECONNRESET) {
		b.Errorf("%s: %v, want a reset", what, err)
	}
}

// random makes n bytes that no error leaves equal.
func random(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{7})
	_, _ = rng.Read(b) // never fails
	return b
}

// running describes the goroutines of proxies.
func running(t *testing.T) string {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, group := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(group, "fault.(*Proxy)") || strings.Contains(group, "fault.(*pipe)") {
			list = append(list, group)
		}
	}
	return strings.Join(list, "\n\n")
}

// BenchmarkProxy times a round trip of one byte on loopback: without a proxy,
// through one that passes, and through delays that a timer of a whole
// millisecond would miss.
func BenchmarkProxy(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	p, err := NewProxy(ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for _, way := range []struct {
		name, addr string
		mode       Mode
	}{
		{"direct", ln.Addr().String(), Pass},
		{"pass", p.Addr(), Pass},
		{"delay=100µs", p.Addr(), Delay(100 * time.Microsecond)},
		{"delay=500µs", p.Addr(), Delay(500 * time.Microsecond)},
		{"delay=5ms", p.Addr(), Delay(5 * time.Millisecond)},
	} {
		b.Run(way.name, func(b *testing.B) {
			p.SetBoth(way.mode)
			c, err := net.Dial("tcp", way.addr)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			one := make([]byte, 1)
			for b.Loop() {
				if _, err := c.Write(one); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
