package fault

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// start starts two servers from src, or skips loudly. What LOCKBENCH_REQUIRE
// lists must not be skipped.
func start(t *testing.T, src server.Source) *server.Server {
	t.Helper()
	return started(t, lock.Needs{Kind: "redis", Nodes: 2}, server.Options{Source: src})
}

// started is start for any servers.
func started(t *testing.T, n lock.Needs, o server.Options) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context(), n, o)
	if errors.Is(err, server.ErrMissing) {
		name := n.Kind
		if o.Source == server.Docker {
			name = "docker"
		}
		if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), name) {
			t.Fatalf("LOCKBENCH_REQUIRE lists %s: %v", name, err)
		}
		t.Skipf("NOT TESTED, because it is not here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func clientsOf(t *testing.T, d lock.Deployment) []*redis.Client {
	t.Helper()
	var list []*redis.Client
	for _, e := range d.Nodes {
		o, err := redis.ParseURL(e.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		o.MaxRetries, o.ReadTimeout = -1, time.Minute
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// heal heals i, which must go well.
func heal(t *testing.T, i *Injection) {
	t.Helper()
	if err := i.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if i.From.IsZero() || i.To.Before(i.From) || i.Evidence() == "" {
		t.Errorf("in force from %v to %v: %q", i.From, i.To, i.Evidence())
	}
}

// inject injects f in a run with s, until it is healed.
func inject(t *testing.T, f Fault, e *Env) *Injection {
	t.Helper()
	i, err := f.Inject(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.Heal(context.Background()) }) // where the test has ended early
	return i
}

// eventually polls until ok, and fails the test after a time that no working machine
// needs.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never saw: %s", what)
		}
	}
}

// Run injects when a fault is due, heals when its time is over, and says what it did.
func TestRun(t *testing.T) {
	s := start(t, server.Binary)
	plan := []Fault{Pause{At: 50 * time.Millisecond, For: 30 * time.Millisecond}, Pause{At: 150 * time.Millisecond, For: 20 * time.Millisecond}}
	got, err := Run(t.Context(), plan, &Env{Server: s, Begin: time.Now()})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, f := range got {
		want := plan[i].(Pause)
		if f.Kind != "pause" || f.At < want.At || f.For < want.For || !strings.Contains(f.Evidence, " ns: SIGSTOP to processes ") {
			t.Errorf("%+v, planned %+v", f, want)
		}
	}
	if got, err := Run(t.Context(), nil, &Env{Server: s}); got != nil || err != nil {
		t.Errorf("nothing planned: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Run(ctx, []Fault{Pause{At: time.Hour, For: time.Second}}, &Env{Server: s, Begin: time.Now()})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "pause@1h0m0s+1s was not reached") {
		t.Errorf("cut short before it was due: %v", err)
	}
}

// then is a Fault that calls does when it is in force.
type then struct {
	Fault
	does func()
}

func (f then) Inject(ctx context.Context, e *Env) (*Injection, error) {
	i, err := f.Fault.Inject(ctx, e)
	f.does()
	return i, err
}

// A fault that ctx ends is healed and reported, and one that lasts as long as the window
// is no error.
func TestRunCutShort(t *testing.T) {
	s := start(t, server.Binary)
	list := clientsOf(t, s.Deployment)
	for _, c := range []struct {
		f    Fault
		want string
	}{
		{Pause{For: time.Hour, Servers: Target{First: 1}}, "fault: pause@0s+1h0m0s:1 was cut short after "},
		{Restart{For: time.Hour, Servers: Target{First: 1}, Empty: true}, "fault: restart-empty@0s+1h0m0s:1 was cut short after "},
		{Kill{Servers: Target{First: 1}}, ""},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got, err := Run(ctx, []Fault{then{c.f, cancel}}, &Env{Server: s, Begin: time.Now()})
		if len(got) != 1 || (err == nil) != (c.want == "") || err != nil && (!strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, context.Canceled)) {
			t.Errorf("%s: %+v, %v; want %q", c.f, got, err, c.want)
		}
		_ = list[0].Ping(t.Context()) // it may find that its old connection is gone
		if err := list[0].Ping(t.Context()).Err(); err != nil {
			t.Errorf("after %s: %v", c.f, err)
		}
	}
}

// Faults on different parts do not wait for each other, and the first error heals all.
func TestRunTogether(t *testing.T) {
	s := start(t, server.Binary)
	proxies, _, err := Before(s.Deployment)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxies.Close() }()
	e := &Env{Server: s, Proxies: proxies, Begin: time.Now()}
	const long = 200 * time.Millisecond
	got, err := Run(t.Context(), []Fault{Pause{For: long}, Cut{For: long}}, e)
	if err != nil || len(got) != 2 || got[1].At > got[0].At+got[0].For || got[0].At > got[1].At+got[1].For {
		t.Errorf("%+v, %v; want both at once", got, err)
	}
	_, err = Run(t.Context(), []Fault{Cut{For: time.Hour}, Pause{For: long, Servers: Target{First: 3}}}, e)
	if err == nil || err.Error() != "fault: pause@0s+200ms:3 did not strike: there are 2 servers, and 3 should be struck" {
		t.Errorf("error %v", err)
	}
	if m := proxies[0].Mode(Up); m != Pass {
		t.Errorf("after it the proxies are in mode %s", m)
	}
}

// Each fault says in one line which part a run lacks.
func TestLacks(t *testing.T) {
	for _, form := range forms() {
		f, err := Parse(form.example)
		if err != nil {
			t.Fatal(err)
		}
		err = Check([]Fault{f}, &Env{})
		if !errors.Is(err, ErrLacks) || strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "fault: "+f.String()+": ") {
			t.Errorf("%s in a run that has nothing: %v", form.example, err)
		}
		if i, err := f.Inject(t.Context(), &Env{}); i != nil || !errors.Is(err, ErrLacks) {
			t.Errorf("%s in a run that has nothing: %v, %v", form.example, i, err)
		}
	}
}
