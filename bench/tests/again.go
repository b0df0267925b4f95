package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mostAgain is how many failed tests are run once more at most: where more fail,
// it is not chance.
const mostAgain = 5

// A pardon is a test that may fail once by chance and is then run once more. Its
// name is a pattern of path.Match.
type pardon struct {
	date, pkg, test, reason string
}

// covers reports whether p is for the test, or for one that it is a subtest of.
func (p pardon) covers(f failure) bool {
	if !strings.HasSuffix(f.Package, strings.TrimPrefix(p.pkg, ".")) {
		return false
	}
	for name := f.Test; name != "."; name = path.Dir(name) {
		if ok, _ := path.Match(p.test, name); ok { // the pattern was checked when it was read
			return true
		}
	}
	return false
}

// readPardons reads the list of a file. Each line is a date, a package, a test and
// a reason, with spaces between them; what follows a # is left out.
func readPardons(name string) (list []pardon, err error) {
	file, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range strings.Lines(string(file)) {
		n++
		text, _, _ := strings.Cut(line, "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if len(words) < 4 || !strings.HasPrefix(words[1], "./") {
			return nil, fmt.Errorf("%s:%d: want a date, a package such as ./impls, a test and a reason", name, n)
		}
		if _, err := time.Parse(time.DateOnly, words[0]); err != nil {
			return nil, fmt.Errorf("%s:%d: want a date such as 2006-01-02: %w", name, n, err)
		}
		if _, err := path.Match(words[2], ""); err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", name, n, words[2], err)
		}
		list = append(list, pardon{words[0], words[1], words[2], strings.Join(words[3:], " ")})
	}
	return list, nil
}

// grave is what no test may do even once: two owners inside (see
// locktest.Violation), a data race, a panic.
var grave = regexp.MustCompile(`(?m)\bviolation: .*|WARNING: DATA RACE|^panic: .*|^fatal error: .*`)

// whole is what a test binary prints that came to its end although tests failed.
var whole = regexp.MustCompile(`(?m)^FAIL$`)

// chances returns the failed tests that may be run once more, with what the list
// says of each, or why the failures are not to be excused.
func chances(failed []failure, list []pardon) (tests []failure, reasons []pardon, why string) {
	inside := make(map[string]int) // package → failed tests in it
	for _, f := range failed {
		if m := grave.FindString(f.Output); m != "" {
			return nil, nil, strings.TrimSpace(f.Package+" "+f.Test) + ": " + m
		}
		switch {
		case f.Status == cutShort, f.Test == "" && (inside[f.Package] == 0 || !whole.MatchString(f.Output)):
			return nil, nil, f.Package + " failed beside its tests, or did not come to its end"
		case f.Test == "" || f.Parent:
			continue
		}
		inside[f.Package]++
		i := slices.IndexFunc(list, func(p pardon) bool { return p.covers(f) })
		if i < 0 {
			return nil, nil, f.Package + " " + f.Test + " is not on the list of tests that may fail by chance"
		}
		tests, reasons = append(tests, f), append(reasons, list[i])
	}
	if len(tests) == 0 || len(tests) > mostAgain {
		return nil, nil, fmt.Sprintf("%d tests failed, and at most %d are run once more", len(tests), mostAgain)
	}
	return tests, reasons, ""
}

// secondChance runs the failed tests once more, each alone, if all of them are on the
// list, and reports whether they passed. Args are those of the first run, with the
// flags written as -name=value.
func secondChance(failed []failure, list []pardon, args []string, stdout, stderr io.Writer) bool {
	tests, reasons, why := chances(failed, list)
	if why != "" {
		_, _ = fmt.Fprintf(stdout, "\nno second chance: %s\n", why)
		return false
	}
	var flags []string
	for _, a := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if strings.HasPrefix(a, "-") && !slices.Contains([]string{"run", "skip", "count", "p"}, name) {
			flags = append(flags, a)
		}
	}
	for i, f := range tests {
		_, _ = fmt.Fprintf(stdout, "\nFLAKY? %s %s failed and is run once more, alone\n", f.Package, f.Test)
		cmd := exec.Command("go", slices.Concat([]string{"test"}, flags, []string{"-count=1", "-run=" + exactly(f.Test), f.Package})...)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		if err := cmd.Run(); err != nil {
			_, _ = fmt.Fprintf(stdout, "%s %s failed twice: %v\n", f.Package, f.Test, err)
			return false
		}
		_, _ = fmt.Fprintf(stdout, "FLAKY: %s %s failed once and passed once; on the list since %s: %s\n", f.Package, f.Test, reasons[i].date, reasons[i].reason)
	}
	return true
}

// exactly is the pattern of -run for one test.
func exactly(name string) string {
	levels := strings.Split(name, "/")
	for i, l := range levels {
		levels[i] = "^" + regexp.QuoteMeta(l) + "$"
	}
	return strings.Join(levels, "/")
}
