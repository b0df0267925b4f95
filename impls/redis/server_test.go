package redis_test

import (
	"testing"

	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// server is a Redis and a client library by which the locks under test reach it.
type server struct{ *redistest.Server }

// eachServer runs test for each client library, on a server of its own.
func eachServer(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	redistest.Each(t, redis.Variants, func(t *testing.T, s *redistest.Server) { test(t, &server{s}) })
}

// eachReal is eachServer without the imitation of a server. The client libraries run
// side by side.
func eachReal(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	redistest.EachReal(t, redis.Variants, func(t *testing.T, s *redistest.Server) {
		t.Parallel()
		test(t, &server{s})
	})
}
