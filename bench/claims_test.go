package bench

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/compare"
)

func writeClaims(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// believed is a copy of a results file whose runs are valid, however busy the
// machine was.
func believed(t *testing.T, in string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "believed.jsonl")
	w, err := results.Append(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range stored(t, in) {
		r.Valid = results.Valid{OK: true}
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestClaims(t *testing.T) {
	in := believed(t, measured(t))
	const held = "- claim: it grants at all\n  of: {variants: [local-mutex], at: owners=1/keys=1/hold=1ms, metric: acq/s}\n  least: 1e-3\n  every: true\n"
	const missed = "- claim: two are a thousand times as fast\n  of: {variants: [local-*], at: owners=2/keys=1/hold=1ms, metric: acq/s}\n" +
		"  over: {variants: [local-mutex], at: owners=1/keys=1/hold=1ms, metric: acq/s}\n  least: 1000\n  every: true\n"
	o := lockbench(t, "compare", "-claims", writeClaims(t, held), in)
	if o.status != 0 || !strings.HasPrefix(o.stdout, "pass         it grants at all: ") || !strings.Contains(o.stdout, "all 1 claims passed") {
		t.Errorf("%+v", o)
	}
	o = lockbench(t, "compare", "-claims", writeClaims(t, held+missed), in)
	oneLine(t, o, exitFailure, "1 of 2 claims did not pass")
	if !strings.Contains(o.stdout, "\nFAIL         two are a thousand times as fast: ") {
		t.Errorf("%+v", o)
	}
	o = lockbench(t, "compare", "-claims", "redis", in) // those of the profile need other runs
	if o.status != exitFailure || !strings.Contains(o.stdout, "not measured: no run of ") {
		t.Errorf("%+v", o)
	}
}

func TestBadClaims(t *testing.T) {
	in := measured(t)
	const of = "of: {variants: [a], at: owners=1, metric: jain}"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "there are no claims"},
		{"no list", "claim: x\n", "c.yaml: "},
		{"unknown", "- claim: x\n  " + of + "\n  at-least: 1\n", "at-least"},
		{"no bound", "- claim: x\n  " + of + "\n", `"x" needs a bound`},
		{"no number", "- claim: x\n  " + of + "\n  least: y\n", "c.yaml: "},
		{"two documents", "- claim: x\n  " + of + "\n  least: 1\n---\n- claim: y\n  " + of + "\n  least: 1\n", "only one YAML document"},
		{"pattern", "- claim: x\n  of: {variants: ['['], at: owners=1, metric: jain}\n  least: 1\n", "is no pattern"},
	} {
		t.Run(c.name, func(t *testing.T) {
			oneLine(t, lockbench(t, "compare", "-claims", writeClaims(t, c.text), in), exitMisuse, c.want)
		})
	}
	oneLine(t, lockbench(t, "compare", "-claims", "nosuch.yaml", in), exitMisuse, "nosuch.yaml")
	oneLine(t, lockbench(t, "compare", "-claims", "quick", in), exitMisuse, "no claims")
	oneLine(t, lockbench(t, "compare", "-claims", "redis"), exitMisuse, "no results file")
	oneLine(t, lockbench(t, "claims", in), exitMisuse, "lockbench compare -claims")
}

// at is the name of a trial without its variant, as a claim has it.
func at(t harness.Trial) string {
	text := strings.TrimPrefix(t.Name(), "algo="+t.Variant.Algo+"/")
	return strings.TrimPrefix(text, "client="+t.Variant.Client+"/")
}

func meant(pattern string, v lock.Variant) bool {
	name := v.Algo
	if strings.Contains(pattern, "/") {
		name = v.Name()
	}
	ok, _ := path.Match(pattern, name)
	return ok
}

// Every claim of a profile is about runs that the profile plans, under a name
// that a run would have.
func TestProfileDecidesItsClaims(t *testing.T) {
	judged := 0
	for _, name := range profileNames() {
		claims, err := profileClaims(name)
		if err != nil {
			continue // it comes without
		}
		judged++
		t.Run(name, func(t *testing.T) {
			text, err := profile(name)
			if err != nil {
				t.Fatal(err)
			}
			decides(t, name, text, claims)
		})
	}
	if judged < 2 {
		t.Errorf("%d profiles come with claims, want 2", judged)
	}
}

func decides(t *testing.T, name string, profile, text []byte) {
	t.Helper()
	parts, err := defaultGrid().scenario(name, profile, nil)
	if err != nil {
		t.Fatal(err)
	}
	var planned []harness.Trial
	for _, g := range parts {
		if g.repeat < 5 { // fewer give no interval
			t.Errorf("%d repeats of %v, want at least 5", g.repeat, g.algos)
		}
		trials, _, err := g.plan(impls.All())
		if err != nil {
			t.Fatal(err)
		}
		planned = append(planned, trials...)
	}
	claims, err := readClaims(name, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		for _, p := range []compare.Pick{c.Of, c.Over} {
			for _, name := range p.Variants {
				if !slices.ContainsFunc(planned, func(t harness.Trial) bool { return p.At == at(t) && meant(name, t.Variant) }) {
					t.Errorf("%q: the profile does not measure %s at %s", c.Text, name, p.At)
				}
			}
		}
	}
}
