package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
)

const storedRuns = "../results/runs/quick.jsonl"

// The page of the grid holds what the flags ask for, and says how to make it again.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "a report.html")
	needs := filepath.Join(dir, "needs.yaml")
	write(t, needs, []byte("name: till\nrate: 100\nalgo: redis-handoff\nslo: response-p99<1s\n"))
	o := call(t, "report", "-in", storedRuns, "-compare", storedRuns, "-need", needs, "-claims", "redis", "-out", out)
	if o.status != 0 || o.stderr != "" || !strings.Contains(o.stdout, out) {
		t.Fatalf("%+v", o)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Which lock?", "How fast?", "How fair?", "What breaks?", "How many servers?", "Nothing that counts", "Not tested:",
		"till: 1 server of redis-handoff/goredis", "redis-handoff gives every owner the same share", "-need " + needs, "-out &#39;" + out + "&#39;",
		`id="picture-0"`, "What differs, and what only seems to?",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What cannot become a page is one line that says what to do, and an older page stays.
func TestBadReports(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		write(t, name, []byte(text))
		return name
	}
	page := file("page.html", "older")
	invalid := filepath.Join(dir, "invalid.jsonl")
	runs, _ := results.ReadFiles(storedRuns)
	w, err := results.Append(invalid)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs[:3] {
		r.Valid = results.Valid{Reasons: []string{"the machine was busy"}}
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	needs := file("needs.yaml", "rate: 100\n")
	for name, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"no file":      {nil, exitMisuse, "no results file given"},
		"no such file": {[]string{filepath.Join(dir, "none.jsonl")}, exitFailure, "none.jsonl"},
		"empty":        {[]string{file("empty.jsonl", "")}, exitFailure, "empty"},
		"malformed":    {[]string{file("bad.jsonl", "{\n")}, exitFailure, "bad.jsonl"},
		"other schema": {[]string{file("schema.jsonl", `{"schema":1,"id":"a"}`+"\n")}, exitFailure, "schema"},
		"both plans":   {[]string{"-plan", "a", "-need", "b", storedRuns}, exitMisuse, "give one of them"},
		"no plan":      {[]string{"-plan", file("plan.json", "{}"), storedRuns}, exitFailure, "lockbench plan -format json"},
		"bad needs":    {[]string{"-need", file("bad.yaml", "rate: fast\n"), storedRuns}, exitMisuse, "rate"},
		"invalid runs": {[]string{"-need", needs, invalid}, exitFailure, "none of the 3 runs"},
		"bad claims":   {[]string{"-claims", filepath.Join(dir, "none.yaml"), storedRuns}, exitMisuse, "none.yaml"},
		"no pair":      {[]string{"-compare", "../results/runs/rtt.jsonl", storedRuns}, exitFailure, "-compare"},
		"no directory": {[]string{"-out", filepath.Join(dir, "none", "page.html"), invalid}, exitFailure, "page.html"},
	} {
		t.Run(name, func(t *testing.T) {
			oneLine(t, call(t, append([]string{"report", "-out", page}, c.args...)...), c.status, c.want)
			if text, err := os.ReadFile(page); err != nil || string(text) != "older" {
				t.Errorf("the older page is now %.60q, %v", text, err)
			}
		})
	}
	// Runs that are not valid make a page, which says so.
	if o := call(t, "report", "-out", page, invalid); o.status != 0 {
		t.Errorf("%+v", o)
	}
	if text, _ := os.ReadFile(page); !strings.Contains(string(text), "No valid run proves anything") {
		t.Error("the page of invalid runs does not say so")
	}
}
