package wire_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

const canary = "s3cr3t-canary"

// open opens a Session at ep and closes it.
func open(ctx context.Context, c redistest.Client, timeout time.Duration, eps ...lock.Endpoint) error {
	s, err := wire.OpenSession(ctx, c.Dial, lock.Deployment{Nodes: eps}, lock.Config{Timeout: timeout})
	if err != nil {
		return err
	}
	return s.Close()
}

// openError returns the error of open, which must be one line without the canary.
func openError(t *testing.T, c redistest.Client, ep lock.Endpoint) error {
	t.Helper()
	err := open(t.Context(), c, 5*time.Second, ep)
	if err == nil {
		return nil
	}
	if text := err.Error(); strings.Contains(text, canary) || strings.Contains(text, url.QueryEscape(canary)) {
		t.Errorf("the error holds the password: %s", strings.ReplaceAll(text, canary, "CANARY"))
	} else if strings.ContainsAny(text, "\n\r\x00") {
		t.Errorf("the error is not one line: %q", text)
	}
	return err
}

// serve listens on loopback and lets talk speak on each connection.
func serve(t *testing.T, talk func(net.Conn)) (hostPort string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	accept(l, talk)
	return l.Addr().String()
}

// accept lets talk speak on each connection to l until l is closed.
func accept(l net.Listener, talk func(net.Conn)) {
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				talk(c)
			}()
		}
	}()
}

// forward listens on a socket of the file system and passes what comes on to the server
// at hostPort.
func forward(t *testing.T, hostPort string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	accept(l, func(near net.Conn) {
		far, err := net.Dial("tcp", hostPort)
		if err != nil {
			return // which the client sees
		}
		defer func() { _ = far.Close() }()
		go func() { _, _ = io.Copy(far, near) }()
		_, _ = io.Copy(near, far)
	})
	return socket
}

func TestOpenErrors(t *testing.T) {
	// The greeting of a MariaDB server: a packet with a 4-byte head.
	greeting := "\x5a\x00\x00\x00\x0a5.5.5-10.11.6-MariaDB\x00\x2a\x00\x00\x00abcdefgh\x00\xfe\xf7\x2d\x02\x00\xff\x81\x15" +
		strings.Repeat("\x00", 30) + "mysql_native_password\x00"
	// The same of another length, whose first byte is the mark of a Redis error.
	dash := "\x2d\x00\x00\x01\xff\x6a\x04Host '127.0.0.1' is not allowed to connect\r\n"
	mysql := func(text string) string {
		return serve(t, func(c net.Conn) {
			_, _ = io.WriteString(c, text)
			_, _ = bufio.NewReader(c).ReadString('\n')
		})
	}
	http := serve(t, func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
	})
	hangsUp := serve(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
	answersOK := serve(t, func(c net.Conn) {
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if strings.HasPrefix(line, "*") {
				_, _ = io.WriteString(c, "+OK\r\n")
			}
		}
	})
	silent := serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	const closed = "127.0.0.1:1" // a free port might be given to a server of another test

	plain, locked, users := miniredis.RunT(t), miniredis.RunT(t), miniredis.RunT(t)
	locked.RequireAuth("right")
	users.RequireUserAuth("ann", "right")
	overTLS := miniredis.NewMiniRedis()
	if err := overTLS.StartTLS(&tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(overTLS.Close)

	for _, a := range redistest.Clients() {
		t.Run(a.Name, func(t *testing.T) {
			for _, c := range []struct {
				name, url string
				want      string // in the error; "" if it opens
				at        string // which must name the server
			}{
				{"open", "redis://" + plain.Addr(), "", ""},
				{"database", "redis://" + plain.Addr() + "/3", "", ""},
				{"right password", "redis://:right@" + locked.Addr(), "", ""},
				{"right user", "redis://ann:right@" + users.Addr(), "", ""},
				{"wrong password", "redis://:" + canary + "@" + locked.Addr(), "wrong user or password", locked.Addr()},
				{"wrong user", "redis://bob:" + canary + "@" + users.Addr(), "wrong user or password", users.Addr()},
				{"no password", "redis://" + locked.Addr(), "it wants a password", locked.Addr()},
				{"nobody", "redis://:" + canary + "@" + closed, "nothing listens there", closed},
				{"no such host", "redis://:" + canary + "@nosuch.invalid:1", "cannot be resolved", "nosuch.invalid:1"},
				{"MariaDB", "redis://:" + canary + "@" + mysql(greeting), "no Redis", ""},
				{"MariaDB without password", "redis://" + mysql(greeting), "no Redis", ""},
				{"MariaDB error", "redis://" + mysql(dash), "no Redis", ""},
				{"HTTP", "redis://" + http, "no Redis", http},
				{"hangs up", "redis://" + hangsUp, "hung up", hangsUp},
				{"answers anything", "redis://" + answersOK, "no Redis", answersOK},
				{"TLS asked of plain", "rediss://" + plain.Addr(), "one without TLS", plain.Addr()},
				{"plain asked of TLS", "redis://" + overTLS.Addr(), "wants TLS", overTLS.Addr()},
				{"unknown certificate", "rediss://:" + canary + "@" + overTLS.Addr(), "certificate is not trusted", overTLS.Addr()},
				{"no URL", "redis://:" + canary + "%zz@x", "it is no URL", ""},
				{"hash in password", "redis://:" + canary + "#x@127.0.0.1:1", "", "refused"},
				{"other scheme", "mysql://:" + canary + "@x", "scheme", ""},
				{"no scheme", "127.0.0.1:6379", "no URL", ""},
				{"lone user", "redis://" + canary + "@" + plain.Addr(), "user without a password", ""},
				{"database name", "redis://:" + canary + "@" + plain.Addr() + "/orders", "number of a database", ""},
				{"query", "redis://:" + canary + "@" + plain.Addr() + "?protocol=3", "nothing may follow", ""},
				{"no host", "redis://:" + canary + "@/1", "no host", ""},
				{"socket", "unix:///nonexistent/socket", "no such socket", "/nonexistent/socket"},
				{"socket in host", "unix://" + canary, "unix:///PATH", ""},
			} {
				t.Run(c.name, func(t *testing.T) {
					err := openError(t, a, lock.Endpoint(c.url))
					if c.want == "" && c.at == "" {
						if err != nil {
							t.Errorf("Open: %v", err)
						}
						return
					}
					if c.at == "refused" { // any way of refusing it will do
						c.at = ""
					}
					if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.at) {
						t.Errorf("Open: %v; want %q of %q", err, c.want, c.at)
					}
				})
			}

			// HELLO, which go-redis greets with, takes any password for a user
			// that needs none; AUTH does not.
			if a.Name == "redigo" {
				err := openError(t, a, lock.Endpoint("redis://:"+canary+"@"+plain.Addr()))
				if err == nil || !strings.Contains(err.Error(), "it has no password set") {
					t.Errorf("Open with a password that nobody asked for: %v", err)
				}
			}

			t.Run("no server", func(t *testing.T) {
				if open(t.Context(), a, time.Second) == nil {
					t.Error("opened nothing")
				}
			})
			t.Run("silent", func(t *testing.T) {
				err := open(t.Context(), a, 50*time.Millisecond, lock.Endpoint("redis://:"+canary+"@"+silent))
				if err == nil || !strings.Contains(err.Error(), "no answer in time") || strings.Contains(err.Error(), canary) {
					t.Errorf("Open: %v", err)
				}
			})
			t.Run("interrupted", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := open(ctx, a, 5*time.Second, lock.Endpoint("redis://"+plain.Addr())); !errors.Is(err, context.Canceled) {
					t.Errorf("Open: %v, want the error of ctx", err)
				}
			})

			// A real server words its refusals itself.
			t.Run("redis-server", func(t *testing.T) {
				real := redistest.StartReal(t, a, nil)
				real.Do(t, "CONFIG", "SET", "requirepass", "right")
				at := strings.TrimPrefix(real.At.Reveal(), "redis://")
				socket := forward(t, at)
				for url, want := range map[string]string{
					"redis://:right@" + at:              "",
					"redis://default:right@" + at:       "",
					"redis://:right@" + at + "/15":      "",
					"redis://:right@" + at + "/99":      "no database of that number",
					"redis://:" + canary + "@" + at:     "wrong user or password",
					"redis://ann:" + canary + "@" + at:  "wrong user or password",
					"redis://" + at:                     "it wants a password",
					"unix://:right@" + socket + "?db=2": "",
					"unix://:" + canary + "@" + socket:  "wrong user or password",
				} {
					err := openError(t, a, lock.Endpoint(url))
					if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
						t.Errorf("Open of %s: %v, want %q", url, err, want)
					}
				}
			})
		})
	}
}
