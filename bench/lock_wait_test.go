package bench

import (
	"errors"
	"fmt"
	"slices"
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

// A waited is what became of two commands, one of which waited for the other.
type waited struct {
	holder string // what is wrong with it; empty if nothing is
	waiter outcome
}

// asAsked says whether the first ended well, and the second ran then and to its own end.
func (w waited) asAsked() bool { return w == waited{"", outcome{7, "in\n", ""}} }

// waitThrough has a command wait for another on each of list, all at once and for three
// times the lease.
func waitThrough(t *testing.T, list []lock.Variant, servers map[lock.Needs]*server.Server, ttl time.Duration) map[string]waited {
	t.Helper()
	on := func(v lock.Variant, command ...string) []string {
		var urls []string
		for _, node := range servers[v.Needs].Deployment.Nodes {
			urls = append(urls, node.Reveal())
		}
		return append([]string{
			"lock", "-" + v.Needs.Kind, strings.Join(urls, ","), "-algo", v.Algo, "-client", v.Client,
			"-ttl", ttl.String(), "-key", "waited-" + v.Algo + "-" + ttl.String(),
		}, command...)
	}
	var holders []*holder
	for _, v := range list {
		holders = append(holders, hold(t, process(t, on(v, inside()...)...)))
	}
	var waiters []chan outcome
	for _, v := range list {
		cmd, got := process(t, on(v, "--", "sh", "-c", fmt.Sprintf("echo in; sleep %g; exit 7", 1.5*ttl.Seconds()))...), make(chan outcome, 1)
		go func() { got <- finish(t, cmd) }()
		waiters = append(waiters, got)
	}
	time.Sleep(3 * ttl) // the wait that this is about
	for _, h := range holders {
		_ = h.stdin.Close()
	}
	all := map[string]waited{}
	for i, v := range list {
		w := waited{waiter: <-waiters[i]}
		if status := holders[i].wait(t); status != 0 {
			w.holder = fmt.Sprintf("exit status %d: %s", status, holders[i].stderr)
		}
		all[v.Name()] = w
	}
	return all
}

// A command that had to wait for longer than a lease lasts runs to its end, and for
// longer than a lease lasts. Thirty processes renew theirs at once: where a lease of two
// seconds ends because the machine did not run one of them, the lock has another go, with
// one that bears more.
func TestLockAfterALongWait(t *testing.T) {
	list := renewing()
	servers, why := programs(t, list)
	ran := slices.DeleteFunc(slices.Clone(list), func(v lock.Variant) bool { return servers[v.Needs] == nil })
	got := waitThrough(t, ran, servers, 2*time.Second)
	failed := slices.DeleteFunc(slices.Clone(ran), func(v lock.Variant) bool { return got[v.Name()].asAsked() })
	again := map[string]waited{}
	if len(failed) > 0 {
		again = waitThrough(t, failed, servers, 10*time.Second)
	}
	for _, v := range list {
		t.Run(v.Name(), func(t *testing.T) {
			if servers[v.Needs] == nil {
				t.Skipf("NOT RUN: %v", why[v.Needs])
			}
			w := got[v.Name()]
			if a, ok := again[v.Name()]; ok {
				t.Logf("AGAIN: with leases of two seconds: %+v", w)
				w = a
			}
			if !w.asAsked() {
				t.Errorf("%+v, want a holder that ends well, and the other's exit status, 7", w)
			}
		})
	}
}
