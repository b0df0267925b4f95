package lock_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

func TestFilled(t *testing.T) {
	c := lock.Config{}.Filled()
	if c.TTL != lock.DefaultTTL || c.Renew != lock.DefaultTTL/3 || c.Timeout != lock.DefaultTimeout {
		t.Errorf("TTL %v, Renew %v, Timeout %v", c.TTL, c.Renew, c.Timeout)
	}
	if c.Retry.Delay != lock.DefaultRetryDelay || c.Retry.Max != lock.DefaultRetryMax || c.Retry.Limit != 0 {
		t.Errorf("Retry %+v", c.Retry)
	}
	if c.Now == nil || time.Since(c.Now()) > time.Hour {
		t.Error("Now is not the wall clock")
	}
	given := lock.Config{
		TTL: 6 * time.Second, Renew: time.Second, Timeout: time.Minute,
		Retry: lock.Retry{Delay: time.Second, Max: 2 * time.Second, Fixed: true, Limit: 3}, Conns: 5,
	}
	if got := given.Filled(); got.TTL != given.TTL || got.Renew != given.Renew || got.Timeout != given.Timeout ||
		got.Retry != given.Retry || got.Conns != given.Conns {
		t.Errorf("Filled changes %+v to %+v", given, got)
	}
	if got := (lock.Config{TTL: 6 * time.Second}).Filled().Renew; got != 2*time.Second {
		t.Errorf("Renew %v, want a third of the TTL", got)
	}
	if got := (lock.Config{Retry: lock.Retry{Delay: time.Second}}).Filled().Retry.Max; got != time.Second {
		t.Errorf("Max %v, want no less than Delay", got)
	}
}

func TestConfigJSON(t *testing.T) {
	full := lock.Config{
		TTL:  time.Second,
		Hook: func(context.Context, string) error { return nil },
		Now:  time.Now, Count: &lock.Counters{},
	}
	b, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var back lock.Config
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.TTL != time.Second || back.Hook != nil || back.Now != nil || back.Count != nil {
		t.Errorf("%s reads as %+v", b, back)
	}
	for _, name := range []string{`"ttl_ns":1000000000`, `"renew_ns"`, `"retry"`, `"timeout_ns"`, `"conns"`} {
		if !strings.Contains(string(b), name) {
			t.Errorf("%s lacks %s", b, name)
		}
	}
}

func TestCounters(t *testing.T) {
	var none *lock.Counters
	none.Cmd()
	none.Attempt()
	none.Wakeup()
	none.Pooled(time.Second)
	if a, b, c := none.Read(); a != 0 || b != 0 || c != 0 {
		t.Error("nil counts")
	}
	if n, d := none.PoolWait(); n != 0 || d != 0 {
		t.Error("nil counts waits for a pool")
	}
	var some lock.Counters
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			some.Cmd()
			some.Cmd()
			some.Cmd()
			some.Attempt()
			some.Attempt()
			some.Wakeup()
			some.Pooled(2 * time.Millisecond)
			some.Pooled(0)
		})
	}
	all.Wait()
	if n, d := some.PoolWait(); n != 20 || d != 20*time.Millisecond {
		t.Errorf("counted %d connections, waited %v for them", n, d)
	}
	if a, b, c := some.Read(); a != 30 || b != 20 || c != 10 {
		t.Errorf("counted %d, %d, %d", a, b, c)
	}
}
