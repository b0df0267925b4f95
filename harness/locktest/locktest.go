// Package locktest is the conformance suite of the lock contract: one case for
// each sentence that impls/lock promises, run against a real service.
//
// A case quotes its sentence word for word, so that a variant that fails prints
// the promise it broke. A variant that declares a hazard is exempt from the
// sentences that the hazard is known to break and from no other; and it must be
// seen to break them, because a declaration that nothing bears out is worth no
// more than a promise that nothing checks. A case that a variant is exempt from by
// name (lock.Variant.Exempt) runs, too, and fails nothing; the log says whether the
// exemption was needed.
//
// The cases assert what must not happen and what must happen in the end, never
// how fast: a busy machine makes a case slow, not red.
package locktest

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/impls/lock"
)

// T is the part of *testing.T that a case needs. It is an interface so that
// the suite can be turned on broken locks in its own tests.
type T interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf must not return; it ends the goroutine as runtime.Goexit does.
	Fatalf(format string, args ...any)
}

// Options are what the suite must know about the store behind a Deployment.
// The zero value suits variants that need no server.
type Options struct {
	// Remove deletes the named entries from the store behind the Deployment
	// and returns how many there were. The suite cleans up with it and takes
	// keys away behind their holder's back. Nil only where nothing is stored.
	Remove func(ctx context.Context, names ...string) (int, error)
	// Find lists the entries whose name contains part, which has only letters
	// and digits. With it every case proves that it left nothing behind. Nil
	// leaves only a second Remove as proof.
	Find func(ctx context.Context, part string) ([]string, error)
	// Short asks for smaller loads: a slow server, or go test -short.
	Short bool
	// NoProxy leaves out the cases that put a proxy between client and server.
	NoProxy bool
	// TTL is the lease of the cases that wait for its end; 0 is 1 s. Variants
	// may round it up to a whole second.
	TTL time.Duration
	// Patience bounds the wait for whatever must happen in the end; 0 is 30 s.
	Patience time.Duration
}

func (o Options) filled() Options {
	if o.TTL <= 0 {
		o.TTL = time.Second
	}
	if o.Patience <= 0 {
		o.Patience = 30 * time.Second
	}
	return o
}

// A Case checks one sentence of the contract.
type Case struct {
	Name string
	// Sentence is the promise, word for word as a comment in impls/lock has it.
	Sentence string
	// Needs are the capabilities that a variant must declare for the case to
	// apply, Without those that it must not.
	Needs, Without lock.Caps
	// Breaks are the hazards that let a variant break this sentence. If it
	// declares one of them, the case passes when the break is seen.
	Breaks lock.Hazards
	// Moot are the hazards under which the case says nothing: a lock that
	// excludes nobody holds no key, so none of its keys can be lost. Breaks
	// goes first.
	Moot lock.Hazards

	store bool // takes keys away or inspects them, by Options
	proxy bool // puts a proxy between client and server
	alone bool // loads the machine: runs before the cases that wait
	timed bool // rests on a lease that goes on for a while without its client

	renewals bool // puts a proxy before a variant that renews
	run      func(*env)
}

// Cases is the suite.
func Cases() []Case {
	return slices.Concat(exclusionCases(), waitCases(), failureCases(), releaseCases(), leaseCases(),
		renewCases(), crashCases(), closeCases(), declaredCases(), optionalCases())
}

// skip says why c has nothing to check on v, or "".
func (c Case) skip(v lock.Variant, d lock.Deployment, o Options) string {
	switch {
	case !v.Caps.Has(c.Needs):
		return "it does not declare what they are about"
	case v.Caps&c.Without != 0:
		return "it declares " + (v.Caps & c.Without).String()
	case v.Unsafe&c.Breaks == 0 && v.Unsafe&c.Moot != 0:
		return "it declares " + (v.Unsafe & c.Moot).String()
	case c.store && o.Remove == nil:
		return "it keeps nothing in a store"
	case c.timed && v.Frees == lock.ByConnection:
		return "its leases end with their connections"
	case (c.proxy || c.renewals && v.Caps.Has(lock.Renew)) && o.NoProxy:
		return "no proxy is wanted before its servers"
	case (c.proxy || c.renewals && v.Caps.Has(lock.Renew)) && !fault.Proxied(d):
		return "no proxy can stand before its servers (they are reached by TLS or a socket, or tell their own addresses)"
	}
	return ""
}

// Run runs every case that applies to v as a subtest, with fresh keys, fresh
// Lockers, and nothing left in the store afterwards.
//
// The cases that load the machine run at once, one after the other. Then Run
// calls t.Parallel, and the rest, which mostly waits for leases to end, runs
// beside the same rest of other variants. So t must not be parallel yet, and
// what d needs must live until the end of t's parent (t.Cleanup).
func Run(t *testing.T, v lock.Variant, d lock.Deployment, o Options) {
	t.Helper()
	if v.Needs.Kind != "" && o.Remove == nil {
		t.Fatalf("%s keeps its keys in %s: Options.Remove must be set, so that they can be removed by name", v.Name(), v.Needs)
	}
	o = o.filled()
	var later []Case
	skipped := map[string][]string{} // reason → names
	for _, c := range Cases() {
		why := c.skip(v, d, o)
		switch {
		case why != "":
			skipped[why] = append(skipped[why], c.Name)
		case c.alone:
			t.Run(c.Name, func(t *testing.T) { c.runOn(t, v, d, o) })
		default:
			later = append(later, c)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		t.Logf("%s: %s, so these cases do not apply: %s", v.Name(), why, strings.Join(skipped[why], ", "))
	}
	t.Parallel()
	for _, c := range later {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.runOn(t, v, d, o)
		})
	}
}

// runOn runs c on v and reports to t, unless v is exempt.
func (c Case) runOn(t T, v lock.Variant, d lock.Deployment, o Options) {
	t.Helper()
	switch {
	case !slices.Contains(v.Exempt, c.Name):
		c.check(t, v, d, o)
	case !o.Short: // it takes all its patience
		c.excuse(t, v, d, o)
	}
}

// once carries c out on v.
func (c Case) once(a *attempt, v lock.Variant, d lock.Deployment, o Options) {
	e := newEnv(a, c, v, d, o.filled())
	declared := v.Unsafe & c.Breaks
	if declared == 0 {
		c.run(e)
		return
	}
	e.declared = true
	defer func() { // which the first break may bring about
		if e.broken != "" {
			a.Logf("breaks %q, as declared (%s): %s", c.Sentence, declared, e.broken)
		}
	}()
	c.run(e)
	a.Errorf("%s declares %s, but was seen to keep %q", v.Name(), declared, c.Sentence)
}

// Broken ends the case: the variant did not keep the sentence. The text says
// what was seen instead.
func (e *env) Broken(format string, args ...any) {
	e.Helper()
	seen := fmt.Sprintf(format, args...)
	if e.declared {
		e.broken = seen
		runtime.Goexit()
	}
	e.attempt.Fatalf("%s breaks %q: %s", e.v.Name(), e.sentence, seen)
}

// Fatalf ends the case because it could not be carried out, which is never
// taken for a declared break.
func (e *env) Fatalf(format string, args ...any) {
	e.Helper()
	e.undone(e.v.Name()+": "+fmt.Sprintf(format, args...), args)
}
