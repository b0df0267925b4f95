package rueidis

import (
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/wire"
)

// A command that begins when its connection has been given up, and the library has not
// noticed yet, was never sent, and says so: a DEL that names no owner may then be sent again.
func TestNothingLeavesByAGivenUpConnection(t *testing.T) {
	s := miniredis.RunT(t)
	made, err := Dial(t.Context(), lock.Endpoint("redis://"+s.Addr()), lock.Config{}.Filled())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Close() }()
	if _, err := made.Do(t.Context(), "SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	made.(*conn).link.end()
	if _, err := made.Do(t.Context(), "DEL", "k"); err != nil && !errors.Is(err, wire.ErrUnsent) {
		t.Errorf("the first command after the end of the connection: %v, want success or ErrUnsent", err)
	}
	if _, err := made.Do(t.Context(), "DEL", "k"); err != nil {
		t.Errorf("the next command: %v", err)
	}
	if s.Exists("k") {
		t.Error("the key is there, although its DEL was answered")
	}
}
