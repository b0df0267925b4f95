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
	s, err := server.Start(t.Context(), lock.Needs{Kind: "redis", Nodes: 2}, server.Options{Source: src})
	if errors.Is(err, server.ErrMissing) {
		name := map[server.Source]string{server.Binary: "redis", server.Docker: "docker"}[src]
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

func clients(t *testing.T, s *server.Server) []*redis.Client {
	t.Helper()
	var list []*redis.Client
	for _, e := range s.Deployment.Nodes {
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

type strike struct {
	struck Struck
	err    error
}

// awaitStopped polls until every process of s is stopped.
func awaitStopped(t *testing.T, s *server.Server) {
	t.Helper()
	for _, p := range s.Processes() {
		for end := time.Now().Add(30 * time.Second); !p.Stopped(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("process %d was never seen to be stopped", p.PID)
			}
		}
	}
}

func TestPause(t *testing.T) {
	for _, src := range []server.Source{server.Binary, server.Docker} {
		t.Run(string(src), func(t *testing.T) {
			s := start(t, src)
			list := clients(t, s)
			const long = 400 * time.Millisecond
			if len(s.Processes()) == 0 && src == server.Docker {
				_, err := Pause{For: long}.Strike(t.Context(), s)
				if !errors.Is(err, ErrNotOurs) {
					t.Errorf("containers without visible processes: %v", err)
				}
				return
			}
			got := make(chan strike, 1)
			go func() {
				k, err := Pause{For: long}.Strike(t.Context(), s)
				got <- strike{k, err}
			}()
			awaitStopped(t, s)
			for i, c := range list {
				if err := c.Ping(t.Context()).Err(); err != nil {
					t.Fatalf("node %d after the pause: %v", i, err)
				}
			}
			answered := time.Now()
			k := <-got
			if k.err != nil {
				t.Fatal(k.err)
			}
			if d := k.struck.To.Sub(k.struck.From); d < long {
				t.Errorf("paused for %v, want %v", d, long)
			}
			if answered.Before(k.struck.To) {
				t.Errorf("a stopped server answered %v before it went on", k.struck.To.Sub(answered))
			}
			for _, p := range s.Processes() {
				if p.Stopped() {
					t.Errorf("process %d is still stopped", p.PID)
				}
			}
		})
	}
}

func TestPauseCutShort(t *testing.T) {
	s := start(t, server.Binary)
	list := clients(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan strike, 1)
	go func() {
		k, err := Pause{For: time.Hour}.Strike(ctx, s)
		got <- strike{k, err}
	}()
	awaitStopped(t, s)
	cancel()
	k := <-got
	if !errors.Is(k.err, context.Canceled) {
		t.Errorf("error %v, want one that wraps context.Canceled", k.err)
	}
	for _, c := range list {
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	}
	if k, err := (Pause{For: time.Hour}).Strike(ctx, s); !errors.Is(err, context.Canceled) || !k.From.IsZero() {
		t.Errorf("with a ctx that has ended: %+v, %v", k, err)
	}
}

func TestPauseRefused(t *testing.T) {
	own := start(t, server.Binary)
	given, err := server.Start(t.Context(), lock.Needs{Kind: "redis"}, server.Options{URLs: map[string][]lock.Endpoint{"redis": own.Deployment.Nodes}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = given.Close() }()
	none, err := server.Start(t.Context(), lock.Needs{}, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*server.Server{given, start(t, server.Embedded), none} {
		_, err := Pause{For: time.Millisecond}.Strike(t.Context(), s)
		if !errors.Is(err, ErrNotOurs) || !strings.Contains(err.Error(), "use -server binary") {
			t.Errorf("%s: error %v", s.Source, err)
		}
	}

	if err := own.Processes()[0].Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); len(own.Processes()) > 1 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if _, err := (Pause{For: time.Millisecond}).Strike(t.Context(), own); err == nil || err.Error() != "only 1 of 2 servers are still running" {
		t.Errorf("with a dead server: %v", err)
	}
}

func TestRun(t *testing.T) {
	s := start(t, server.Binary)
	plan := []Fault{Pause{At: 50 * time.Millisecond, For: 30 * time.Millisecond}, Pause{At: 150 * time.Millisecond, For: 20 * time.Millisecond}}
	got, err := Run(t.Context(), plan, s, time.Now())
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, f := range got {
		want := plan[i].(Pause)
		if f.Kind != "pause" || f.At < want.At || f.For < want.For {
			t.Errorf("%+v, planned %+v", f, want)
		}
	}
	if got, err := Run(t.Context(), nil, s, time.Now()); got != nil || err != nil {
		t.Errorf("nothing planned: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Run(ctx, []Fault{Pause{At: time.Hour, For: time.Second}}, s, time.Now())
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "pause@1h0m0s+1s was not reached") {
		t.Errorf("cut short before it was due: %v", err)
	}
}

// Some of the servers stop, and the others go on.
func TestPauseSome(t *testing.T) {
	s := start(t, server.Binary)
	list := clients(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan strike, 1)
	go func() {
		k, err := Pause{For: time.Minute, Servers: 1}.Strike(ctx, s)
		got <- strike{k, err}
	}()
	first := s.Processes()[0]
	for end := time.Now().Add(30 * time.Second); !first.Stopped(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first was never seen to be stopped")
		}
	}
	if err := list[1].Ping(t.Context()).Err(); err != nil {
		t.Errorf("the second: %v", err)
	}
	cancel()
	if k := <-got; !errors.Is(k.err, context.Canceled) {
		t.Errorf("cut short: %v", k.err)
	}
	if err := list[0].Ping(t.Context()).Err(); err != nil {
		t.Errorf("the first after the pause: %v", err)
	}
	if _, err := (Pause{For: time.Second, Servers: 3}).Strike(t.Context(), s); err == nil {
		t.Error("three of two servers were stopped")
	}
}

// Some of the servers die, and come back empty when it is over.
func TestKill(t *testing.T) {
	s := start(t, server.Binary)
	list := clients(t, s)
	for _, n := range []int{1, 0} {
		for _, c := range list {
			if err := c.Set(t.Context(), "k", "v", time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
		}
		dead := s.Processes()
		if n > 0 {
			dead = dead[:n]
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan strike, 1)
		go func() {
			k, err := Kill{Servers: n}.Strike(ctx, s)
			got <- strike{k, err}
		}()
		for end := time.Now().Add(30 * time.Second); len(s.Processes()) > 2-len(dead); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%v run, %v were to be killed", s.Processes(), dead)
			}
		}
		for i, c := range list {
			if err := c.Ping(t.Context()).Err(); (err == nil) != (i >= len(dead)) {
				t.Errorf("%d are dead: server %d: %v", len(dead), i, err)
			}
		}
		cancel()
		k := <-got
		if k.err != nil || k.struck.From.IsZero() || k.struck.To.Before(k.struck.From) {
			t.Fatalf("%+v", k)
		}
		for i, c := range list {
			// A client may find first that its old connection is gone.
			if err := c.Ping(t.Context()).Err(); err != nil {
				t.Logf("server %d: %v", i, err)
			}
			left, err := c.Exists(t.Context(), "k").Result()
			if want := i >= len(dead); err != nil || (left == 1) != want {
				t.Errorf("%d were dead: server %d has %d keys: %v", len(dead), i, left, err)
			}
		}
		if again := s.Processes(); len(again) != 2 || slices.Contains(again, dead[0]) {
			t.Errorf("%v run after %v were killed", again, dead)
		}
		if _, err := s.Usage(t.Context()); err != nil {
			t.Errorf("the cost of servers that came back: %v", err)
		}
	}
	if k, err := (Kill{Servers: 3}).Strike(t.Context(), s); err == nil || !k.From.IsZero() {
		t.Error("three of two servers were killed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if k, err := (Kill{}).Strike(ctx, s); !errors.Is(err, context.Canceled) || !k.From.IsZero() {
		t.Errorf("with a ctx that has ended: %+v, %v", k, err)
	}
	first := s.Processes()[0]
	if err := first.Signal(os.Kill); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); len(s.Processes()) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a server does not end")
		}
	}
	if _, err := (Kill{Servers: 1}).Strike(t.Context(), s); err == nil {
		t.Error("a server was killed beside one that had died by itself")
	}
	given, err := server.Start(t.Context(), lock.Needs{Kind: "redis"}, server.Options{URLs: map[string][]lock.Endpoint{"redis": s.Deployment.Nodes[1:]}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = given.Close() }()
	if _, err := (Kill{}).Strike(t.Context(), given); !errors.Is(err, ErrNotOurs) {
		t.Errorf("a server of somebody else's: %v", err)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Fault{
		"pause@2s+300ms": Pause{At: 2 * time.Second, For: 300 * time.Millisecond},
		"pause@0s+1s":    Pause{For: time.Second},
		"pause@0s+1s:2":  Pause{For: time.Second, Servers: 2},
		"kill@2s":        Kill{At: 2 * time.Second},
		"kill@100ms:2":   Kill{At: 100 * time.Millisecond, Servers: 2},
	} {
		f, err := Parse(text)
		if err != nil || f != want {
			t.Errorf("%s: %v, %v", text, f, err)
			continue
		}
		if again, err := Parse(f.String()); err != nil || again != f {
			t.Errorf("%s is read back as %v, %v", f, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                "want pause@2s+300ms",
		"pause":           "want pause@2s+300ms",
		"pause@2s":        "want pause@2s+300ms",
		"pause@x+1s":      `"x" is no time after the start`,
		"pause@-1s+1s":    `"-1s" is no time after the start`,
		"pause@1s+0s":     `"0s" is no length of time`,
		"pause@1s+":       `"" is no length of time`,
		"explode@1s+1s":   `there is no "explode", only pause and kill`,
		"explode@1s":      `there is no "explode", only pause and kill`,
		"kill":            "or kill@2s",
		"kill@x":          `"x" is no time after the start`,
		"kill@1s+1s":      "want kill@1s",
		"kill@1s:0":       `"0" is no number of servers`,
		"pause@1s+1s+2s":  `"1s+2s" is no length of time`,
		"pause@1s+300 ms": `"300 ms" is no length of time`,
		"pause@1s+1s:":    `"" is no number of servers`,
		"pause@1s+1s:0":   `"0" is no number of servers`,
	} {
		f, err := Parse(text)
		if f != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, error %v, want %s", text, f, err, want)
		}
	}
}
