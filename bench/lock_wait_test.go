package bench

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// renewing are the locks that keep their leases alive, each once on each kind of server.
func renewing() (list []lock.Variant) {
	seen := map[[2]string]bool{}
	for _, v := range impls.All() {
		at := [2]string{v.Algo, v.Needs.Kind}
		if v.Caps.Has(lock.Renew) && v.Needs.Kind != "" && !seen[at] {
			seen[at] = true
			list = append(list, v)
		}
	}
	return list
}

// program starts what n names from an installed program, or else what is built in.
func program(t testing.TB, n lock.Needs) (s *server.Server, err error) {
	for _, from := range []server.Source{server.Binary, server.Embedded} {
		s, err = server.Start(t.Context(), n, server.Options{Source: from, Embeds: builtin.Embeds()})
		if !errors.Is(err, server.ErrMissing) || required(n.Kind) {
			return s, err
		}
	}
	return nil, err
}

// programs starts what list needs, side by side, until the end of t. Why says of the
// rest what is missing.
func programs(t *testing.T, list []lock.Variant) (servers map[lock.Needs]*server.Server, why map[lock.Needs]error) {
	t.Helper()
	servers, why = map[lock.Needs]*server.Server{}, map[lock.Needs]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	begun := map[lock.Needs]bool{}
	for _, v := range list {
		if begun[v.Needs] {
			continue
		}
		begun[v.Needs] = true
		all.Go(func() {
			s, err := program(t, v.Needs)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				servers[v.Needs] = s
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			case errors.Is(err, server.ErrMissing) && !required(v.Needs.Kind):
				why[v.Needs] = err
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return servers, why
}

// A command that had to wait for longer than a lease lasts runs to its end, and for
// longer than a lease lasts.
func TestLockAfterALongWait(t *testing.T) {
	const ttl = 2 * time.Second
	list := renewing()
	servers, why := programs(t, list)
	on := func(v lock.Variant, command ...string) []string {
		var urls []string
		for _, node := range servers[v.Needs].Deployment.Nodes {
			urls = append(urls, node.Reveal())
		}
		return append([]string{
			"lock", "-" + v.Needs.Kind, strings.Join(urls, ","), "-algo", v.Algo, "-client", v.Client,
			"-ttl", ttl.String(), "-key", "waited-" + v.Algo,
		}, command...)
	}
	holders := map[string]*holder{}
	for _, v := range list {
		if servers[v.Needs] != nil {
			holders[v.Name()] = hold(t, process(t, on(v, inside()...)...))
		}
	}
	waiters := map[string]chan outcome{}
	for _, v := range list {
		if holders[v.Name()] != nil {
			cmd, got := process(t, on(v, "--", "sh", "-c", "echo in; sleep 3; exit 7")...), make(chan outcome, 1)
			go func() { got <- finish(t, cmd) }()
			waiters[v.Name()] = got
		}
	}
	time.Sleep(3 * ttl) // the wait that this is about
	for _, h := range holders {
		_ = h.stdin.Close()
	}
	for _, v := range list {
		t.Run(v.Name(), func(t *testing.T) {
			h := holders[v.Name()]
			if h == nil {
				t.Skipf("NOT RUN: %v", why[v.Needs])
			}
			if status := h.wait(t); status != 0 {
				t.Errorf("the holder's exit status is %d: %s", status, h.stderr)
			}
			if o := <-waiters[v.Name()]; o != (outcome{7, "in\n", ""}) {
				t.Errorf("the command that waited: %+v, want its exit status, 7", o)
			}
		})
	}
}
