package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// slowest is how many of the slowest tests the summary names.
const slowest = 10

// A tally counts the tests that give each reason.
type tally map[string]int

// sorted lists the reasons, the most frequent first.
func (t tally) sorted() []string {
	return slices.SortedFunc(maps.Keys(t), func(a, b string) int {
		return cmp.Or(t[b]-t[a], strings.Compare(a, b))
	})
}

func many(n int) string {
	if n == 1 {
		return "1 test"
	}
	return fmt.Sprintf("%d tests", n)
}

var (
	// logged is a line of t.Log, t.Skip or t.Error, with the place it comes from.
	logged = regexp.MustCompile(`^ {4}\S+\.go:\d+: (.*)`)
	// unrun is how our tests open what they say of something that they do not test.
	unrun = regexp.MustCompile(`^(SKIPPED, )?NOT (RUN|TESTED|MEASURED|A REAL SERVER)\b[:, ]*`)
	// got is the command that gets what is missing, which such a message names.
	got = regexp.MustCompile(`scripts/servers ([a-z][a-z-]*)`)
	// poor is how a server that is there, but not enough, is refused.
	poor = regexp.MustCompile(`needs an? ([a-z]+)\b.*, found `)
	// engine is what is said of containers.
	engine = regexp.MustCompile(`container engine|scripts/image|\bdocker\b`)
)

// wanted is the word of LOCKBENCH_REQUIRE for what a test that was not run for the
// reason lacks, "" for a reason of another kind.
func wanted(reason string) string {
	if strings.Contains(reason, "scripts/newer") {
		return "valkey9"
	}
	if m := got.FindStringSubmatch(reason); m != nil {
		return m[1]
	}
	if m := poor.FindStringSubmatch(reason); m != nil {
		return m[1]
	}
	if engine.MatchString(reason) {
		return "docker"
	}
	return ""
}

// note counts what t says that it did not do, or did twice.
func (r *report) note(p *pkg, t *test) {
	var reasons []string
	for line := range strings.Lines(t.output.String()) {
		m := logged.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		said := strings.TrimSpace(m[1])
		if strings.Contains(said, "AGAIN:") {
			r.again = append(r.again, p.name+" "+t.name+": "+said)
		}
		if t.status == "skip" || unrun.MatchString(said) {
			reasons = append(reasons, said)
		}
	}
	if t.status == "skip" && len(reasons) == 0 {
		reasons = []string{"no reason is given"}
	}
	for _, reason := range reasons {
		if what := wanted(reason); what != "" {
			r.missing[what]++
		} else {
			r.left[unrun.ReplaceAllString(reason, "")]++
		}
	}
}

// A timing is how long a package or a test took.
type timing struct {
	name    string
	seconds float64
}

// longest sorts list and drops what took no time.
func longest(list []timing) []timing {
	slices.SortStableFunc(list, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	return slices.DeleteFunc(list, func(t timing) bool { return t.seconds < 0.05 })
}

// own lists how long each test took without those of its subtests that ran while
// it did.
func (p *pkg) own() []timing {
	var list []timing
	for _, t := range p.tests {
		took := t.elapsed
		for _, s := range t.subtests {
			if !s.parallel {
				took -= s.elapsed
			}
		}
		list = append(list, timing{strings.TrimPrefix(p.name, module) + " " + t.name, took})
	}
	return list
}

const module = "github.com/lockbench/lockbench/"

func table(title string, list []timing) string {
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "\n%s:\n", title)
	for _, t := range list {
		_, _ = fmt.Fprintf(&b, "%8.1f s  %s\n", t.seconds, t.name)
	}
	return b.String()
}

// summary prints what is to be known of the whole run.
func (r *report) summary() {
	var packages, tests []timing
	for _, p := range r.done {
		if p.cached {
			continue // it took no time now
		}
		packages = append(packages, timing{p.name, p.elapsed})
		tests = append(tests, p.own()...)
	}
	tests = longest(tests)
	_, _ = fmt.Fprint(r.out, table("packages by time", longest(packages)))
	_, _ = fmt.Fprint(r.out, table(fmt.Sprintf("the %d slowest tests, without their subtests", slowest), tests[:min(slowest, len(tests))]))
	if len(r.again) > 0 {
		_, _ = fmt.Fprintf(r.out, "\ncarried out again within a test, %d times:\n", len(r.again))
		for _, line := range r.again {
			_, _ = fmt.Fprintf(r.out, "  %s\n", line)
		}
	}
	if len(r.left)+len(r.missing) > 0 {
		_, _ = fmt.Fprintln(r.out)
	}
	for _, reason := range r.left.sorted() {
		_, _ = fmt.Fprintf(r.out, "left out: %s (%s)\n", reason, many(r.left[reason]))
	}
	for _, what := range r.missing.sorted() {
		_, _ = fmt.Fprintf(r.out, "not tested here: %s (%s)\n", what, many(r.missing[what]))
	}
}
