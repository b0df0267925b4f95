package etcd

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls/lock"
)

// A rival is one `etcdctl lock`: it prints its key once it holds, and releases when
// it is interrupted.
type rival struct {
	cmd  *exec.Cmd
	held chan string // its key, once; closed at its end
}

func startRival(t *testing.T, d lock.Deployment, key string) *rival {
	t.Helper()
	path := needs(t, "etcdctl")
	cmd := exec.Command(path, "--endpoints", strings.TrimPrefix(d.Nodes[0].Reveal(), "etcd://"), "lock", key)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &rival{cmd: cmd, held: make(chan string, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(r.held)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case r.held <- lines.Text():
			default:
			}
		}
		_ = cmd.Wait() // it is interrupted, or killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	})
	return r
}

func (r *rival) holds(t *testing.T, key string) {
	t.Helper()
	select {
	case k, ok := <-r.held:
		if !ok || !strings.HasPrefix(k, key+"/") {
			t.Fatalf("etcdctl said %q, want a key below %s", k, key)
		}
	case <-time.After(patience):
		t.Fatal("etcdctl does not get the key")
	}
}

func (r *rival) release(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// line waits until n are in the line of key.
func line(t *testing.T, l *locker, key string, n int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		r, err := l.client.Get(t.Context(), key+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		if r.Count == int64(n) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d are in the line, want %d", r.Count, n)
		}
	}
}

// Ours and `etcdctl lock` stand in one line, in the order of their arrival.
func TestEtcdctl(t *testing.T) {
	d := start(t)
	l := client(t, d, lock.Config{})
	const key = "lb:{foreign}:k"
	ctx := within(t)

	first, err := l.Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	second := startRival(t, d, key)
	line(t, l, key, 2)
	third := make(chan lock.Lease, 1)
	failed := make(chan error, 1)
	go func() {
		lease, err := l.Acquire(ctx, key)
		if err != nil {
			failed <- err
			return
		}
		third <- lease
	}()
	line(t, l, key, 3)
	fourth := startRival(t, d, key)
	line(t, l, key, 4)

	alone := func(who string, out ...*rival) {
		t.Helper()
		for _, r := range out {
			select {
			case k := <-r.held:
				locktest.Violation(t, "while %s holds, etcdctl says %q", who, k)
				t.FailNow()
			default:
			}
		}
		if who == "the third" {
			return
		}
		select {
		case <-third:
			locktest.Violation(t, "ours got in while %s holds", who)
			t.FailNow()
		default:
		}
	}
	alone("the first", second, fourth)
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	second.holds(t, key)
	if _, err := l.TryAcquire(ctx, key); err == nil {
		locktest.Violation(t, "ours got in beside etcdctl")
		t.FailNow()
	}
	alone("the second", fourth)
	second.release(t)
	var lease lock.Lease
	select {
	case lease = <-third:
	case err := <-failed:
		t.Fatal(err)
	case <-ctx.Done():
		t.Fatal("ours does not get the key after etcdctl")
	}
	alone("the third", fourth)
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	fourth.holds(t, key)
	fourth.release(t)
	line(t, l, key, 0)
}

// One release wakes one waiter, however many wait.
func TestNoHerd(t *testing.T) {
	d := start(t)
	count := new(lock.Counters)
	l := client(t, d, lock.Config{Count: count})
	const key, waiters = "lb:{herd}:k", 20
	ctx := within(t)
	first, err := l.Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	turns, done := make(chan int, waiters), make(chan error, waiters)
	for i := range waiters {
		go func() {
			lease, err := l.Acquire(ctx, key)
			if err == nil {
				turns <- i
				err = lease.Release(ctx)
			}
			done <- err
		}()
		line(t, l, key, i+2)
	}
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	for range waiters {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if _, _, woken := count.Read(); woken > waiters {
		t.Errorf("%d wake-ups of %d waiters", woken, waiters)
	}
	close(turns)
	var order []int
	for i := range turns {
		order = append(order, i)
	}
	if !slices.IsSorted(order) {
		t.Errorf("they were served in the order %v", order)
	}
}

// A waiter that gives up leaves the line, and who is behind it does not get in
// before the holder leaves.
func TestGiveUp(t *testing.T) {
	d := start(t)
	l := client(t, d, lock.Config{})
	const key = "lb:{up}:k"
	ctx := within(t)
	first, err := l.Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancel(ctx)
	gone, last := make(chan error, 1), make(chan lock.Lease, 1)
	var free atomic.Bool // the holder has left
	go func() {
		_, err := l.Acquire(short, key)
		gone <- err
	}()
	line(t, l, key, 2)
	go func() {
		if lease, err := l.Acquire(ctx, key); err == nil {
			if !free.Load() {
				locktest.Violation(t, "the end of a wait let the next one in")
			}
			last <- lease
		}
	}()
	line(t, l, key, 3)
	cancel()
	if err := <-gone; err == nil {
		locktest.Violation(t, "it was granted a held key")
		t.FailNow()
	}
	line(t, l, key, 2)
	free.Store(true)
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case lease := <-last:
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
	case <-ctx.Done():
		t.Fatal("the last waiter was never woken")
	}
}

// A key and another that goes on after it with a slash have nothing to do with each
// other, although the line of the one lies below that of the other.
func TestKeysBelow(t *testing.T) {
	d := start(t)
	l := client(t, d, lock.Config{})
	ctx := within(t)
	inner, err := l.Acquire(ctx, "lb:{below}:a/b")
	if err != nil {
		t.Fatal(err)
	}
	outer, err := l.TryAcquire(ctx, "lb:{below}:a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.TryAcquire(ctx, "lb:{below}:a"); err == nil {
		locktest.Violation(t, "the outer key was granted twice")
		t.FailNow()
	}
	if err := outer.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if outer, err = l.Acquire(ctx, "lb:{below}:a"); err != nil {
		t.Fatal(err)
	}
	for _, lease := range []lock.Lease{inner, outer} {
		if err := lease.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// A waiter whose place is taken away queues again, instead of going in without one.
func TestPlaceTakenAway(t *testing.T) {
	d := start(t)
	l := client(t, d, lock.Config{})
	const key = "lb:{away}:k"
	ctx := within(t)
	first, err := l.Acquire(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan lock.Lease, 1)
	go func() {
		if lease, err := l.Acquire(ctx, key); err == nil {
			got <- lease
		}
	}()
	line(t, l, key, 2)
	r, err := l.client.Get(ctx, key+"/", clientv3.WithLastCreate()...)
	if err != nil || len(r.Kvs) != 1 {
		t.Fatal(r, err)
	}
	removed := r.Kvs[0]
	if _, err := l.client.Delete(ctx, string(removed.Key)); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case lease := <-got:
		if token := lease.(lock.Fenced).Token(); token <= uint64(removed.CreateRevision) {
			t.Errorf("granted by revision %d, that of the place which was taken away is %d", token, removed.CreateRevision)
		}
		if err := lease.Release(ctx); err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("it did not queue again")
	}
}
