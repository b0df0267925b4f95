package nats

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A channel is a watch that tells what is sent.
type channel chan jetstream.KeyValueEntry

func (c channel) Updates() <-chan jetstream.KeyValueEntry { return c }
func (channel) Stop() error                               { return nil }
func (channel) Error() <-chan error                       { return nil }

// listening is the ears of a client whose only watch is of k, and how to end that.
func listening(t *testing.T) (e *ears, w *ear, end context.CancelFunc) {
	t.Helper()
	e = &ears{}
	c := make(channel)
	end = func() { close(c) }
	e.open = func(context.Context, string) (jetstream.KeyWatcher, context.CancelFunc, error) {
		return c, func() {}, nil
	}
	w, err := e.listen(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return e, w, end
}

func woken(w *ear) bool {
	select {
	case <-w.changed():
		return true
	default:
		return false
	}
}

// What a watch tells goes before what was read earlier and arrives later, or a waiter
// would sleep although the key is free.
func TestReadComesLate(t *testing.T) {
	e, w, end := listening(t)
	defer end()
	e.told("k", entry{rev: 7, held: true})
	e.told("k", entry{rev: 8})
	if !woken(w) || w.held() || e.free("k") != 8 {
		t.Errorf("the key was freed at 8: held %t, free at %d", w.held(), e.free("k"))
	}
	if now := e.saw("k", entry{rev: 7, held: true}); now.held || w.held() {
		t.Errorf("a read of revision 7 came after 8, and the key counts as held")
	}
	e.told("k", entry{rev: 8}) // by the watch as well
	if e.saw("k", entry{rev: 9}); woken(w) {
		t.Error("a waiter was woken by what it read itself")
	}
	if e.saw("k", entry{}); e.free("k") != 0 {
		t.Errorf("the key is not there, and its revision is %d", e.free("k"))
	}
}

// A write names the revision of a free key alone: that of a holder would take the key from
// it.
func TestHeldRevision(t *testing.T) {
	e, w, end := listening(t)
	defer end()
	e.told("k", entry{rev: 7, held: true})
	if rev := e.free("k"); rev != 0 {
		t.Errorf("a held key is to be written at %d", rev)
	}
	if w.doubt(); e.free("k") != 0 || w.held() {
		t.Errorf("a key in doubt is to be written at %d, held %t", e.free("k"), w.held())
	}
}

// What was known before a watch began may have changed unheard.
func TestListenForgets(t *testing.T) {
	e, w, end := listening(t)
	end()
	<-w.gone
	e.told("k", entry{rev: 7, held: true})
	next := make(channel)
	e.open = func(context.Context, string) (jetstream.KeyWatcher, context.CancelFunc, error) {
		return next, func() {}, nil
	}
	w, err := e.listen(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer close(next)
	if w.held() {
		t.Error("a new watch takes the key for held before it was asked")
	}
}

// A watch goes on for the next waiter, and ends a while after the last one has left; one
// that breaks wakes its waiter.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ears{}
		c, stopped := make(channel), false
		e.open = func(context.Context, string) (jetstream.KeyWatcher, context.CancelFunc, error) {
			return c, func() { stopped = true }, nil
		}
		w, err := e.listen(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			e.leave(w)
			time.Sleep(linger / 2)
			if again := e.find("k"); again != w || stopped {
				t.Fatalf("the next waiter finds %v, stopped %t", again, stopped)
			}
			time.Sleep(2 * linger)
		}
		e.leave(w)
		time.Sleep(2 * linger)
		if synctest.Wait(); !stopped || e.find("k") != nil {
			t.Errorf("nobody has waited for %v: stopped %t", 2*linger, stopped)
		}
		close(c)
		if synctest.Wait(); !w.deaf() || !woken(w) {
			t.Error("a watch has ended, and its waiter does not know")
		}
		e.close()
	})
}
