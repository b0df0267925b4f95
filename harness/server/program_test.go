package server

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

const envProgram = "LOCKBENCH_REDIS_SERVER"

// A program that was named is used or is an error.
func TestProgram(t *testing.T) {
	o := Options{Programs: map[string]string{"redis": "/nowhere/valkey-server"}}
	s, err := Start(t.Context(), lock.Needs{Kind: "redis"}, o)
	if err == nil {
		_ = s.Close()
	}
	if err == nil || errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), envProgram) {
		t.Errorf("a program that is not there: %v; want an error that names %s", err, envProgram)
	}
}

// The imitation has no command of that kind, whatever it says of itself.
func TestCompareAndDelete(t *testing.T) {
	need := lock.Needs{Kind: "redis", Feature: "compare-and-delete"}
	if s, err := Start(t.Context(), need, Options{Source: Embedded}); !errors.Is(err, ErrMissing) {
		if err == nil {
			_ = s.Close()
		}
		t.Errorf("on the embedded server: %v, want ErrMissing", err)
	}
	o := Options{Source: Binary, Programs: map[string]string{"redis": os.Getenv(envProgram)}}
	s, err := Start(t.Context(), need, o)
	if errors.Is(err, ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "valkey9") {
		t.Skipf("NOT TESTED on a server that has it (scripts/newer gets one, %s names it): %v", envProgram, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	// The launcher has replaced itself by the server.
	if n := len(s.Processes()); n != 1 && len(s.Processes()) != 0 {
		t.Errorf("%d processes, want 1", n)
	}
	u, err := s.Usage(t.Context())
	if err != nil || math.IsNaN(u.CPU) || u.CPU <= 0 {
		t.Errorf("usage %+v, %v; want some CPU time", u, err)
	}
}
