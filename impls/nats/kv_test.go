package nats

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
)

// An updating client renews as the client library updates a key: without its TTL.
type updating struct{ *locker }

func (u updating) Acquire(ctx context.Context, key string) (lock.Lease, error) {
	granted, err := u.locker.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	h := granted.(*lease)
	h.kept.Stop()
	h.kept = u.keeper.Keep(u.c, time.Now(), func(ctx context.Context) error {
		kv, err := u.view(ctx)
		if err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.rev, err = kv.Update(ctx, escape(h.key), []byte(h.owner), h.rev)
		return err
	})
	return h, nil
}

// A renewal by Update makes a key that never ends, and the suite finds it.
func TestRenewalByUpdate(t *testing.T) {
	s := start(t, lock.Single)
	broken := kv()
	broken.Open = func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		l, err := open(ctx, d, c)
		if err != nil {
			return nil, err
		}
		return updating{l.(*locker)}, nil
	}
	o := locktest.Options{Remove: s.Remove, Patience: 10 * time.Second}
	const name = "renewed-lease-ends"
	if problems := locktest.Examine(t.Context(), name, broken, s.Deployment, o); !slices.ContainsFunc(problems, func(p string) bool {
		return strings.Contains(p, "is still held")
	}) {
		t.Errorf("a renewal by Update is not found: %q", problems)
	}
	if problems := locktest.Examine(t.Context(), name, kv(), s.Deployment, o); len(problems) > 0 {
		t.Errorf("a renewal that is none: %q", problems)
	}
}

// A key lasts for whole seconds, never less than was asked for, and the client promises
// no more than that.
func TestTTL(t *testing.T) {
	s := start(t, lock.Single)
	for asked, want := range map[time.Duration]string{
		time.Millisecond: "1s", time.Second: "1s", 1001 * time.Millisecond: "2s", 1500 * time.Millisecond: "2s", 90 * time.Second: "1m30s", 0: "10s",
	} {
		ctx := within(t)
		l := client(t, s, lock.Config{TTL: asked, Renew: time.Hour, Group: "ttl-" + want + asked.String()})
		before := time.Now()
		h := acquired(ctx, t, l, "k").(*lease)
		stream, err := l.js.Stream(ctx, l.stream.Name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := stream.GetLastMsgForSubject(ctx, l.subject("k"))
		if err != nil {
			t.Fatal(err)
		}
		ttl := m.Header.Get(jetstream.MsgTTLHeader)
		lasts, err := time.ParseDuration(ttl)
		if err != nil || ttl != want {
			t.Errorf("asked for %v the key has a TTL of %q, want %s (%v)", asked, ttl, want, err)
		}
		// The clock of the server is ours.
		if d := h.Deadline(); d.After(m.Time.Add(lasts)) || d.Before(before) {
			t.Errorf("asked for %v the client promises %v, and the key ends at %v", asked, d, m.Time.Add(lasts))
		}
	}
}

// The token stays while renewals give the key other revisions, and the next grant has a
// larger one than any of them.
func TestTokenOutlivesRenewals(t *testing.T) {
	ctx := within(t)
	l := client(t, start(t, lock.Single), lock.Config{Renew: 5 * time.Millisecond})
	h := acquired(ctx, t, l, "k").(*lease)
	token := h.Token()
	last := func() uint64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.rev
	}
	until(ctx, t, "three renewals", func() bool { return last() >= token+3 })
	if h.Token() != token {
		t.Errorf("the token was %d and is %d", token, h.Token())
	}
	rev := last()
	returned(ctx, t, h)
	if next := acquired(ctx, t, l, "k").(*lease); next.Token() <= rev {
		t.Errorf("a token %d after a revision %d", next.Token(), rev)
	}
}

// A release whose answer is lost in favour of that of another leader, and a renewal that
// went through unheard, are known again.
func TestUnheardWrites(t *testing.T) {
	ctx := within(t)
	l := client(t, start(t, lock.Single), lock.Config{Renew: time.Hour})
	h := acquired(ctx, t, l, "k").(*lease)
	if _, err := l.write(ctx, "k", h.owner, h.rev); err != nil { // a renewal that h knows nothing of
		t.Fatal(err)
	}
	if err := h.renew(ctx); err != nil {
		t.Errorf("a renewal after one that was not heard of: %v", err)
	}
	if _, err := l.remove(ctx, "k", h.owner, h.rev); err != nil {
		t.Fatal(err)
	}
	returned(ctx, t, h)
	if err := h.Release(ctx); !errors.Is(err, lock.ErrLost) {
		t.Errorf("the second release: %v", err)
	}
	other := acquired(ctx, t, l, "k")
	if err := h.renew(ctx); !errors.Is(err, lock.ErrLost) {
		t.Errorf("a renewal of what another owner has: %v", err)
	}
	returned(ctx, t, other)
}

// All waiters of a process share one watch of the key, and each release wakes one of them;
// the watch ends when nobody waits any more.
func TestOneWatch(t *testing.T) {
	ctx := within(t)
	s := start(t, lock.Single)
	holder := client(t, s, lock.Config{TTL: 10 * time.Minute})
	count := new(lock.Counters)
	l := client(t, s, lock.Config{TTL: 10 * time.Minute, Count: count})
	const waiters = 20
	first := acquired(ctx, t, holder, "k")
	done := make(chan error, waiters)
	for range waiters {
		go func() {
			lease, err := l.Acquire(ctx, "k")
			if err == nil {
				err = lease.Release(ctx)
			}
			done <- err
		}()
	}
	consumers := func() int {
		stream, err := l.js.Stream(ctx, l.stream.Name)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.Consumers
	}
	until(ctx, t, "a watch, and an attempt after it", func() bool { _, n, _ := count.Read(); return consumers() == 1 && n >= 2 })
	returned(ctx, t, first)
	for range waiters {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if _, _, woken := count.Read(); woken == 0 || woken > waiters {
		t.Errorf("%d wake-ups of %d waiters", woken, waiters)
	}
	if n := consumers(); n > 1 {
		t.Errorf("%d watches of one key", n)
	}
	until(ctx, t, "no watch", func() bool { return consumers() == 0 })
}

// Each key has a name of its own, which NATS takes, and from which it can be read back.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{"", "_", "k", "orders/42", "orders_2F42", "a.b", ".", "..", " ", "*", ">", "é", "\x00", "a_b", "A", "a"} {
		name := escape(key)
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q are both %q", key, other, name)
		}
		seen[name] = key
		var back strings.Builder
		for i := 0; i < len(name) && name != "_"; i++ {
			if name[i] != '_' {
				back.WriteByte(name[i])
				continue
			}
			b, err := strconv.ParseUint(name[i+1:i+3], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			back.WriteByte(byte(b))
			i += 2
		}
		if back.String() != key {
			t.Errorf("%q is written %q, which reads %q", key, name, back.String())
		}
	}
	if err := checked(strings.Repeat("k", longest+1)); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("a key that is too long: %v", err)
	}
}

// A key that is too long is refused, and costs nobody the connection.
func TestLongKey(t *testing.T) {
	ctx := within(t)
	count := new(lock.Counters)
	l := client(t, start(t, lock.Single), lock.Config{Count: count})
	if _, err := l.Acquire(ctx, strings.Repeat("k", longest+1)); err == nil || !strings.Contains(err.Error(), "must not have more than") {
		t.Errorf("%v", err)
	}
	key := strings.Repeat("k", longest)
	held := acquired(ctx, t, l, key)
	wait := make(chan error, 1)
	go func() {
		lease, err := l.Acquire(ctx, key) // by a watch of it
		if err == nil {
			err = lease.Release(ctx)
		}
		wait <- err
	}()
	until(ctx, t, "an attempt after the watch has begun", func() bool { _, n, _ := count.Read(); return n >= 4 })
	returned(ctx, t, held)
	if err := <-wait; err != nil {
		t.Error(err)
	}
}

// A bucket whose keys cannot end is refused, with what to do.
func TestBucketWithoutTTL(t *testing.T) {
	ctx := within(t)
	s := start(t, lock.Single)
	l := client(t, s, lock.Config{})
	if _, err := l.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucketOf("plain")}); err != nil {
		t.Fatal(err)
	}
	_, err := open(ctx, s.Deployment, lock.Config{Group: "plain"})
	if err == nil || !strings.Contains(err.Error(), "LimitMarkerTTL") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// A stream with replicas refuses each write of a key while another one is on its way
// through them. A lease waits for that, however often it is refused, and no longer than it
// may; then it says that nothing was written.
func TestWriteOnItsWay(t *testing.T) {
	l := client(t, start(t, lock.Single), lock.Config{TTL: time.Minute, Retry: lock.Retry{Delay: time.Microsecond, Max: time.Microsecond}})
	refusal := &jetstream.APIError{Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequenceConstant, Description: "wrong last sequence"}

	h := acquired(within(t), t, l, "k").(*lease)
	refused := 0
	if err := h.rewrite(within(t), true, func(rev uint64) (uint64, error) {
		if refused < 10*tries {
			refused++
			return 0, refusal
		}
		return l.remove(t.Context(), h.key, h.owner, rev)
	}); err != nil || refused != 10*tries {
		t.Errorf("after %d refusals: %v", refused, err)
	}

	h = acquired(within(t), t, l, "k").(*lease)
	l.c.Retry = lock.Retry{Delay: time.Hour, Max: time.Hour, Fixed: true} // only the end of ctx ends the nap
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := h.rewrite(ctx, true, func(uint64) (uint64, error) { return 0, refusal })
	if !conflict(err) && !slow(err) || h.freed { // slow if the read between two tries was cut short
		t.Errorf("ended with %v, freed %t", err, h.freed)
	}
}

// A bucket that the server does not know is made, and has no keys: whoever reads one is not
// told that there is no bucket.
func TestReadOfNoBucket(t *testing.T) {
	l := client(t, start(t, lock.Single), lock.Config{})
	returned(within(t), t, acquired(within(t), t, l, "k"))
	if err := l.js.DeleteStream(within(t), l.stream.Name); err != nil {
		t.Fatal(err)
	}
	if e, err := l.read(within(t), "k"); err != nil || e != (entry{}) {
		t.Errorf("read %+v, %v", e, err)
	}
}
