package locktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

func caseNamed(t *testing.T, name string) Case {
	t.Helper()
	for _, c := range Cases() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no case %q", name)
	return Case{}
}

// quick is how the model is examined: its service is in this process, so
// leases may be short. Patience is what a mutant costs that does nothing.
func quick(s *service) (lock.Deployment, Options) {
	d := lock.Deployment{Kind: "model", Nodes: []lock.Endpoint{lock.Endpoint("model://" + s.ln.Addr().String())}}
	return d, Options{Remove: s.remove, Find: s.find, Short: true, TTL: 500 * time.Millisecond, Patience: 3 * time.Second}
}

// TestSound runs the whole suite on clients that have no bug.
func TestSound(t *testing.T) {
	s := newService(t)
	d, o := quick(s)
	o.Patience = 0 // the default: nothing here is expected to fail
	t.Run("run", func(t *testing.T) { Run(t, model(renewed, ""), d, o) })

	slots := make(chan struct{}, 12) // as below
	var wg sync.WaitGroup
	for name, k := range map[string]kind{"fixed": fixed, "rich": rich, "line": line} {
		for _, c := range Cases() {
			if c.skip(model(k, ""), d, o) != "" {
				continue
			}
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				if r := examine(t.Context(), c, model(k, ""), d, o); len(r.problems) > 0 {
					t.Errorf("%s: the case %s reports %q", name, c.Name, r.problems)
				}
			})
		}
	}
	wg.Wait()
}

// twoInside are the bugs that each case finds by two owners inside at once.
var twoInside = []bug{
	"excludes nobody", "owner is the process", "takes over by its own clock", "two take over", "short ttl", "lease ends with ctx",
	"frees whoever holds it", "looks, then frees", "readers ignore writers", "frees at the first release", "one owner",
}

// TestMutants puts one bug at a time into a client: the case that is there for
// it must find it, and print the sentence that it breaks.
func TestMutants(t *testing.T) {
	list := []struct {
		bug    bug
		kind   kind
		caught string // by the case of this name
	}{
		{"excludes nobody", fixed, "exclusion"},
		{"excludes nobody", fixed, "second-owner"},
		{"excludes nobody", fixed, "try"},
		{"excludes nobody", fixed, "lease-lasts"},
		{"excludes nobody", fixed, "keys"},
		{"owner is the process", fixed, "second-owner"},
		{"takes over by its own clock", fixed, "client-clock"},
		{"two take over", fixed, "takeover"},
		{"trims the key", fixed, "keys"},
		{"cuts the key", fixed, "keys"},
		{"never frees", fixed, "crowd"},
		{"try waits", fixed, "try"},
		{"try knows no ErrHeld", fixed, "try"},
		{"ignores ctx", fixed, "ctx-ends-wait"},
		{"hides the error of ctx", fixed, "ctx-ends-wait"},
		{"stays in the queue", fixed, "ctx-ends-wait"},
		{"lease and error", fixed, "ctx-ends-wait"},
		{"takes before it looks", fixed, "ctx-done"},
		{"stays in the queue", fixed, "ctx-race"},
		{"lease ends with ctx", fixed, "ctx-not-lease"},
		{"lease ends with ctx", renewed, "ctx-not-lease"},
		{"no limit", fixed, "limit"},
		{"counts nothing", fixed, "counts"},
		{"works after close", fixed, "closed"},
		{"waits on after close", fixed, "close-ends-waits"},
		{"close releases", fixed, "lease-lasts"},
		{"close closes the others", fixed, "close-spares-others"},
		{"leaks goroutines", fixed, "goroutines"},
		{"leaks a connection", fixed, "connections"},
		{"too many connections", fixed, "conns"},
		{"certain", fixed, "answer-late"},
		{"certain", fixed, "release-answer-lost"},
		{"sends again", fixed, "answer-lost"},
		{"release hides errors", fixed, "release-answer-lost"},
		{"opens lazily", fixed, "unreachable"},
		{"repeats the password", fixed, "unreachable"},
		{"two lines", fixed, "unreachable"},
		{"names no address", fixed, "unreachable"},
		{"never frees", fixed, "release-frees"},
		{"release knows no loss", fixed, "release-twice"},
		{"release knows no loss", fixed, "release-after-end"},
		{"release knows no loss", fixed, "release-after-removal"},
		{"frees whoever holds it", fixed, "late-release"},
		{"frees whoever holds it", renewed, "late-release"},
		{"looks, then frees", fixed, "late-release"},
		{"looks, then frees", renewed, "late-release"},
		{"frees whoever holds it", fixed, "double-release"},
		{"short ttl", fixed, "lease-lasts"},
		{"another default", fixed, "default-ttl"},
		{"no ttl", fixed, "lease-ends"},
		{"ttl is taken for seconds", fixed, "lease-ends"},
		{"counts the deadline from the answer", fixed, "deadline"},
		{"no deadline", fixed, "guard"},
		{"lost from the start", fixed, "lost-quiet"},
		{"lost by release", fixed, "lost-quiet"},
		{"lost from the start", fixed, "guard"},
		{"extends nothing", fixed, "extend"},
		{"extends what is gone", fixed, "extend"},
		{"extends by any time", fixed, "extend-range"},
		{"takes any ttl", fixed, "ttl-range"},
		{"takes any ttl", renewed, "ttl-range"},
		{"one token", fixed, "fencing"},
		{"tokens of its own", fixed, "fencing"},
		{"no renewal", renewed, "renew"},
		{"renewal without an end", renewed, "renewed-lease-ends"},
		{"renews after release", renewed, "renew-stops"},
		{"never learns of a loss", renewed, "lost"},
		{"never learns of a loss", renewed, "guard"},
		{"renews for anybody", renewed, "lost-to-next"},
		{"deadline stands still", renewed, "renew-moves-deadline"},
		{"lease begins with the wait", renewed, "long-wait"},
		{"lease begins with the wait", fixed, "long-wait"},
		{"deadline stands still", renewed, "long-wait"},
		{"no renewal", renewed, "long-wait"},
		{"dies midway", fixed, "crash-midway"},
		{"ignores the hook", fixed, "hook"},
		{"grants in any order", line, "fair"},
		{"readers exclude readers", rich, "shared"},
		{"readers ignore writers", rich, "shared"},
		{"keeps a part", rich, "multi"},
		{"forgets the last key", rich, "multi"},
		{"no re-entry", rich, "reentrant"},
		{"one owner", rich, "reentrant"},
		{"frees at the first release", rich, "reentrant"},
		{"frees at the first release", rich, "downgrade"},
		{"no re-entry of readers", rich, "downgrade"},
		{"frees all readers", rich, "shared-as"},
		{"waits with the key", rich, "cond-signal"},
		{"wakes without the key", rich, "cond-signal"},
		{"signals all", rich, "cond-signal"},
		{"broadcasts to one", rich, "cond-broadcast"},
	}
	s := newService(t)
	slots := make(chan struct{}, 12) // most mutants cost time and no processor
	var wg sync.WaitGroup
	for _, m := range list {
		c := caseNamed(t, m.caught)
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			d, o := quick(s)
			want := fmt.Sprintf("model breaks %q: ", c.Sentence)
			// Some bugs show only if the other side runs in time, which on a busy
			// machine it does not always.
			var r *recorder
			for range 5 {
				r = examine(t.Context(), c, model(m.kind, m.bug), d, o)
				if slices.ContainsFunc(r.problems, func(p string) bool { return strings.HasPrefix(p, want) }) {
					if slices.Contains(twoInside, m.bug) && m.caught != "double-release" && !strings.Contains(strings.Join(r.problems, "\n"), violation) {
						t.Errorf("bug %q lets two in: the case %s reports no violation: %q", m.bug, m.caught, r.problems)
					}
					return
				}
			}
			t.Errorf("bug %q: the case %s reports %q", m.bug, c.Name, r.problems)
		})
	}
	wg.Wait()
}

// TestDeclarations turns the suite on variants whose declarations are wrong,
// and on broken ones that say so.
func TestDeclarations(t *testing.T) {
	list := []struct {
		name   string
		bug    bug
		kind   kind
		change func(*lock.Variant)
		run    string
		want   string // the start of a problem; "" wants none
	}{
		{"no try", "", fixed, capable(lock.Fencing | lock.Extend), "caps", `model breaks "The first group`},
		{"shared", "", fixed, capable(lock.Try | lock.Fencing | lock.Extend | lock.Shared), "caps", `model breaks "The first group`},
		{"no fencing", "", fixed, capable(lock.Try | lock.Extend), "caps", `model breaks "The first group`},
		{"extend", "", renewed, capable(lock.Try | lock.Fencing | lock.Extend | lock.Renew), "caps", `model breaks "The first group`},
		{"notify", "", fixed, capable(lock.Try | lock.Fencing | lock.Extend | lock.Notify), "notify", `model breaks "waiters are woken`},
		{"fair", "", fixed, capable(lock.Try | lock.Fencing | lock.Extend | lock.Fair), "fair", `model breaks "grants in the order of arrival"`},

		{"false late-release", "", fixed, hazardous(lock.LateRelease), "late-release", "model declares late-release, but was seen to keep"},
		{"false crash", "", fixed, hazardous(lock.Crash), "lease-ends", "model declares crash, but was seen to keep"},
		{"false crash-midway", "", fixed, hazardous(lock.CrashMidway), "crash-midway", "model declares crash-midway, but was seen to keep"},
		{"false takeover-race", "", fixed, hazardous(lock.TakeoverRace), "takeover", "model declares takeover-race, but was seen to keep"},
		{"false client-clock", "", fixed, hazardous(lock.ClientClock), "client-clock", "model declares client-clock, but was seen to keep"},
		{"false no-exclusion", "", fixed, hazardous(lock.NoExclusion), "exclusion", "model declares no-exclusion, but was seen to keep"},
		{"false pause", "no ttl", fixed, hazardous(lock.Pause), "pause", "model declares pause, but was seen to keep"},

		{"late-release", "frees whoever holds it", fixed, hazardous(lock.LateRelease), "late-release", ""},
		{"late-release in between", "looks, then frees", fixed, hazardous(lock.LateRelease), "late-release", ""},
		{"crash", "no ttl", fixed, hazardous(lock.Crash), "lease-ends", ""},
		{"crash-midway", "dies midway", fixed, hazardous(lock.CrashMidway), "crash-midway", ""},
		{"takeover-race", "two take over", fixed, hazardous(lock.TakeoverRace), "takeover", ""},
		{"client-clock", "takes over by its own clock", fixed, hazardous(lock.ClientClock), "client-clock", ""},
		{"no-exclusion", "excludes nobody", fixed, hazardous(lock.NoExclusion), "exclusion", ""},
		{"pause", "", fixed, hazardous(lock.Pause), "pause", ""},
		{"pause of one who renews", "", renewed, hazardous(lock.Pause), "pause", ""},

		{"undeclared pause", "", fixed, hazardous(0), "pause", `model breaks "Every call acts`},
		{"undeclared pause of one who renews", "", renewed, hazardous(0), "pause", `model breaks "Every call acts`},
		{"exempt from another sentence only", "frees whoever holds it", fixed, hazardous(lock.ClientClock), "late-release", `model breaks "It never frees`},
		{"unlisted names", "leaves more names", fixed, hazardous(lock.Pause), "release-frees", `model breaks "Keys lists`},
		{"cannot be tried", "opens lazily", fixed, unusable, "late-release", "model: open: "},
	}
	s := newService(t)
	slots := make(chan struct{}, 12)
	var wg sync.WaitGroup
	for _, m := range list {
		c := caseNamed(t, m.run)
		v := model(m.kind, m.bug)
		m.change(&v)
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			d, o := quick(s)
			r := examine(t.Context(), c, v, d, o)
			if m.want == "" {
				if len(r.problems) > 0 {
					t.Errorf("%s: the case %s reports %q", m.name, c.Name, r.problems)
				}
				return
			}
			if !slices.ContainsFunc(r.problems, func(p string) bool { return strings.HasPrefix(p, m.want) }) {
				t.Errorf("%s: the case %s reports %q, want %q", m.name, c.Name, r.problems, m.want)
			}
		})
	}
	wg.Wait()
}

// TestExempt runs a case on variants that are exempt from it, one of which need not
// be: neither fails, and the log tells them apart.
func TestExempt(t *testing.T) {
	s := newService(t)
	d, o := quick(s)
	o.Short = false // which leaves such cases out
	for _, m := range []struct {
		bug  bug
		run  string
		want string
	}{
		{"", "release-frees", "EXEMPT FOR NOTHING: model is exempt from release-frees"},
		{"never frees", "release-frees", "model fails release-frees, from which it is exempt: "},
		{"leaves more names", "release-frees", "model fails release-frees, from which it is exempt: "}, // found by its cleanup
	} {
		v := model(fixed, m.bug)
		v.Exempt = []string{m.run}
		r := examine(t.Context(), caseNamed(t, m.run), v, d, o)
		if len(r.problems) > 0 || !slices.ContainsFunc(r.logs, func(l string) bool { return strings.HasPrefix(l, m.want) }) {
			t.Errorf("bug %q: the problems %q, the log %q, want %q", m.bug, r.problems, r.logs, m.want)
		}
	}
}

func capable(c lock.Caps) func(*lock.Variant)      { return func(v *lock.Variant) { v.Caps = c } }
func hazardous(h lock.Hazards) func(*lock.Variant) { return func(v *lock.Variant) { v.Unsafe = h } }

// unusable makes a variant that declares a hazard fail for another reason,
// which must not be taken for the hazard.
func unusable(v *lock.Variant) {
	v.Unsafe = lock.LateRelease
	v.Open = func(context.Context, lock.Deployment, lock.Config) (lock.Locker, error) {
		return nil, fmt.Errorf("refused")
	}
}

func TestRunNamesAMissingRemove(t *testing.T) {
	// Run needs a *testing.T, so only what it decides by is looked at.
	s := newService(t)
	d, o := quick(s)
	o.Remove = nil
	for _, c := range Cases() {
		if c.store && c.skip(model(renewed, ""), d, o) == "" {
			t.Errorf("case %s takes keys away without Options.Remove", c.Name)
		}
	}
}
