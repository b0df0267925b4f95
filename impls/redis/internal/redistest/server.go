// Package redistest is what the tests of the packages below impls/redis share: servers
// of their own, the table of client libraries, and connections that lose what a test
// tells them to.
package redistest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/redigo"
	"github.com/lockbench/lockbench/impls/redis/rueidis"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// A Client is one client library under test.
type Client struct {
	Name   string
	Dial   wire.Dial
	Shared bool // one connection carries the commands of all goroutines
}

// Clients lists the client libraries.
func Clients() []Client {
	return []Client{{"goredis", goredis.Dial, false}, {"redigo", redigo.Dial, false}, {"rueidis", rueidis.Dial, true}}
}

// Variants makes the locks under test on one client library.
type Variants = func(client string, dial wire.Dial) []lock.Variant

// A Server is a Redis and the client library by which a test reaches it.
type Server struct {
	Client
	At       lock.Endpoint
	Real     bool      // else the imitation of harness/server, where time does not pass
	Raw      wire.Conn // for commands beside the locks
	Variants Variants
}

// Each runs test for each client library, on a server of its own: a real one, or the
// imitation where there is none.
func Each(t *testing.T, list Variants, test func(t *testing.T, s *Server)) {
	t.Helper()
	for _, c := range Clients() {
		t.Run(c.Name, func(t *testing.T) { test(t, Start(t, c, list)) })
	}
}

// EachReal is Each without the imitation, which neither refuses commands nor drops
// connections when it is told to.
func EachReal(t *testing.T, list Variants, test func(t *testing.T, s *Server)) {
	t.Helper()
	for _, c := range Clients() {
		t.Run(c.Name, func(t *testing.T) { test(t, StartReal(t, c, list)) })
	}
}

// Start starts a server, real or not, until the end of the test.
func Start(t *testing.T, c Client, list Variants) *Server {
	t.Helper()
	at, real := started(t)
	return newServer(t, c, at, real, list)
}

// StartReal starts a real server until the end of the test, or skips the test.
func StartReal(t *testing.T, c Client, list Variants) *Server {
	t.Helper()
	return newServer(t, c, Endpoint(t), true, list)
}

// Endpoint is the address of a real server that runs until the end of the test. The
// test is skipped where there is none.
func Endpoint(t *testing.T) lock.Endpoint {
	t.Helper()
	return Servers(t, lock.Needs{Kind: "redis"}, lock.Single).Deployment.Nodes[0]
}

// AnyEndpoint is Endpoint with the imitation in the place of a server that there is not.
func AnyEndpoint(t *testing.T) lock.Endpoint {
	t.Helper()
	at, _ := started(t)
	return at
}

// started starts a real server, or the imitation where there is none.
func started(t *testing.T) (at lock.Endpoint, real bool) {
	t.Helper()
	one := lock.Needs{Kind: "redis"}
	s, real := start(t, one, lock.Single, server.Binary)
	if !real {
		missing(t)
		t.Log("NOT A REAL SERVER: this runs on an imitation of redis inside this process; get a real one with scripts/servers redis")
		s, _ = start(t, one, lock.Single, server.Embedded)
	}
	return s.Deployment.Nodes[0], real
}

// missing fails the test where a real server is required.
func missing(t *testing.T) {
	t.Helper()
	if Required("redis") {
		t.Fatal("LOCKBENCH_REQUIRE lists redis, and there is no server program; get it with scripts/servers redis")
	}
}

// start starts servers of one source. It reports false where the source has none.
func start(t *testing.T, n lock.Needs, topology lock.Topology, from server.Source) (*server.Server, bool) {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	// These tests remove keys and cut connections: never on a server that the user named.
	o.URLs, o.Topologies, o.Source = nil, map[string]lock.Topology{n.Kind: topology}, from
	s, err := server.Start(t.Context(), n, o)
	if errors.Is(err, server.ErrMissing) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, true
}

// Required reports whether LOCKBENCH_REQUIRE lists what.
func Required(what string) bool {
	return slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), what)
}

func newServer(t *testing.T, c Client, at lock.Endpoint, real bool, list Variants) *Server {
	t.Helper()
	return &Server{Client: c, At: at, Real: real, Raw: DialConn(t, c, at, lock.Config{}), Variants: list}
}

// DialConn is a Conn to the server at at, closed at the end of the test.
func DialConn(t *testing.T, c Client, at lock.Endpoint, config lock.Config) wire.Conn {
	t.Helper()
	conn, err := c.Dial(t.Context(), at, config.Filled())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Do sends a command beside the locks.
func (s *Server) Do(t *testing.T, args ...any) any {
	t.Helper()
	reply, err := s.Raw.Do(context.Background(), args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// Expire stands for the passing of the TTL of key, which must have one.
func (s *Server) Expire(t *testing.T, key string) {
	t.Helper()
	if ttl := s.Do(t, "PTTL", key).(int64); ttl <= 0 {
		t.Fatalf("key %q has no TTL that could pass: PTTL is %d", key, ttl)
	}
	if s.Do(t, "PEXPIRE", key, 0) != int64(1) {
		t.Fatalf("key %q does not expire", key)
	}
	if got := s.Do(t, "EXISTS", key); got != int64(0) {
		t.Fatalf("key %q is still there", key)
	}
}

// Open returns a Locker of its own connections, closed at the end of the test.
// Hook may be nil.
func (s *Server) Open(t *testing.T, algo string, hook func(context.Context, string) error) lock.Locker {
	t.Helper()
	return OpenVariant(t, s.Variant(t, algo), s.At, lock.Config{Hook: hook})
}

// OpenOver is Open over what dial connects to, by a configuration.
func (s *Server) OpenOver(t *testing.T, algo string, dial wire.Dial, c lock.Config) lock.Locker {
	t.Helper()
	return OpenVariant(t, Find(t, s.Variants(s.Name, dial), algo), s.At, c)
}

// Variant is the lock called algo on the client library of s.
func (s *Server) Variant(t *testing.T, algo string) lock.Variant {
	t.Helper()
	return Find(t, s.Variants(s.Name, s.Dial), algo)
}

// Find returns the lock called algo.
func Find(t *testing.T, list []lock.Variant, algo string) lock.Variant {
	t.Helper()
	i := slices.IndexFunc(list, func(v lock.Variant) bool { return v.Algo == algo })
	if i < 0 {
		t.Fatalf("no variant %q", algo)
	}
	return list[i]
}

// OpenVariant opens v at the server at at until the end of the test.
func OpenVariant(t *testing.T, v lock.Variant, at lock.Endpoint, c lock.Config) lock.Locker {
	t.Helper()
	return OpenOn(t, v, lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{at}}, c)
}

// OpenOn opens v on the servers of d until the end of the test.
func OpenOn(t *testing.T, v lock.Variant, d lock.Deployment, c lock.Config) lock.Locker {
	t.Helper()
	l, err := v.Open(t.Context(), d, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return l
}
