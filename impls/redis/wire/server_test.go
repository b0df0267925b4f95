package wire_test

import (
	"testing"

	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// server is a Redis and a client library under test.
type server struct{ *redistest.Server }

// eachServer runs test for each client library, on a server of its own.
func eachServer(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	redistest.Each(t, nil, func(t *testing.T, s *redistest.Server) { test(t, &server{s}) })
}

// eachReal is eachServer without the imitation of a server.
func eachReal(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	redistest.EachReal(t, nil, func(t *testing.T, s *redistest.Server) { test(t, &server{s}) })
}
