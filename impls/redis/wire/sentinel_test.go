package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// script is a Feed that answers every command and receives what the test says.
type script struct {
	events chan Event
	broken chan struct{}
}

func newFeed() *script {
	return &script{events: make(chan Event, 100), broken: make(chan struct{})}
}

func (f *script) Send(command string, channels ...string) error {
	if command == "PING" {
		f.events <- Event{Kind: "pong"}
	}
	for _, c := range channels {
		f.events <- Event{Kind: strings.ToLower(command), Channel: c}
	}
	return nil
}

func (f *script) Receive(time.Duration) (Event, error) {
	select {
	case e := <-f.events:
		return e, nil
	case <-f.broken:
		return Event{}, io.EOF
	}
}

func (f *script) Close() error {
	select {
	case <-f.broken:
	default:
		close(f.broken)
	}
	return nil
}

// closes waits until c is closed by us.
func closes(t *testing.T, c net.Conn) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Read(make([]byte, 1)) // nobody writes
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the connection to the old master is still open")
	}
}

// Connections to a master that has been replaced are closed when a sentinel says
// so, and when it may have said so unheard; those to the new one stay.
func TestMastersSwitch(t *testing.T) {
	a, err := ParseAddress("redis+sentinel://:canary@one:1,two:2/m/3")
	if err != nil {
		t.Fatal(err)
	}
	var port atomic.Value
	port.Store("1001")
	feeds := make(chan *script, 10)
	m := &Masters{
		Address: a, Config: lock.Config{Timeout: time.Second}.Filled(),
		Ask: func(_ context.Context, at string) ([]string, error) {
			if at == "one:1" {
				return nil, errors.New("it is down")
			}
			return []string{"10.0.0.1", port.Load().(string)}, nil
		},
		Listen: func(_ context.Context, at string) (Feed, error) {
			if at == "one:1" {
				return nil, errors.New("it is down")
			}
			f := newFeed()
			feeds <- f
			return f, nil
		},
	}
	connect := func(want string) net.Conn {
		t.Helper()
		at, err := m.Find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if at.String() != want {
			t.Fatalf("the master is %s, want %s", at, want)
		}
		near, far := net.Pipe()
		t.Cleanup(func() { _ = far.Close() })
		return m.Track(near, at.Host)
	}
	first := connect("redis://:canary@10.0.0.1:1001/3")
	feed := <-feeds
	port.Store("1002")
	second := connect("redis://:canary@10.0.0.1:1002/3")
	feed.events <- Event{Kind: "message", Channel: switchMaster, Payload: "m 10.0.0.1 1001 10.0.0.1 1002"}
	closes(t, first)

	port.Store("1003")
	_ = feed.Close() // the connection to the sentinel breaks
	closes(t, second)
	feed = <-feeds
	third := connect("redis://:canary@10.0.0.1:1003/3")
	feed.events <- Event{Kind: "message", Channel: switchMaster, Payload: "another 10.0.0.1 1 10.0.0.1 2"}
	if err := m.Close(); err != nil { // after what the message starts
		t.Error(err)
	}
	m.mu.Lock()
	left := len(m.conns)
	m.mu.Unlock()
	if left != 1 {
		t.Errorf("%d connections are open, want the one to the master", left)
	}
	_ = third.Close()
	if _, err := m.Find(t.Context()); err == nil {
		t.Error("a closed Masters finds a master")
	}
	if err := m.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
