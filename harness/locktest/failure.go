package locktest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

func failureCases() []Case {
	return []Case{
		{Name: "service-dies", Sentence: blocks, Moot: lock.NoExclusion, proxy: true, run: serviceDies},
		{Name: "answer-late", Sentence: nothing, Moot: lock.NoExclusion, proxy: true, run: answerNeverComes},
		{Name: "answer-lost", Sentence: nothing, Moot: lock.NoExclusion, proxy: true, run: answerLost},
		{
			Name: "release-answer-lost", Moot: lock.NoExclusion, proxy: true, run: releaseAnswerLost,
			Sentence: "ErrUncertain says that the service may have granted (or freed) the key, although its answer never arrived.",
		},
		{
			Name: "unreachable", proxy: true, run: unreachable,
			Sentence: "It returns an error that names what could not be reached, never one that repeats a password.",
		},
	}
}

// shaky is the configuration of a client that meets a failing service.
func (e *env) shaky() lock.Config {
	c := e.config(long)
	c.Timeout = 3 * time.Second // a busy machine is no failing service
	c.NodeTimeout = c.Timeout / 2
	return c
}

// freeAfter sees that an Acquire which ended with err left key free.
func (e *env) freeAfter(err error, l lock.Locker, key string) {
	e.Helper()
	if errors.Is(err, lock.ErrUncertain) {
		return // whoever gets this error knows that the key may be held
	}
	if e.tryFor(l, key, e.o.Patience) == nil {
		e.Broken("Acquire ended with %q, which is not uncertain, and left the key held", err)
	}
}

// serviceDies ends the service under a waiter.
func serviceDies(e *env) {
	key := e.key("k")
	direct := e.open(long)
	held := e.take(direct, key)
	d, proxies := e.behind()
	c := e.start(e.Context(), e.openAs(d, e.shaky()), key)
	e.waiting(c)
	proxies.SetBoth(fault.Reset)
	g := e.end(c, "Acquire, whose service has failed,")
	if g.err == nil || g.lease != nil {
		e.Broken("the service failed under a waiter: lease %v, error %v", g.lease, g.err)
	}
	e.free(held)
	e.freeAfter(g.err, direct, key)
}

// warm makes a client use all that it sets up on first use, which may take
// longer than a lease on a busy machine.
func (e *env) warm(l lock.Locker) {
	e.Helper()
	if err := e.release(e.take(l, e.key("warm"))); err != nil && !errors.Is(err, lock.ErrLost) {
		e.Fatalf("Release of a lease that is held: %v", err)
	}
}

// answerNeverComes swallows every answer from some moment on.
func answerNeverComes(e *env) {
	key := e.key("k")
	d, proxies := e.behind()
	l := e.openAs(d, e.shaky())
	e.warm(l)
	proxies.Set(fault.Down, fault.Drop)
	g := e.end(e.start(e.Context(), l, key), "Acquire without an answer")
	if g.err == nil {
		e.Broken("a lease was granted without an answer of the service")
	}
	e.freeAfter(g.err, e.open(long), key)
}

// answerLost swallows one answer and resets its connection. A client library
// that sends the command again finds the key held, by itself.
func answerLost(e *env) {
	key := e.key("k")
	d, proxies := e.behind()
	l := e.openAs(d, e.shaky())
	e.warm(l)
	for _, p := range proxies {
		p.ResetNext(fault.Down)
	}
	ctx, cancel := context.WithTimeout(e.Context(), 2*e.ttl)
	defer cancel()
	g := e.end(e.start(ctx, l, key), "Acquire, whose first answer was lost,")
	if g.err == nil {
		e.free(g.lease)
		g.err = errors.New("no error, and the lease was released")
	}
	e.freeAfter(g.err, e.open(long), key)
}

// releaseAnswerLost swallows the answer to a Release.
func releaseAnswerLost(e *env) {
	key := e.key("k")
	d, proxies := e.behind()
	l := e.openAs(d, e.shaky())
	lease := e.take(l, key)
	proxies.Set(fault.Down, fault.Drop)
	err := e.release(lease)
	if err == nil || errors.Is(err, lock.ErrLost) {
		e.Broken("the answer to a Release was lost, and Release returned %v", err)
	}
	// An error that is not uncertain may come from a command that only reads;
	// then the key cannot have been freed.
	if !errors.Is(err, lock.ErrUncertain) && e.tryFor(e.open(long), key, e.pause) != nil {
		e.Violation("the answer to a Release was lost, which returned %v, and the key was free", err)
	}
}

// unreachable opens the variant on ports where nobody listens.
func unreachable(e *env) {
	const secret = "canary-7d1f"
	d := lock.Deployment{Kind: e.d.Kind}
	var hosts []string
	for i, node := range e.d.Nodes {
		u, err := url.Parse(node.Reveal())
		if err != nil {
			e.Fatalf("%s is no URL", node)
		}
		// A free port might be given to a server of another case; nobody gets these.
		u.Host = fmt.Sprintf("127.0.0.1:%d", i+1)
		u.User = url.UserPassword(u.User.Username(), secret)
		hosts = append(hosts, u.Host)
		d.Nodes = append(d.Nodes, lock.Endpoint(u.String()))
	}
	c := e.call(func() (lock.Lease, error) {
		l, err := e.v.Open(e.Context(), d, e.shaky())
		if err == nil {
			err = errors.Join(l.Close())
			if err == nil {
				return nil, nil
			}
			return nil, fmt.Errorf("close: %w", err)
		}
		return nil, err
	})
	g := e.end(c, "Open, where nobody listens,")
	if g.err == nil {
		e.Broken("Open succeeded where nobody listens")
	}
	text := fmt.Sprintf("%v", g.err)
	for _, form := range []string{text, fmt.Sprintf("%+v", g.err), fmt.Sprintf("%#v", g.err)} {
		if strings.Contains(form, secret) {
			e.Broken("the error repeats the password: %s", strings.ReplaceAll(form, secret, "(the password)"))
		}
	}
	if strings.ContainsAny(text, "\r\n") {
		e.Broken("the error is more than one line: %q", text)
	}
	for _, h := range hosts {
		if strings.Contains(text, h) {
			return
		}
	}
	e.Broken("the error names none of %q: %q", hosts, text)
}
