package wire_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// What Conn promises, of every adapter.

func TestReplies(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		conn := redistest.DialConn(t, s.Client, s.At, lock.Config{})
		cancellable, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, ctx := range []context.Context{context.Background(), cancellable} {
			for _, c := range []struct {
				args []any
				want any
			}{
				{[]any{"DEL", "k", "n", "l"}, nil}, // whatever it says
				{[]any{"GET", "k"}, nil},
				{[]any{"SET", "k", "a\x00b\r\n", "PX", int64(60000)}, "OK"},
				{[]any{"SET", "k", "v", "NX"}, nil},
				{[]any{"GET", "k"}, "a\x00b\r\n"},
				{[]any{"SET", "n", 42}, "OK"},
				{[]any{"INCR", "n"}, int64(43)},
				{[]any{"GET", "n"}, "43"},
				{[]any{"EXISTS", "nosuch"}, int64(0)},
				{[]any{"PTTL", "nosuch"}, int64(-2)},
				{[]any{"RPUSH", "l", "a", "b"}, int64(2)},
				{[]any{"LRANGE", "l", 0, -1}, []any{"a", "b"}},
				{[]any{"MGET", "n", "nosuch"}, []any{"43", nil}},
				{[]any{"EVAL", "return {1, 'a', {2, 'b'}}", 0}, []any{int64(1), "a", []any{int64(2), "b"}}},
				{[]any{"EVAL", "return nil", 0}, nil},
				{[]any{"EVAL", "return {}", 0}, []any{}},
			} {
				got, err := conn.Do(ctx, c.args...)
				if c.args[0] == "DEL" {
					continue
				}
				if err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("%v = %#v, %v; want %#v", c.args, got, err, c.want)
				}
			}
			_, err := conn.Do(ctx, "INCR", "l")
			var e wire.Error
			if !errors.As(err, &e) || e.Code() != "WRONGTYPE" || errors.Is(err, wire.ErrUnsent) {
				t.Errorf("INCR of a list: %#v, want an Error", err)
			}
			if _, err := conn.Do(ctx, "NOSUCHCOMMAND"); !errors.As(err, &e) {
				t.Errorf("unknown command: %#v, want an Error", err)
			}
		}
	})
}

// A script is sent once in full to each server, and counted for what is sent.
func TestEval(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		var count lock.Counters
		conn := redistest.DialConn(t, s.Client, s.At, lock.Config{Count: &count})
		script := wire.NewScript("return {KEYS[1], ARGV[1], ARGV[2]}")
		for _, want := range []int64{2, 3, 4} {
			got, err := wire.Eval(t.Context(), conn, script, []string{"k"}, "v", 7)
			if err != nil || !reflect.DeepEqual(got, []any{"k", "v", "7"}) {
				t.Fatalf("Eval = %v, %v", got, err)
			}
			if cmds, _, _ := count.Read(); cmds != want {
				t.Errorf("%d commands counted, want %d", cmds, want)
			}
		}
		if _, err := wire.Eval(t.Context(), conn, wire.NewScript("return redis.call('nosuch')"), nil); err == nil {
			t.Error("a script that fails returns no error")
		}
	})
}

// fake is a server that answers as told and counts the commands by name.
type fake struct {
	addr  string
	conns atomic.Int64 // open now
	mu    sync.Mutex
	seen  map[string]int
}

// newFake speaks enough of the protocol to be greeted; answer gets each other
// command and returns what to write, or "" to hang up.
func newFake(t *testing.T, answer func(name string) string) *fake {
	f := &fake{seen: map[string]int{}}
	f.addr = serve(t, func(c net.Conn) {
		f.conns.Add(1)
		defer f.conns.Add(-1)
		for r := bufio.NewReader(c); ; {
			name, arg, err := readCommand(r)
			if err != nil {
				return
			}
			f.mu.Lock()
			f.seen[name]++
			f.mu.Unlock()
			reply := "-ERR unknown command\r\n"
			switch {
			case name == "HELLO" && arg != "2":
				reply = "%2\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"
			case name != "HELLO" && name != "CLIENT":
				reply = answer(name)
			}
			if reply == "" {
				return
			}
			if _, err := io.WriteString(c, reply); err != nil {
				return
			}
		}
	})
	return f
}

func (f *fake) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[name]
}

// readCommand reads one command as an array of bulk strings and returns its name
// and its first argument.
func readCommand(r *bufio.Reader) (name, arg string, err error) {
	line := func() string {
		var s string
		if err == nil {
			s, err = r.ReadString('\n')
		}
		return strings.TrimSpace(s)
	}
	n := 0
	for _, d := range strings.TrimPrefix(line(), "*") {
		n = n*10 + int(d-'0')
	}
	for i := range n {
		line()
		switch s := line(); i {
		case 0:
			name = strings.ToUpper(s)
		case 1:
			arg = s
		}
	}
	return name, arg, err
}

// A command whose answer is lost is not sent again, and is not called unsent.
func TestNoRetry(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			f := newFake(t, func(string) string { return "" })
			conn := redistest.DialConn(t, a, lock.Endpoint("redis://"+f.addr), lock.Config{})
			cancellable, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i, ctx := range []context.Context{context.Background(), cancellable} {
				_, err := conn.Do(ctx, "SET", "k", "v", "NX")
				var e wire.Error
				if err == nil || errors.Is(err, wire.ErrUnsent) || errors.As(err, &e) {
					t.Errorf("lost answer: %#v", err)
				}
				if got := f.count("SET"); got != i+1 {
					t.Errorf("sent %d times, want %d", got, i+1)
				}
			}
		})
	}
}

// No connection is proof that nothing was sent, however often it is tried.
func TestUnsent(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			const closed = lock.Endpoint("redis://127.0.0.1:1") // a free port might be given to a server of another test
			conn := redistest.DialConn(t, a, closed, lock.Config{Conns: 1})
			for range 3 {
				if _, err := conn.Do(context.Background(), "SET", "k", "v"); !errors.Is(err, wire.ErrUnsent) {
					t.Errorf("nobody listens: %v, want ErrUnsent", err)
				}
			}

			var count lock.Counters
			f := newFake(t, func(string) string { return "+OK\r\n" })
			at := lock.Endpoint("redis://" + f.addr)
			conn = redistest.DialConn(t, a, at, lock.Config{Count: &count})
			over, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := conn.Do(over, "SET", "k", "v")
			if !errors.Is(err, wire.ErrUnsent) || !errors.Is(err, context.Canceled) {
				t.Errorf("ctx is over: %v, want ErrUnsent and ctx's", err)
			}
			if cmds, _, _ := count.Read(); cmds != 0 || f.count("SET") != 0 {
				t.Errorf("%d commands counted, %d sent; want none", cmds, f.count("SET"))
			}
			if err := conn.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if _, err := conn.Do(context.Background(), "SET", "k", "v"); !errors.Is(err, wire.ErrUnsent) {
				t.Errorf("closed: %v, want ErrUnsent", err)
			}
		})
	}
}

// A connection that comes late is none, and a command waits no longer than the
// time-out for either a connection or an answer.
func TestTimeout(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			stuck := make(chan struct{})
			var once sync.Once
			free := func() { once.Do(func() { close(stuck) }) }
			t.Cleanup(free)
			var gets atomic.Int64
			f := newFake(t, func(string) string {
				if gets.Add(1) == 1 {
					<-stuck
				}
				return "+OK\r\n"
			})
			const timeout = 200 * time.Millisecond
			conn := redistest.DialConn(t, a, lock.Endpoint("redis://"+f.addr), lock.Config{Conns: 1, Timeout: timeout})
			first := make(chan error, 1)
			go func() {
				_, err := conn.Do(context.Background(), "GET", "k")
				first <- err
			}()
			for f.count("GET") == 0 {
				time.Sleep(time.Millisecond)
			}
			// The one connection is in use.
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := conn.Do(ctx, "GET", "k"); err == nil {
				t.Error("a second command got through on a pool of one")
			}
			if err := redistest.Wait(t, "time-out", first); err == nil || errors.Is(err, wire.ErrUnsent) {
				t.Errorf("no answer: %v", err)
			}
			// The broken connection is not used again. A client that has but one may refuse a
			// command until it has seen it closed.
			got, err := conn.Do(context.Background(), "GET", "k")
			for end := time.Now().Add(30 * time.Second); a.Shared && err != nil && time.Now().Before(end); {
				got, err = conn.Do(context.Background(), "GET", "k")
			}
			if err != nil || got != "OK" {
				t.Errorf("after a time-out: %v, %v", got, err)
			}
		})
	}
}

// A pool keeps to its size, and Close leaves no connection behind.
func TestConns(t *testing.T) {
	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			var now, most atomic.Int64
			f := newFake(t, func(string) string {
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Millisecond)
				return "+OK\r\n"
			})
			const conns = 3
			conn := redistest.DialConn(t, a, lock.Endpoint("redis://"+f.addr), lock.Config{Conns: conns, Timeout: time.Minute})
			var all sync.WaitGroup
			for range 30 {
				all.Go(func() {
					for range 3 {
						if _, err := conn.Do(context.Background(), "GET", "k"); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			want := int64(conns)
			if a.Shared {
				want = 1
			}
			if got := most.Load(); got != want {
				t.Errorf("at most %d commands at once, want %d", got, want)
			}
			if got := f.conns.Load(); got > want {
				t.Errorf("%d connections, want at most %d", got, want)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			for deadline := time.Now().Add(30 * time.Second); f.conns.Load() > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d connections after Close", f.conns.Load())
				}
			}
		})
	}
}
