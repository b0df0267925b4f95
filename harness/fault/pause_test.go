package fault

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// A paused server keeps its connections, answers nothing, and answers when it goes on.
func TestPause(t *testing.T) {
	for _, src := range []server.Source{server.Binary, server.Docker} {
		t.Run(string(src), func(t *testing.T) {
			s := start(t, src)
			list := clientsOf(t, s.Deployment)
			if len(s.Processes()) == 0 && src == server.Docker {
				if _, err := (Pause{}).Inject(t.Context(), &Env{Server: s}); !errors.Is(err, ErrNotOurs) {
					t.Errorf("containers without visible processes: %v", err)
				}
				return
			}
			i := inject(t, Pause{}, &Env{Server: s})
			answered := make(chan time.Time, len(list))
			for n, c := range list {
				go func() {
					if err := c.Ping(t.Context()).Err(); err != nil {
						t.Errorf("node %d after the pause: %v", n, err)
					}
					answered <- time.Now()
				}()
			}
			for _, p := range s.Processes() {
				if !p.Stopped() {
					t.Errorf("process %d goes on", p.PID)
				}
			}
			heal(t, i)
			for range list {
				if at := <-answered; at.Before(i.To) {
					t.Errorf("a stopped server answered %v before it went on", i.To.Sub(at))
				}
			}
			for _, p := range s.Processes() {
				if p.Stopped() {
					t.Errorf("process %d is still stopped", p.PID)
				}
			}
			if text := i.Evidence(); !strings.Contains(text, "SIGSTOP to "+pids(s.Processes())) || !strings.Contains(text, "all their threads have stopped; ") {
				t.Errorf("evidence %q", text)
			}
		})
	}
}

// Some of the servers stop, with all of their processes, and the others go on.
func TestPauseSome(t *testing.T) {
	s := start(t, server.Binary)
	list := clientsOf(t, s.Deployment)
	i := inject(t, Pause{Servers: Target{First: 1}}, &Env{Server: s})
	if !s.Processes()[0].Stopped() {
		t.Error("the first goes on")
	}
	if err := list[1].Ping(t.Context()).Err(); err != nil {
		t.Errorf("the second: %v", err)
	}
	heal(t, i)
	if err := list[0].Ping(t.Context()).Err(); err != nil {
		t.Errorf("the first after the pause: %v", err)
	}
	if _, err := (Pause{Servers: Target{First: 3}}).Inject(t.Context(), &Env{Server: s}); err == nil {
		t.Error("three of two servers were stopped")
	}

	forks := started(t, lock.Needs{Kind: "postgresql", Nodes: 2}, server.Options{Source: server.Binary})
	i = inject(t, Pause{Servers: Target{First: 1}}, &Env{Server: forks})
	for n, own := range forks.ByServer() {
		if len(own) < 2 {
			t.Fatalf("the processes of server %d: %v; want its children as well", n+1, own)
		}
		for _, p := range own {
			if p.Stopped() != (n == 0) {
				t.Errorf("process %d of server %d: stopped %v", p.PID, n+1, p.Stopped())
			}
		}
	}
	heal(t, i)
}

func TestPauseRefused(t *testing.T) {
	own := start(t, server.Binary)
	given := started(t, lock.Needs{Kind: "redis"}, server.Options{URLs: map[string][]lock.Endpoint{"redis": own.Deployment.Nodes}})
	none := started(t, lock.Needs{}, server.Options{})
	for _, s := range []*server.Server{given, start(t, server.Embedded), none} {
		for _, f := range []Fault{Pause{}, Kill{}, Restart{}, Restart{Empty: true}} {
			if _, err := f.Inject(t.Context(), &Env{Server: s}); !errors.Is(err, ErrNotOurs) || !strings.Contains(err.Error(), "use -server binary") {
				t.Errorf("%s on %s: error %v", f.Name(), s.Source, err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range []Fault{Pause{}, Kill{}, Restart{Empty: true}} {
		if _, err := f.Inject(ctx, &Env{Server: own}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a ctx that has ended: %v", f.Name(), err)
		}
	}
	if err := own.Processes()[0].Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of a server", func() bool { return len(own.Processes()) == 1 })
	if _, err := (Pause{}).Inject(t.Context(), &Env{Server: own}); err == nil || err.Error() != "only 1 of 2 servers are still running" {
		t.Errorf("with a dead server: %v", err)
	}
	for _, f := range []Fault{Kill{Servers: Target{First: 1}}, Restart{Servers: Target{First: 1}, Empty: true}} {
		if _, err := f.Inject(t.Context(), &Env{Server: own}); err == nil {
			t.Errorf("%s struck a server beside one that had died by itself", f.Name())
		}
	}
}
