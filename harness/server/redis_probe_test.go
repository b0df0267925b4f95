package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// answering listens on the loopback and treats every connection with f.
func answering(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				f(c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestUnusableAddresses(t *testing.T) {
	const canary = "CANARY"
	closed := deserted(t)
	silent := answering(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	// The first packet of a MariaDB server: length 78, number 0, protocol 10.
	maria := answering(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "\x4e\x00\x00\x00\x0a5.5.5-10.11.6-MariaDB\x00\x08\x00\x00\x00abcdefgh\x00\xfe\xf7\x2d\x02\x00\xff\x81\x15")
		_, _ = io.Copy(io.Discard, c)
	})
	http := answering(t, func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	smtp := answering(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail ready\r\n") })
	mute := answering(t, func(c net.Conn) { _, _ = bufio.NewReader(c).ReadString('\n') })
	alert := answering(t, func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, "\x15\x03\x03\x00\x02\x02\x46")
	})
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	t.Cleanup(secure.Close)

	cases := []struct{ name, url, want string }{
		{"closed port", "redis://u:" + canary + "@" + closed, "connection refused by " + closed},
		{"MariaDB", "redis://u:" + canary + "@" + maria, maria + " answers, but does not speak the Redis protocol (it looks like MariaDB or MySQL)"},
		{"HTTP", "redis://u:" + canary + "@" + http, "answers, but does not speak the Redis protocol"},
		{"SMTP", "redis://u:" + canary + "@" + smtp, "answers, but does not speak the Redis protocol"},
		{"hangs up", "redis://u:" + canary + "@" + mute, "hangs up on PING"},
		{"silent", "redis://u:" + canary + "@" + silent, "did not answer PING within 3s"},
		{"TLS without asking", "redis://u:" + canary + "@" + alert, "speaks TLS: its URL begins with rediss://"},
		{"TLS of a stranger", "rediss://u:" + canary + "@" + strings.TrimPrefix(secure.URL, "https://"), "certificate"},
		{"TLS refused", "rediss://u:" + canary + "@" + http, "does not speak TLS: use redis://"},
		{"unknown host", "redis://u:" + canary + "@nosuchhost.invalid:1", "nosuchhost.invalid:1"},
		{"no URL", canary, "is no Redis URL: want redis://"},
		{"no scheme", "u:" + canary + "@127.0.0.1:1", "is no Redis URL: want redis://"},
		{"other scheme", "http://u:" + canary + "@127.0.0.1:1", "is no Redis URL: want redis://"},
		{"bad escape", "redis://u:%zz" + canary + "@127.0.0.1:1", "is no Redis URL: want redis://"},
		{"# in the password", "redis://u:1#" + canary + "@127.0.0.1:1", "percent-encode"},
		{"/ in the password", "redis://u:1/" + canary + "@127.0.0.1:1", "percent-encode"},
		{"? in the password", "redis://u:1?" + canary + "@127.0.0.1:1", "percent-encode"},
		{"bad database", "redis://u:" + canary + "@127.0.0.1:1/" + canary, "is no Redis URL that can be used"},
		{"bad option", "redis://u:" + canary + "@127.0.0.1:1?nosuch=" + canary, "is no Redis URL that can be used"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Start(t.Context(), lock.Needs{Kind: "redis"}, Options{URLs: map[string][]lock.Endpoint{"redis": {lock.Endpoint(c.url)}}})
			wantError(t, err, c.want)
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the password is in %q", err)
			}
			if errors.Is(err, ErrMissing) {
				t.Errorf("%v would make room for another server than the one that was named", err)
			}
		})
	}
}

func TestPasswords(t *testing.T) {
	s := start(t, lock.Needs{Kind: "redis"}, Options{Source: Binary})
	c := connect(t, s.Deployment.Nodes[0])
	ctx := t.Context()
	if err := c.ConfigSet(ctx, "requirepass", "CANARY").Err(); err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimPrefix(s.Deployment.Nodes[0].Reveal(), "redis://")
	try := func(url string) error {
		s, err := Start(ctx, lock.Needs{Kind: "redis"}, Options{URLs: map[string][]lock.Endpoint{"redis": {lock.Endpoint(url)}}})
		if err != nil {
			return err
		}
		if d := Describe(s); strings.Contains(d.Nodes[0], "CANARY") {
			t.Errorf("the password is in %+v", d)
		}
		return s.Close()
	}
	if err := try("redis://:CANARY@" + addr + "/3"); err != nil {
		t.Error(err)
	}
	if err := try("redis://default:CANARY@" + addr); err != nil {
		t.Error(err)
	}
	for url, want := range map[string]string{
		"redis://" + addr:                       "wants a password: give it in the URL",
		"redis://:CANARY2@" + addr:              "refused the user or the password",
		"redis://nosuchuser:CANARY@" + addr:     "refused the user or the password",
		"redis://:CANARY@" + addr + "/99":       "has no database 99",
		"redis://:CANARY%2F%23%40@" + addr:      "refused the user or the password",
		"redis://default:CANARY%00x@" + addr:    "refused the user or the password",
		"rediss://default:CANARY@" + addr + "/": "did not answer with TLS within 3s: use redis://",
	} {
		err := try(url)
		wantError(t, err, want)
		if err != nil && strings.Contains(err.Error(), "CANARY") {
			t.Errorf("the password is in %q", err)
		}
	}
	if err := c.Do(ctx, "AUTH", "CANARY").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Do(ctx, "ACL", "SETUSER", "meek", "on", ">CANARY", "+@all", "-info", "~*").Err(); err != nil {
		t.Fatal(err)
	}
	wantError(t, try("redis://meek:CANARY@"+addr), "grant +info +ping")
}

func TestStartHonoursCtx(t *testing.T) {
	silent := answering(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := Start(ctx, lock.Needs{Kind: "redis"}, Options{URLs: map[string][]lock.Endpoint{"redis": {lock.Endpoint("redis://" + silent)}}})
	if err == nil {
		t.Fatal("a silent server was accepted")
	}
	for _, src := range []Source{Binary, Embedded} {
		_, left := ownTemp(t)
		if s, err := Start(ctx, lock.Needs{Kind: "redis"}, Options{Source: src}); err == nil {
			t.Errorf("%s started for nobody", src)
			_ = s.Close()
		}
		if l := left(); len(l) > 0 {
			t.Errorf("left behind: %v", l)
		}
	}
}
