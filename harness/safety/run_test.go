package safety_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

func TestMain(m *testing.M) {
	builtin.Main()
	harness.Work(slices.Concat(impls.All(), seededLocks()), "")
	os.Exit(m.Run())
}

func options(t *testing.T) server.Options {
	t.Helper()
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	o.Embeds = builtin.Embeds()
	return o
}

// played plays cells on servers of their own choice, some at a time, as they mostly wait.
func played(t *testing.T, o server.Options, cells ...safety.Cell) (got []results.Cell) {
	t.Helper()
	err := safety.Run(t.Context(), safety.Plan{Cells: cells, Options: o, Parallel: 4}, func(r results.Cell) error {
		got = append(got, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// settled is played, and plays those again, one at a time, that proved nothing: the machine
// may have been too slow for a lease.
func settled(t *testing.T, o server.Options, cells ...safety.Cell) []results.Cell {
	t.Helper()
	all := played(t, o, cells...)
	for i, got := range all {
		for range 2 {
			if all[i].Verdict != results.NotExercised || imitated(got) {
				break
			}
			at := slices.IndexFunc(cells, func(c safety.Cell) bool { return c.Fault.Name == got.Fault })
			t.Logf("%s is played again: %s", cells[at].Name(), all[i].Why)
			all[i] = played(t, o, cells[at])[0]
		}
	}
	return all
}

// imitated tells that there was only an imitation, which cannot be hurt.
func imitated(got results.Cell) bool {
	return got.Server.Kind == "redis" && got.Server.Source == string(server.Embedded)
}

// needed ends t if there was no server for got, or an imitation that cannot be hurt, which is a failure where
// LOCKBENCH_REQUIRE lists the kind.
func needed(t *testing.T, v lock.Variant, got results.Cell) {
	t.Helper()
	if got.Verdict != results.NoServer && (got.Verdict != results.NotExercised || !imitated(got)) {
		return
	}
	if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), v.Needs.Kind) {
		t.Fatalf("LOCKBENCH_REQUIRE lists %s: %s", v.Needs.Kind, got.Why)
	}
	t.Skipf("NOT RUN: %s", got.Why)
}

// One cell of each fault comes out as the table says.
func TestOneCellOfEachFault(t *testing.T) {
	cells := safety.Short(served(), safety.Faults(), 1)
	all := settled(t, options(t), cells...)
	for _, c := range cells {
		t.Run(c.Fault.Name, func(t *testing.T) {
			i := slices.IndexFunc(all, func(r results.Cell) bool { return r.Fault == c.Fault.Name })
			if i < 0 {
				t.Fatal("it was not played")
			}
			got := all[i]
			needed(t, c.Variant, got)
			for _, e := range got.Evidence {
				t.Log(e)
			}
			stale := 0
			for _, e := range got.Events {
				if e.Stale {
					stale++
				}
			}
			if stale != got.Stale {
				t.Errorf("%d events are marked as stale writes, and %d are counted", stale, got.Stale)
			}
			if got.Verdict != got.Expected {
				t.Errorf("%s was %q (%s %s), and %q is expected", c.Name(), got.Verdict, got.Sentence, got.Why, got.Expected)
			}
		})
	}
}

func variant(t *testing.T, algo string) lock.Variant {
	t.Helper()
	i := slices.IndexFunc(served(), func(v lock.Variant) bool { return v.Algo == algo })
	if i < 0 {
		t.Fatalf("there is no %s", algo)
	}
	return served()[i]
}

// A play in which nothing happens, nobody competes, or nothing is seen of a fault, proves
// nothing, however well the lock behaves.
func TestEmptyPlaysProveNothing(t *testing.T) {
	enter := func(ctx context.Context, s *safety.Scene) (*harness.Actor, error) {
		a, err := s.Client(ctx)
		if err != nil {
			return nil, err
		}
		return a, s.Enter(ctx, a, s.Key(0))
	}
	tests := []struct {
		name, why string
		play      func(context.Context, *safety.Scene) error
	}{
		{"no rival", "competed", func(ctx context.Context, s *safety.Scene) error {
			s.Proof("something was done")
			_, err := enter(ctx, s)
			return err
		}},
		{"no fault", "struck", func(ctx context.Context, s *safety.Scene) error {
			a, err := enter(ctx, s)
			if err != nil {
				return err
			}
			b, err := s.Client(ctx)
			if err != nil {
				return err
			}
			call, err := s.Rival(b, s.Key(0))
			if err != nil {
				return err
			}
			if err := s.Leave(ctx, a, s.Key(0)); err != nil {
				return err
			}
			_, err = call.Wait(ctx)
			return err
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := safety.Cell{Variant: variant(t, "redis-token"), Fault: safety.Fault{Name: "empty", Play: test.play}}
			got := played(t, options(t), c)[0]
			needed(t, c.Variant, got)
			if got.Verdict != results.NotExercised || !strings.Contains(got.Why, test.why) {
				t.Errorf("it was %q (%s), and should prove nothing", got.Verdict, got.Why)
			}
		})
	}
}

// Nothing that hurts a server is sent to one that was given as an address.
func TestGivenServersAreSpared(t *testing.T) {
	o := options(t)
	s, err := server.Start(t.Context(), lock.Needs{Kind: "redis", Nodes: 5}, o)
	if err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	o.URLs = map[string][]lock.Endpoint{"redis": s.Deployment.Nodes}
	before, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spared := 0
	for _, f := range safety.Faults() {
		v := variant(t, "redis-token")
		if !f.Servers.Own || f.Applies != nil && f.Applies(v) != "" {
			continue
		}
		spared++
		if got := played(t, o, safety.Cell{Variant: v, Fault: f})[0]; got.Verdict != results.NotExercised {
			t.Errorf("%s was played on a server that was given: %q", f.Name, got.Verdict)
		}
	}
	after, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if spared > 0 && after.Cmds > before.Cmds+float64(20*spared) {
		t.Errorf("it was sent %.0f commands", after.Cmds-before.Cmds)
	}
}
