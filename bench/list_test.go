package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/impls"
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
	oneLine(t, call(t, "list", "redis"), exitMisuse, "1 words too many")
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

// The table in README.md is generated: `lockbench list -into README.md`.
func TestReadmeIsInStep(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := splice(string(text), markdown(impls.All()))
	if err != nil {
		t.Fatalf("README.md: %v", err)
	}
	if want != string(text) {
		t.Error("README.md is out of step: write its table with lockbench list -into README.md")
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
