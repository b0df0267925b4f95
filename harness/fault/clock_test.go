package fault

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// clocked starts servers whose clocks can be set, or skips loudly. What LOCKBENCH_REQUIRE
// lists must not be skipped.
func clocked(t *testing.T, kind string, topology lock.Topology) *server.Server {
	t.Helper()
	s := started(t, lock.Needs{Kind: kind}, server.Options{
		Source: server.Binary, Clocks: true, Topologies: map[string]lock.Topology{kind: topology},
	})
	switch err := s.Clocked(0); {
	case errors.Is(err, server.ErrMissing) && !slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "cc"):
		t.Skipf("NOT TESTED, because it is not here: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	return s
}

// A server of each kind reads its clock as it was set, until that is healed.
func TestJump(t *testing.T) {
	for _, kind := range []string{"redis", "mysql", "postgresql", "zookeeper"} {
		t.Run(kind, func(t *testing.T) {
			s := clocked(t, kind, lock.Single)
			off := func() time.Duration {
				at, err := s.Clock(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				return time.Until(at).Round(time.Minute)
			}
			for _, by := range []time.Duration{time.Hour, -time.Hour, 2 * time.Minute} {
				if got := off(); got != 0 {
					t.Errorf("before it is %s ahead", got)
				}
				i := inject(t, Jump{By: by}, &Env{Server: s})
				if got := off(); got != by {
					t.Errorf("it is %s ahead, want %s", got, by)
				}
				heal(t, i)
				if got := off(); got != 0 {
					t.Errorf("healed, it is %s ahead", got)
				}
				if want := " ahead, as it says"; strings.Count(i.Evidence(), want) != 2 {
					t.Errorf("evidence %q, want %q twice", i.Evidence(), want)
				}
			}
		})
	}
}

// Keys of a Redis go by its clock, on the member that was struck and on no other.
func TestJumpEndsLeases(t *testing.T) {
	s := clocked(t, "redis", lock.Cluster)
	nodes := clientsOf(t, lock.Deployment{Kind: "redis", Nodes: s.Members})
	names := []string{"lb:{a}", "lb:{b}", "lb:{c}", "lb:{d}"} // on several of the masters
	for _, key := range names {
		for _, c := range nodes {
			if err := c.Set(t.Context(), key, "v", time.Hour).Err(); err != nil && !strings.HasPrefix(err.Error(), "MOVED") {
				t.Fatal(err)
			}
		}
	}
	left := func() (n int) {
		for _, key := range names {
			for _, c := range nodes {
				if c.Get(t.Context(), key).Err() == nil {
					n++
				}
			}
		}
		return n
	}
	if n := left(); n != 4 {
		t.Fatalf("there are %d keys, want 4", n)
	}
	heal(t, inject(t, Jump{By: time.Minute}, &Env{Server: s}))
	if n := left(); n != 4 {
		t.Errorf("a minute ended %d of 4 leases of an hour", 4-n)
	}
	i := inject(t, Jump{By: 2 * time.Hour, Servers: Target{Only: 1}}, &Env{Server: s})
	if n := left(); n == 0 || n == 4 {
		t.Errorf("the clock of one of three jumped, and %d of 4 leases are left", n)
	}
	heal(t, i)
	i = inject(t, Jump{By: 2 * time.Hour}, &Env{Server: s})
	if n := left(); n != 0 { // it is asked now: what has not been removed by then lives again after it
		t.Errorf("all clocks jumped, and %d leases are left", n)
	}
	heal(t, i)
}

// A wait of a database takes as long as it says, whatever its clock says.
func TestJumpLeavesWaits(t *testing.T) {
	s := clocked(t, "mysql", lock.Single)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, err := openMySQL(s.Deployment.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	held, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	var got int
	if err := held.QueryRowContext(ctx, "SELECT GET_LOCK('k', 0)").Scan(&got); err != nil || got != 1 {
		t.Fatal(got, err)
	}
	heals := inject(t, Jump{By: time.Hour}, &Env{Server: s})
	if err := db.QueryRowContext(ctx, "SELECT GET_LOCK('k', 1)").Scan(&got); err != nil || got != 0 {
		t.Errorf("a wait of a second for a lock that is held: %d, %v", got, err)
	}
	heal(t, heals)
}

// Who cannot be given a clock says so in one line.
func TestJumpRefused(t *testing.T) {
	jump := Jump{By: time.Hour}
	plain := start(t, server.Binary)
	if _, err := jump.Inject(t.Context(), &Env{Server: plain}); !errors.Is(err, ErrLacks) || !strings.Contains(err.Error(), "was started without Options.Clocks") {
		t.Errorf("servers as usual: %v", err)
	}
	given := started(t, lock.Needs{Kind: "redis"}, server.Options{URLs: map[string][]lock.Endpoint{"redis": plain.Deployment.Nodes}})
	if _, err := jump.Inject(t.Context(), &Env{Server: given}); !errors.Is(err, ErrNotOurs) {
		t.Errorf("somebody else's: %v", err)
	}
	etcd := started(t, lock.Needs{Kind: "etcd"}, server.Options{Source: server.Binary, Clocks: true})
	if _, err := jump.Inject(t.Context(), &Env{Server: etcd}); !errors.Is(err, ErrLacks) || strings.Contains(err.Error(), "\n") {
		t.Errorf("etcd: %v", err)
	}

	bin := t.TempDir()
	for _, name := range []string{"sh", "mktemp", "rm", "sleep", "redis-server"} { // and of the janitor
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(bin, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	bare := started(t, lock.Needs{Kind: "redis"}, server.Options{Source: server.Binary, Clocks: true})
	if _, err := jump.Inject(t.Context(), &Env{Server: bare}); !errors.Is(err, ErrLacks) || !errors.Is(err, server.ErrMissing) || !strings.Contains(err.Error(), "scripts/servers cc") {
		t.Errorf("without a compiler: %v", err)
	}
}
