package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	library "github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// recorder takes what the library would print to standard error.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Printf(_ context.Context, format string, v ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, v...))
}

// A server that is away makes errors and no noise. Left to itself the library
// prints each failure to connect and, after as many as the pool is large, hands
// out an old error while it tries again in the background.
func TestQuiet(t *testing.T) {
	var printed recorder
	library.SetLogger(&printed)
	const addr = "127.0.0.1:1" // a free port might be given to a server of another test
	conn, err := goredis.Dial(t.Context(), lock.Endpoint("redis://"+addr), lock.Config{Conns: 2}.Filled())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for range 10 {
		if _, err := conn.Do(t.Context(), "GET", "k"); !errors.Is(err, wire.ErrUnsent) {
			t.Fatalf("nobody listens: %v, want ErrUnsent", err)
		}
	}
	printed.mu.Lock()
	defer printed.mu.Unlock()
	if len(printed.lines) > 0 {
		t.Errorf("the library printed %q", printed.lines)
	}
}
