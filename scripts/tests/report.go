package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// An event is one line of go test -json; go doc test2json says what is in it.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	ImportPath  string  // of what is built
	FailedBuild string  // the ImportPath that a package failed for
}

// cutShort is how a test ended, or a package, that never did.
const cutShort = "cut short"

// A failure is one line of the file that -fail names.
type failure struct {
	Package string  `json:"package"`
	Test    string  `json:"test,omitempty"`   // "" for the package itself, which has a line after those of its tests
	Status  string  `json:"status"`           // "fail", or "cut short" by a panic of any test, a time-out or an exit; or else, where its output holds a panic or a race, how it ended
	Parent  bool    `json:"parent,omitempty"` // whether subtests of it failed, which have lines of their own
	Seconds float64 `json:"seconds"`
	Output  string  `json:"output"` // for a package: what belongs to no test, or why it was not built
}

// A report is what has been seen of one run of go test.
type report struct {
	out      io.Writer
	verbose  bool          // whether all output is passed on as it comes
	failures *json.Encoder // nil if nobody wants them
	failed   []failure     // what it is told

	packages map[string]*pkg
	builds   map[string]string // what building each failed import path printed
	done     []*pkg            // in the order in which they ended
	again    []string          // the cases that were carried out once more
	missing  tally             // what is not here → how many tests want it
	left     tally             // every other reason → how many tests it kept from running
}

type pkg struct {
	name    string
	output  strings.Builder // what belongs to no test
	tests   []*test         // in the order in which they began
	current map[string]*test
	status  string // how it ended, "" until then
	cached  bool
	elapsed float64
}

type test struct {
	name     string
	output   strings.Builder
	status   string // how it ended, "" until then
	parallel bool   // whether it waited for its parent to end
	elapsed  float64
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: make(map[string]*pkg), builds: make(map[string]string), missing: make(tally), left: make(tally)}
}

// take adds one event.
func (r *report) take(e event) {
	switch e.Action {
	case "build-output":
		r.builds[e.ImportPath] += e.Output
		fmt.Fprint(r.out, e.Output)
		return
	case "build-fail":
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pkg{name: e.Package, current: make(map[string]*test)}
		r.packages[e.Package] = p
	}
	if r.verbose && e.Action == "output" {
		fmt.Fprint(r.out, e.Output)
	}
	if e.Test == "" {
		switch e.Action {
		case "output":
			p.output.WriteString(e.Output)
			p.cached = p.cached || strings.Contains(e.Output, "\t(cached)")
		case "pass", "fail", "skip":
			p.status, p.elapsed = e.Action, e.Elapsed
			p.output.WriteString(r.builds[e.FailedBuild])
			r.end(p)
		}
		return
	}
	t := p.current[e.Test]
	if t == nil || t.status != "" && e.Action == "run" { // it may be run several times
		t = &test{name: e.Test}
		p.current[e.Test] = t
		p.tests = append(p.tests, t)
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "pause":
		t.parallel = true
	case "pass", "fail", "skip":
		t.status, t.elapsed = e.Action, e.Elapsed
	}
}

// end prints what p has to say once it has ended, or never will, and keeps what
// the summary needs.
func (r *report) end(p *pkg) {
	r.done = append(r.done, p)
	delete(r.packages, p.name)
	for _, t := range p.tests {
		r.note(p, t)
	}
	if p.status != "pass" && p.status != "skip" {
		r.fail(p)
		return
	}
	if r.verbose {
		return
	}
	for line := range strings.Lines(p.output.String()) {
		if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "? ") || strings.HasPrefix(line, "\t") {
			fmt.Fprint(r.out, line)
		}
	}
}

// loud is what counts whatever test it is printed under: the writer does not know.
var loud = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE|SIG[A-Z]+: )`)

// fail prints what go test prints of a package that failed, and writes it down.
func (r *report) fail(p *pkg) {
	for _, t := range p.tests {
		bad := t.status == "fail" || t.status == ""
		if !bad && !loud.MatchString(t.output.String()) {
			continue
		}
		if !r.verbose {
			fmt.Fprint(r.out, t.text())
		}
		r.write(failure{
			Package: p.name, Test: t.name, Status: cmp.Or(t.status, cutShort), Seconds: t.elapsed, Output: t.output.String(),
			Parent: slices.ContainsFunc(p.tests, func(s *test) bool { return s.status == "fail" && strings.HasPrefix(s.name, t.name+"/") }),
		})
	}
	if !r.verbose {
		fmt.Fprint(r.out, p.output.String())
	}
	if p.status == "" {
		fmt.Fprintf(r.out, "FAIL\t%s [%s]\n", p.name, cutShort)
	}
	r.write(failure{Package: p.name, Status: cmp.Or(p.status, cutShort), Seconds: p.elapsed, Output: p.output.String()})
}

func (r *report) write(f failure) {
	r.failed = append(r.failed, f)
	if r.failures == nil {
		return
	}
	if err := r.failures.Encode(f); err != nil {
		fmt.Fprintf(r.out, "tests: %v\n", err)
	}
}

// framing is how go test -v tells which test the lines that follow are of.
var framing = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME)\b`)

// text is the output of t as go test without -v has it: the verdict comes first,
// and the lines of a subtest are indented like its verdict.
func (t *test) text() string {
	deep := strings.Repeat("    ", strings.Count(t.name, "/"))
	verdict, lines := deep+"--- "+t.name+" ["+cutShort+"]\n", ""
	for line := range strings.Lines(t.output.String()) {
		switch {
		case framing.MatchString(line):
		case strings.HasPrefix(strings.TrimLeft(line, " "), "--- ") && strings.Contains(line, ": "+t.name+" ("):
			verdict = deep + strings.TrimLeft(line, " ")
		case strings.HasPrefix(line, "    "):
			lines += deep + line
		default:
			lines += line
		}
	}
	if lines != "" && !strings.HasSuffix(lines, "\n") {
		lines += "\n"
	}
	return verdict + lines
}

// finish reports the packages that never ended, and the summary. It tells whether
// anything failed.
func (r *report) finish() (failed bool) {
	var cut []*pkg
	for _, p := range r.packages {
		cut = append(cut, p)
	}
	slices.SortFunc(cut, func(a, b *pkg) int { return strings.Compare(a.name, b.name) })
	for _, p := range cut {
		r.end(p)
	}
	failed = slices.ContainsFunc(r.done, func(p *pkg) bool { return p.status != "pass" && p.status != "skip" })
	if failed {
		fmt.Fprintln(r.out, "FAIL") // go test closes with it, but not in JSON
	}
	r.summary()
	return failed
}
