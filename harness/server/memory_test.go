package server

import (
	"math"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

// What a server keeps for its connections is told where the server counts it, and what it
// has in RAM of every server that we started.
func TestMemory(t *testing.T) {
	t.Parallel()
	for kind, tells := range map[string]bool{"redis": true, "mysql": true, "postgresql": true, "zookeeper": false, "etcd": false} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := orSkip(t, kind, Options{})
			if kind == "mysql" && s.Product != "mariadb" {
				t.Skipf("NOT RUN: %s does not count it", s.Product)
			}
			if m := s.Memory(); !(m > 1e6) {
				t.Errorf("a server in %v bytes of RAM", m)
			}
			before, err := s.Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if told := !math.IsNaN(before.Kept); told != tells {
				t.Fatalf("it keeps %v bytes; told: %v, want %v", before.Kept, told, tells)
			}
			if !tells {
				return
			}
			const clients, least = 20, 1000 // no server keeps less than a thousand bytes for a connection
			for range clients {
				n, err := s.reach(t.Context(), s.Deployment.Nodes[0])
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = n.close() }()
			}
			after, err := s.Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if grown := after.Kept - before.Kept; grown < clients*least {
				t.Errorf("%d connections take %v bytes", clients, grown)
			}
		})
	}
}

// Nothing is told of an imitation that is a part of this process.
func TestMemoryOfAnImitation(t *testing.T) {
	s := start(t, lock.Needs{Kind: "redis"}, Options{Source: Embedded})
	u, err := s.Usage(t.Context())
	if err != nil || !math.IsNaN(u.Kept) || !math.IsNaN(s.Memory()) {
		t.Errorf("it keeps %v bytes of %v (%v)", u.Kept, s.Memory(), err)
	}
}

// A process that has ended meanwhile has no memory, and hides nobody else's.
func TestMemoryOfOneThatHasEnded(t *testing.T) {
	self, ok := FindProcess(os.Getpid())
	if !ok {
		if runtime.GOOS == "linux" {
			t.Fatal("this process is not found")
		}
		t.Skip("NOT RUN: this system does not show its processes")
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended, _ := FindProcess(cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if bytes, ok := resident([]Process{ended, self}); !ok || !(bytes > 1e6) {
		t.Errorf("%v bytes, told: %v", bytes, ok)
	}
	if bytes, ok := resident([]Process{ended}); ok {
		t.Errorf("one that has ended has %v bytes", bytes)
	}
}
