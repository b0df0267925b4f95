package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// Start provides the servers that n names. A Needs without a Kind gives a
// Server of source Memory. The error wraps ErrMissing if no source has what n
// names; it never repeats a password. Ctx bounds the start, not the life of
// the server; Close ends that.
func Start(ctx context.Context, n lock.Needs, o Options) (*Server, error) {
	if n.Kind == "" {
		return &Server{Source: Memory}, nil
	}
	k, ok := kindOf(n.Kind)
	if !ok {
		return nil, fmt.Errorf("%w: %q is no kind of server that can be started", ErrMissing, n.Kind)
	}
	if err := o.Source.valid(); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	n.Nodes = max(n.Nodes, 1)
	var reasons []string
	for _, src := range order(n.Kind, o) {
		s, err := k.start(ctx, src, n, o)
		if err == nil {
			return s, nil
		}
		// Only what is not there makes room for the next source. A source that
		// is there and fails must be seen, or the figures of another server
		// would silently take the place of the one that was expected.
		var m missing
		if !errors.As(err, &m) {
			return nil, fmt.Errorf("server: %s: %w", src, err)
		}
		reasons = append(reasons, string(src)+": "+string(m))
	}
	return nil, fmt.Errorf("%w for %s (%s)", ErrMissing, n, strings.Join(reasons, "; "))
}

// order is the list of sources to try.
func order(kind string, o Options) []Source {
	switch {
	case o.Source != "":
		return []Source{o.Source}
	case len(o.URLs[kind]) > 0:
		return []Source{URL}
	}
	return []Source{Binary, Docker, Embedded}
}

// missing is the reason why a source cannot serve: what is not there and the
// one command that gets it.
type missing string

func (m missing) Error() string { return string(m) }

// Unwrap makes every missing an ErrMissing.
func (missing) Unwrap() error { return ErrMissing }

// olderThan compares dotted version numbers by their numeric parts; what
// follows the digits of a part ("8.0-rc1") does not count.
func olderThan(have, want string) bool {
	h, w := strings.Split(have, "."), strings.Split(want, ".")
	for i := range w {
		var a, b int
		if i < len(h) {
			a = leadingInt(h[i])
		}
		b = leadingInt(w[i])
		if a != b {
			return a < b
		}
	}
	return false
}

func leadingInt(s string) int {
	n := 0
	for _, r := range s {
		if r < '0' || r > '9' || n > 1<<20 {
			break
		}
		n = 10*n + int(r-'0')
	}
	return n
}
