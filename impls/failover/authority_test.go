package failover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// While the authority is down nothing is switched, and each mode says what it does.
func TestAuthorityDown(t *testing.T) {
	bubble(t, "drain", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-drain", 1)
		held, _ := mustAcquire(t, l)
		mustRelease(t, held)
		held, _ = mustAcquire(t, l)
		s.authority.set(errCut)
		time.Sleep(rest - interval(lock.Config{TTL: ttl}))
		if isLost(held) {
			t.Error("lost before its time")
		}
		time.Sleep(2 * interval(lock.Config{TTL: ttl}))
		if !isLost(held) {
			t.Error("not lost, although the others may have gone on without it")
		}
		if _, err := l.Acquire(t.Context(), key); !errors.Is(err, errCut) || !strings.Contains(err.Error(), "authority") {
			t.Errorf("Acquire: %v", err)
		}
		if _, err := l.TryAcquire(t.Context(), key); err == nil {
			t.Error("TryAcquire was granted")
		}
		s.authority.set(nil)
		lease, _ := mustAcquire(t, l)
		mustRelease(t, lease)
		if e := l.current().epoch; e != 1 {
			t.Errorf("epoch %d", e)
		}
	})
	bubble(t, "epoch", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-epoch", 1)
		s.authority.set(errCut)
		time.Sleep(10 * ttl)
		lease, took := mustAcquire(t, l)
		if took != 0 {
			t.Errorf("granted after %v", took)
		}
		mustRelease(t, lease)
		s.a.set(errCut)
		if _, err := l.Acquire(t.Context(), key); !errors.Is(err, errCut) || !strings.Contains(err.Error(), "authority") {
			t.Errorf("Acquire, with engine and authority down: %v", err)
		}
		if v := l.current(); v.epoch != 1 || s.b.last[key] > 0 {
			t.Errorf("switched to %s without the authority", v.engine)
		}
	})
	bubble(t, "open", func(t *testing.T) {
		s := newSite()
		s.authority.set(errCut)
		for _, algo := range []string{"failover-drain", "failover-epoch"} {
			if _, err := s.variant(t, algo, 1, Health{}).Open(t.Context(), lock.Deployment{}, lock.Config{}); !errors.Is(err, errCut) {
				t.Errorf("%s opened: %v", algo, err)
			}
		}
		s.authority.set(nil)
		s.a.set(errCut) // one engine is enough
		lease, _ := mustAcquire(t, s.open(t, "failover-epoch", 1))
		mustRelease(t, lease)
		for _, w := range []*world{s.b, s.c} {
			w.set(errCut)
		}
		if _, err := s.variant(t, "failover-naive", 1, Health{}).Open(t.Context(), lock.Deployment{}, lock.Config{}); !errors.Is(err, errCut) {
			t.Errorf("opened without any engine: %v", err)
		}
	})
}

// An authority that has lost its data gets it back from whoever knows it, in a later
// epoch; with drain the leases of both are waited for.
func TestAuthorityForgets(t *testing.T) {
	for _, algo := range []string{"failover-drain", "failover-epoch"} {
		bubble(t, algo, func(t *testing.T) {
			s := newSite()
			l := s.open(t, algo, 1)
			if err := l.Switch(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
			held, _ := mustAcquire(t, l)
			s.authority.empty()
			fresh := s.open(t, algo, 2) // begins at 1, on the first engine
			early, err := fresh.TryAcquire(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
			if !isLost(held) || !isLost(early) {
				t.Errorf("the leases of both are lost: %t, %t", isLost(held), isLost(early))
			}
			next, took := mustAcquire(t, fresh)
			if algo == "failover-drain" && took < rest-2*time.Second {
				t.Errorf("granted after %v", took)
			}
			if token(next) <= token(held) {
				t.Errorf("token %x after %x", token(next), token(held))
			}
			mustRelease(t, next)
		})
	}
}

// An authority that has lost its data and has come as far again, on another engine,
// is noticed all the same.
func TestAuthorityForgetsAndCatchesUp(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		l := s.open(t, "failover-epoch", 1)
		held, _ := mustAcquire(t, l)
		s.authority.mu.Lock()
		s.authority.text["lockbench:failover-epoch"] = "1 open 0 5000 c"
		s.authority.mu.Unlock()
		time.Sleep(time.Second)
		if v := l.current(); v.epoch != 2 || v.engine != "c" || !isLost(held) {
			t.Errorf("epoch %d on %s", v.epoch, v.engine)
		}
	})
}

// Many processes that see an engine fail at once switch once.
func TestOneSwitch(t *testing.T) {
	for _, algo := range []string{"failover-drain", "failover-epoch"} {
		bubble(t, algo, func(t *testing.T) {
			s := newSite()
			got := make(chan error, 20)
			var clients []tryer
			for n := range cap(got) {
				clients = append(clients, s.open(t, algo, n))
			}
			s.a.set(errCut)
			for _, l := range clients {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					lease, err := l.Acquire(ctx, key)
					if err == nil {
						err = lease.Release(ctx)
					}
					got <- err
				}()
			}
			for range cap(got) {
				if err := <-got; err != nil {
					t.Error(err)
				}
			}
			for _, l := range clients {
				if v := l.current(); v.epoch != 2 || v.engine != "b" {
					t.Errorf("epoch %d on %s", v.epoch, v.engine)
				}
			}
		})
	}
}

// A process with another list of engines is told, and changes nothing.
func TestUnknownEngine(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newSite()
		s.authority.text["lockbench:failover-epoch"] = "7 open 0 5000 elsewhere"
		l := s.open(t, "failover-epoch", 1)
		if _, err := l.Acquire(t.Context(), key); err == nil || !strings.Contains(err.Error(), "elsewhere") {
			t.Errorf("Acquire: %v", err)
		}
		if _, err := l.TryAcquire(t.Context(), key); err == nil || !strings.Contains(err.Error(), "elsewhere") {
			t.Errorf("TryAcquire: %v", err)
		}
		if err := l.Switch(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		lease, _ := mustAcquire(t, l)
		if token(lease) != 8<<sequenceBits|1 {
			t.Errorf("token %x", token(lease))
		}
		mustRelease(t, lease)
	})
}

func TestRecord(t *testing.T) {
	for _, r := range []record{
		{}, {epoch: 1, engine: "a"}, {epoch: maxEpoch, draining: true, drain: time.Second, longest: 3 * time.Minute, engine: "über"},
	} {
		if got, err := parse(r.String()); err != nil || got != r {
			t.Errorf("%q is read as %+v, %v", r, got, err)
		}
	}
	for _, text := range []string{"x", "1 open 0 0", "0 open 0 0 a", "1 shut 0 0 a", "1 open -1 0 a", "01 open 0 0 a", "1 open 0 0 a b"} {
		if r, err := parse(text); err == nil {
			t.Errorf("%q is read as %+v", text, r)
		}
	}
	// What the last epoch was still waiting for is waited for in the next.
	r := record{epoch: 3, draining: true, drain: 9 * time.Second, longest: 2 * time.Second, engine: "a"}
	if got, want := r.next("b", drained, time.Second).String(), "4 draining 9000 1000 b"; got != want {
		t.Errorf("after %s comes %s, want %s", r, got, want)
	}
	r.draining = false
	if got, want := r.next("b", drained, time.Second).String(), "4 draining 2000 1000 b"; got != want {
		t.Errorf("after %s comes %s, want %s", r, got, want)
	}
	if got, want := r.next("b", fenced, time.Second).String(), "4 open 0 1000 b"; got != want {
		t.Errorf("after %s comes %s, want %s", r, got, want)
	}
}

func TestMonitor(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name string
		feed func(m *monitor) bool // reports whether it was ever down
		want bool
	}{
		{"a burst", func(m *monitor) (down bool) {
			for n := range 100 {
				down = down || m.note(at(0), at(n), false)
			}
			return down
		}, false},
		{"a row for long enough", func(m *monitor) (down bool) {
			for n := range 3 {
				down = m.note(at(300*n), at(300*n), false)
			}
			return down
		}, true},
		{"two long time-outs", func(m *monitor) bool {
			m.note(at(0), at(3000), false)
			return m.note(at(3000), at(6000), false)
		}, false},
		{"three at once", func(m *monitor) bool {
			m.note(at(0), at(3000), false)
			m.note(at(0), at(3000), false)
			return m.note(at(0), at(3000), false)
		}, true},
		{"every third answers", func(m *monitor) (down bool) {
			for n := range 100 {
				down = down || m.note(at(100*n), at(100*n), n%3 == 0)
			}
			return down
		}, true},
		{"every third fails", func(m *monitor) (down bool) {
			for n := range 100 {
				down = down || m.note(at(100*n), at(100*n), n%3 != 0)
			}
			return down
		}, false},
		{"seldom", func(m *monitor) (down bool) {
			for n := range 100 {
				down = down || m.note(at(6000*n), at(6000*n), false)
			}
			return down
		}, false},
		{"good again", func(m *monitor) bool {
			for n := range 30 {
				m.note(at(100*n), at(100*n), false)
			}
			return m.note(at(3000), at(3000), true)
		}, false},
	} {
		m := &monitor{h: Health{}.filled()}
		if got := c.feed(m); got != c.want {
			t.Errorf("%s: down is %t", c.name, got)
		}
	}
}

// What does not fit together is refused when it is opened.
func TestRefuses(t *testing.T) {
	s := newSite()
	e := func(name string, caps lock.Caps, kind string) Engine {
		v := s.a.variant(caps, 1)
		v.Needs.Kind = kind
		return Engine{Name: name, Variant: v}
	}
	a := Authority{Open: func(context.Context, lock.Deployment, lock.Config) (Register, error) {
		return register{s.authority, 1}, nil
	}}
	const naive, drain, epoch = 0, 1, 2
	for _, c := range []struct {
		want    string
		which   int
		d       lock.Deployment
		c       lock.Config
		a       Authority
		engines []Engine
	}{
		{"nothing to fall back to", naive, lock.Deployment{}, lock.Config{}, a, []Engine{e("a", all, "")}},
		{"names of one word", drain, lock.Deployment{}, lock.Config{}, a, []Engine{e("a", all, ""), e("a", all, "")}},
		{"names of one word", drain, lock.Deployment{}, lock.Config{}, a, []Engine{e("a", all, ""), e("a b", all, "")}},
		{"not every engine has them", epoch, lock.Deployment{}, lock.Config{}, a, []Engine{e("a", all, ""), e("b", lock.Try, "")}},
		{"different kinds", drain, lock.Deployment{}, lock.Config{}, a, []Engine{e("a", all, "x"), e("b", all, "y")}},
		{"no authority", drain, lock.Deployment{}, lock.Config{}, Authority{}, []Engine{e("a", all, ""), e("b", all, "")}},
		{"takes 2 servers", naive, lock.Deployment{Nodes: make([]lock.Endpoint, 3)}, lock.Config{}, a, []Engine{e("a", all, "x"), e("b", all, "x")}},
	} {
		v := Variants("", Health{}, c.a, c.engines...)[c.which]
		if _, err := v.Open(t.Context(), c.d, c.c); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error with %q, got %v", c.want, err)
		}
	}
	v := Variants("", Health{}, a, e("a", all, "x"), e("b", lock.Try, "x"))[drain]
	if v.Caps != lock.Try|lock.Switch || v.Needs != (lock.Needs{Kind: "x", Nodes: 2}) {
		t.Errorf("caps %s, needs %s", v.Caps, v.Needs)
	}
}
