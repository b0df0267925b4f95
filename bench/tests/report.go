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
	all      []failure     // what they are told

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
	ended   int    // how many tests have ended
	status  string // how it ended, "" until then
	cached  bool
	elapsed float64
}

type test struct {
	name     string
	parent   *test   // nil at the top
	subtests []*test // in the order in which they began
	ended    int     // how many tests of the package had ended by then, itself included, 0 if it never did
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
		_, _ = fmt.Fprint(r.out, e.Output)
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
		_, _ = fmt.Fprint(r.out, e.Output)
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
		t = p.begin(e.Test)
		p.current[e.Test] = t
		p.tests = append(p.tests, t)
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "pause":
		t.parallel = true
	case "pass", "fail", "skip":
		p.ended++
		t.status, t.elapsed, t.ended = e.Action, e.Elapsed, p.ended
	}
}

// begin is a new test of the name, among the subtests of the latest that it is one of.
// A slash may as well be part of what a subtest is called.
func (p *pkg) begin(name string) *test {
	t := &test{name: name}
	for above := name; t.parent == nil && strings.Contains(above, "/"); {
		above = above[:strings.LastIndexByte(above, '/')]
		t.parent = p.current[above]
	}
	if t.parent != nil {
		t.parent.subtests = append(t.parent.subtests, t)
	}
	return t
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
			_, _ = fmt.Fprint(r.out, line)
		}
	}
}

// loud is what counts whatever test it is printed under: the writer does not know.
var loud = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE|SIG[A-Z]+: )`)

// fail prints what go test prints of a package that failed, and writes it down.
func (r *report) fail(p *pkg) {
	for _, t := range inTurn(p.tests) {
		if t.parent == nil {
			r.print(p, t, "")
		}
	}
	if !r.verbose {
		_, _ = fmt.Fprint(r.out, p.output.String())
	}
	if p.status == "" {
		_, _ = fmt.Fprintf(r.out, "FAIL\t%s [%s]\n", p.name, cutShort)
	}
	r.write(failure{Package: p.name, Status: cmp.Or(p.status, cutShort), Seconds: p.elapsed, Output: p.output.String()})
}

// inTurn sorts tests as go test prints them, by when they ended, and puts those last
// that never did.
func inTurn(list []*test) []*test {
	return slices.SortedStableFunc(slices.Values(list), func(a, b *test) int {
		if (a.ended == 0) != (b.ended == 0) {
			return b.ended - a.ended
		}
		return a.ended - b.ended
	})
}

// print is fail for t and its subtests, whose verdicts are indented by indent.
func (r *report) print(p *pkg, t *test, indent string) {
	if t.status == "fail" || t.status == "" || loud.MatchString(t.output.String()) {
		if !r.verbose {
			_, _ = fmt.Fprint(r.out, t.text(indent))
		}
		r.write(failure{
			Package: p.name, Test: t.name, Status: cmp.Or(t.status, cutShort), Seconds: t.elapsed, Output: t.output.String(),
			Parent: slices.ContainsFunc(t.subtests, func(s *test) bool { return s.status == "fail" }),
		})
	}
	for _, s := range inTurn(t.subtests) {
		r.print(p, s, indent+"    ")
	}
}

func (r *report) write(f failure) {
	r.all = append(r.all, f)
	if r.failures == nil {
		return
	}
	if err := r.failures.Encode(f); err != nil {
		_, _ = fmt.Fprintf(r.out, "tests: %v\n", err)
	}
}

// framing is how go test -v tells which test the lines that follow are of.
var framing = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME)\b`)

// text is the output of t as go test without -v has it: the verdict comes first,
// and the lines of a subtest are indented like its verdict.
func (t *test) text(indent string) string {
	verdict, lines := indent+"--- "+t.name+" ["+cutShort+"]\n", ""
	for line := range strings.Lines(t.output.String()) {
		switch {
		case framing.MatchString(line):
		case strings.HasPrefix(strings.TrimLeft(line, " "), "--- ") && strings.Contains(line, ": "+t.name+" ("):
			verdict = indent + strings.TrimLeft(line, " ")
		case strings.HasPrefix(line, "    "):
			lines += indent + line
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
		_, _ = fmt.Fprintln(r.out, "FAIL") // go test closes with it, but not in JSON
	}
	r.summary()
	return failed
}
