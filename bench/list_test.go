package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

func TestListJSON(t *testing.T) {
	o := call(t, "list", "-json")
	if o.status != 0 {
		t.Fatal(o.stderr)
	}
	var list []struct {
		Algo   string
		Client *string
		Needs  *struct{ Kind string }
		Caps   []string
		Unsafe []string
		Doc    string
		Source string
	}
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	for _, e := range list {
		if e.Client == nil || e.Needs == nil || e.Caps == nil || e.Unsafe == nil || e.Doc == "" || e.Source == "" {
			t.Errorf("%s lacks a field: %+v", e.Algo, e)
			continue
		}
		family, _, _ := strings.Cut(e.Algo, "-")
		count[family+" "+*e.Client+" "+e.Needs.Kind]++
	}
	if count["local  "] != 3 || count["redis goredis redis"] < 10 || count["redis goredis redis"] != count["redis redigo redis"] {
		t.Errorf("families, clients and needs: %v", count)
	}
	if len(list) != len(impls.All()) {
		t.Errorf("%d variants, want %d", len(list), len(impls.All()))
	}
}

func TestListNamesEveryAlgorithmOnce(t *testing.T) {
	for _, c := range []struct{ args, mark string }{{"list", ""}, {"list -md", "`"}} {
		o := call(t, strings.Fields(c.args)...)
		if o.status != 0 {
			t.Fatal(o.stderr)
		}
		count := make(map[string]int)
		for line := range strings.Lines(o.stdout) {
			first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " ")
			count[first]++
		}
		for _, algo := range algosOf(impls.All()) {
			if n := count[c.mark+algo+c.mark]; n != 1 {
				t.Errorf("%s: %s begins %d lines", c.args, algo, n)
			}
		}
	}
}

func TestListRefuses(t *testing.T) {
	oneLine(t, call(t, "list", "-json", "-md"), exitMisuse, "give one of them")
	oneLine(t, call(t, "list", "-md", "redis-token"), exitMisuse, "leave the names away")
	oneLine(t, call(t, "list", "redis-tokn"), exitMisuse, "did you mean redis-token?")
	oneLine(t, call(t, "list", "nosuch-*"), exitMisuse, `no variant matches "nosuch-*"`)
	missing := filepath.Join(t.TempDir(), "nosuch.md")
	oneLine(t, call(t, "list", "-into", missing), exitFailure, "no such file")
}

func TestSplice(t *testing.T) {
	const table = "| a |\n"
	for _, c := range []struct{ text, want string }{
		{"x\n" + tableBegin + "\nold\n" + tableEnd + "\ny\n", "x\n" + tableBegin + "\n| a |\n" + tableEnd + "\ny\n"},
		{tableBegin + tableEnd, tableBegin + "\n| a |\n" + tableEnd},
		{"x\n", "there is no line " + tableBegin},
		{tableBegin + "\n", "there is no line " + tableEnd + " after " + tableBegin},
	} {
		got, err := splice(c.text, table)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q gives %q, want %q", c.text, got, c.want)
		}
		if err == nil {
			if again, err := splice(got, table); again != got || err != nil {
				t.Errorf("a second time gives %q (%v)", again, err)
			}
		}
	}
}

func TestListIntoWritesTheTable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.md")
	if err := os.WriteFile(name, []byte("# x\n"+tableBegin+"\n"+tableEnd+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if o := call(t, "list", "-into", name); o.status != 0 {
		t.Fatal(o.stderr)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# x\n" + tableBegin + "\n" + call(t, "list", "-md").stdout + tableEnd + "\n"; string(got) != want {
		t.Errorf("got %q", got)
	}
}

// The table in impls/README.md is generated: `lockbench list -into impls/README.md`.
func TestReadmeIsInStep(t *testing.T) {
	text, err := os.ReadFile("../impls/README.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := splice(string(text), markdown(impls.All()))
	if err != nil {
		t.Fatalf("impls/README.md: %v", err)
	}
	if want != string(text) {
		t.Error("impls/README.md is out of step: write its table with lockbench list -into impls/README.md")
	}
}

// A feature is said to be there only where a case of the suite proves it.
func TestFeaturesAreProved(t *testing.T) {
	cases := make(map[string]locktest.Case)
	for _, c := range locktest.Cases() {
		cases[c.Name] = c
	}
	for _, f := range features() {
		if len(f.proofs) == 0 {
			t.Errorf("%s: nothing proves it", f.name)
		}
		for _, name := range f.proofs {
			c, ok := cases[name]
			if !ok {
				t.Errorf("%s: there is no case %q", f.name, name)
			}
			// The case applies to every variant that is said to have the feature, and a
			// declared hazard does not turn it into its contrary.
			for _, v := range impls.All() {
				if f.has(v) && (!v.Caps.Has(c.Needs) || v.Caps&c.Without != 0 || v.Unsafe&(c.Breaks|c.Moot) != 0) {
					t.Errorf("%s: %s does not run on %s as a promise", f.name, name, v.Name())
				}
			}
		}
	}
	text := featureTable(impls.All())
	for _, want := range []string{"| fencing token |", "| Redis |", "all but"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}

// Every capability, hazard and exemption that a lock has is told in words, and in the
// table by a letter of its own.
func TestTraits(t *testing.T) {
	for _, c := range []struct {
		what  string
		list  []trait
		names []string
	}{
		{"capability", capabilities(), (^lock.Caps(0)).List()},
		{"hazard", hazards(), (^lock.Hazards(0)).List()},
	} {
		var names []string
		letter := make(map[string]bool)
		for _, tr := range c.list {
			names = append(names, tr.name)
			if len(tr.letter) != 1 || letter[tr.letter] || tr.says == "" {
				t.Errorf("%s %+v needs a letter of its own and words", c.what, tr)
			}
			letter[tr.letter] = true
		}
		if !slices.Equal(names, c.names) {
			t.Errorf("bench knows of each %s %q, and the contract of %q", c.what, names, c.names)
		}
	}
	for _, v := range impls.All() {
		for _, line := range sayings(exemptions(), v.Exempt) {
			if line[1] == "" {
				t.Errorf("%s does not pass %s, which bench/trait.go has no words for", v.Name(), line[0])
			}
		}
	}
}

func TestListFits(t *testing.T) {
	o := call(t, "list")
	for line := range strings.Lines(o.stdout) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > listWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	v := variantsByName()["redis-token/goredis"]
	for _, want := range []string{
		"\nredis-token  ", " " + letters(capabilities(), v.Caps.List()) + "  " + letters(hazards(), v.Unsafe.List()) + ".  ", "\nCAN: t try, ", "\nBREAKS, by letting two owners in or nobody ever again: c crash, ", "\nNEEDS: ",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("list lacks %q:\n%s", want, o.stdout)
		}
	}
}

func TestListPattern(t *testing.T) {
	o := call(t, "list", "zk-*", "etcd-mutex")
	if o.status != 0 || !strings.Contains(o.stdout, "\nzk-sequential ") || !strings.Contains(o.stdout, "\netcd-mutex ") || strings.Contains(o.stdout, "\nredis-") {
		t.Errorf("%+v", o)
	}
	var list []struct{ Algo string }
	if err := json.Unmarshal([]byte(call(t, "list", "-json", "etcd-mutex").stdout), &list); err != nil || len(list) != 1 {
		t.Errorf("%v: %v", list, err)
	}
}

// Of one lock list tells all, within the width of help.
func TestListOne(t *testing.T) {
	for _, v := range impls.All() {
		o := call(t, "list", v.Algo)
		if o.status != 0 || o.stderr != "" || !strings.HasPrefix(o.stdout, v.Algo+"\n") {
			t.Errorf("%s: %+v", v.Algo, o)
		}
		for line := range strings.Lines(o.stdout) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		var rules []string
		if v.Grants != nil {
			rules = v.Grants("PREFIX")
		}
		for _, want := range slices.Concat(v.Caps.List(), v.Unsafe.List(), v.Exempt, rules, []string{v.Client, v.Needs.String(), "lockbench run -algo " + v.Algo + " "}) {
			if !strings.Contains(o.stdout, want) {
				t.Errorf("list %s lacks %q:\n%s", v.Algo, want, o.stdout)
			}
		}
	}
	o := call(t, "list", "peer-rueidislock")
	var lacks []string
	for _, want := range []string{
		"  can            try     tries once without waiting\n",
		"  breaks         pause         a holder that stalls past its lease goes on beside the next owner\n",
		"  holder dies    others get the key when its lease ends\n",
		"  does not pass  service-dies ",
		"  try it         lockbench run -algo peer-rueidislock -out peer-rueidislock.jsonl\n",
		"lockbench lock -algo peer-rueidislock -redis URL -key KEY -- COMMAND\n",
	} {
		if !strings.Contains(o.stdout, want) {
			lacks = append(lacks, want)
		}
	}
	if len(lacks) > 0 {
		t.Errorf("list peer-rueidislock lacks %q:\n%s", lacks, o.stdout)
	}
}
