package server

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

// kindNamed is the Kind of that name, which there must be.
func kindNamed(t *testing.T, name string) Kind {
	t.Helper()
	k, ok := kindOf(name)
	if !ok {
		t.Fatalf("there is no kind %q", name)
	}
	return k
}

func TestCheck(t *testing.T) {
	const canary = "CANARY"
	for _, c := range []struct{ kind, url, want string }{
		{"redis", "redis://u:p@h/3", ""},
		{"redis", "rediss://h", ""},
		{"redis", "redis+cluster://a:1,b:2", ""},
		{"redis", "redis+cluster://a:1,b:2/1", "a cluster has none but 0"},
		{"redis", "redis+sentinel://a:1,b:2/m/1", ""},
		{"redis", "redis+sentinel://a:1,b:2", "names no master"},
		{"redis", "u:" + canary + "@h", "is no Redis URL: want redis://"},
		{"mysql", "mysql://u:p@h/db", ""},
		{"mysql", "mysql://u:" + canary + "@h", "names no database: want mysql://"},
		{"mysql", "u:" + canary + "@tcp(h)/db", "want mysql://"},
		{"postgresql", "postgres://u:p@h/db", ""},
		{"postgresql", "postgresql://h/db?sslmode=disable", ""},
		{"postgresql", "postgres://u:" + canary + "@h/db?sslmode=" + canary, "want postgres://"},
		{"postgresql", "mysql://u:" + canary + "@h/db", "want postgres://"},
		{"zookeeper", "zookeeper://a,b:2/lb", ""},
		{"zookeeper", "http://a", "want zookeeper://"},
		{"zookeeper", "a:2181", "want zookeeper://"},
		{"etcd", "etcd://u:p@a,b:2", ""},
		{"etcd", "etcds://a", ""},
		{"etcd", "http://u:" + canary + "@a", "want etcd://"},
		{"nats", "nats://u:p@a,b:2", ""},
		{"nats", "tls://a", ""},
		{"nats", "http://u:" + canary + "@a", "want nats://"},
		{"nats", "nats://u:" + canary + "@a/x", "want nats://"},
	} {
		err := kindNamed(t, c.kind).Check(lock.Endpoint(c.url))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.url, err)
			}
			continue
		}
		wantError(t, err, c.want)
		if err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("the password is in %q", err)
		}
	}
}

// deserted is an address at which nobody listens during the test.
func deserted(t *testing.T) string {
	t.Helper()
	port, free, err := reserve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
}

// Each kind says in one form that nobody listens, or that what does is something else.
func TestUnreachable(t *testing.T) {
	closed := deserted(t)
	silent := answering(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	other := answering(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail ready\r\n") })
	for kind, url := range map[string]string{
		"mysql": "mysql://u:CANARY@HOST/db", "postgresql": "postgres://u:CANARY@HOST/db",
		"zookeeper": "zookeeper://HOST", "etcd": "etcd://u:CANARY@HOST", "nats": "nats://u:CANARY@HOST",
	} {
		for _, c := range []struct{ name, host, want string }{
			{"closed port", closed, "connection refused by " + closed + ": is a server running there?"},
			{"unknown host", "nosuchhost.invalid:1", "nosuchhost.invalid:1"},
			{"silent", silent, silent},
			{"SMTP", other, other},
		} {
			t.Run(kind+" "+c.name, func(t *testing.T) {
				t.Parallel()
				e := lock.Endpoint(strings.Replace(url, "HOST", c.host, 1))
				_, err := Start(t.Context(), lock.Needs{Kind: kind}, Options{URLs: map[string][]lock.Endpoint{kind: {e}}})
				wantError(t, err, c.want)
				if err != nil && (strings.Contains(err.Error(), "CANARY") || strings.Contains(err.Error(), "\n")) {
					t.Errorf("not one line without the password: %q", err)
				}
				if errors.Is(err, ErrMissing) {
					t.Errorf("%v would make room for another server than the one that was named", err)
				}
			})
		}
	}
}
