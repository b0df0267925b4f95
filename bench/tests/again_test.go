package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const once = `if _, err := os.Stat("seen"); err != nil { os.WriteFile("seen", nil, 0o600); t.Fatal("first") }`

// TestSecondChance sees what a second chance excuses: a listed test whose failure
// does not come again, and nothing else.
func TestSecondChance(t *testing.T) {
	const listed = "2026-01-02 ./sub TestIt/a+(b)/c it needs luck # as all do\n"
	for _, tc := range []struct {
		name, body string
		list       string
		last       string // of the test that runs last
		status     int
		says       string
	}{
		{name: "once", body: once, list: listed, says: "FLAKY: it/sub TestIt/a+(b)/c failed once and passed once; on the list since 2026-01-02: it needs luck\n"},
		{name: "always", body: `t.Fatal("always")`, list: listed, status: 1, says: "failed twice"},
		{name: "another test", body: once, list: listed, last: `t.Error("too")`, status: 1, says: "TestLast is not on the list"},
		{name: "two owners inside", body: strings.Replace(once, "first", "violation: 2 inside", 1), list: listed, status: 1, says: "no second chance: it/sub TestIt/a+(b)/c: violation: 2 inside"},
		{name: "panic", body: strings.Replace(once, "t.Fatal", "panic", 1), list: listed, status: 1, says: "no second chance"},
		{name: "does not build", body: `x`, list: listed, status: 1, says: "failed beside its tests"},
		{name: "cut short", body: once, list: listed, last: `os.Exit(3)`, status: 1, says: "did not come to its end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bodies := "func TestIt(t *testing.T) { t.Run(\"a+(b)\", func(t *testing.T) { t.Run(\"c\", func(t *testing.T) {\n" + tc.body +
				"\n}) }) }\nfunc TestLast(t *testing.T) { " + tc.last + " }\n"
			write(t, map[string]string{"sub/it_test.go": testOf(bodies), "list": tc.list})
			out, status := wrapped("-again", "list", "-timeout=1m", "-p=1", "-run=Test", "./sub")
			if status != tc.status || !strings.Contains(out, tc.says) {
				t.Errorf("status %d, want %d and %q:\n%s", status, tc.status, tc.says, out)
			}
			if again := strings.Contains(out, "FLAKY?"); again != (tc.says == "failed twice" || tc.status == 0) {
				t.Errorf("run once more: %t", again)
			}
		})
	}
}

// TestChances is the same without running anything.
func TestChances(t *testing.T) {
	test := func(pkg, name, output string) failure {
		return failure{Package: "m/" + pkg, Test: name, Status: "fail", Output: output}
	}
	end := func(pkg string) failure {
		return failure{Package: "m/" + pkg, Status: "fail", Output: "FAIL\nFAIL\tm/" + pkg + "\n"}
	}
	for name, tc := range map[string]struct {
		failed []failure
		list   []pardon
		why    string // a part of it, "" if the tests get a chance
	}{
		"listed":                {[]failure{test("a", "T", ""), end("a")}, []pardon{{pkg: "./a", test: "T"}}, ""},
		"listed by its parent":  {[]failure{test("a", "T/s", ""), end("a")}, []pardon{{pkg: "./a", test: "T"}}, ""},
		"listed by a pattern":   {[]failure{test("a", "T/one/s", ""), end("a")}, []pardon{{pkg: "./a", test: "T/*/s"}}, ""},
		"below a pattern":       {[]failure{test("a", "T/one/s", ""), end("a")}, []pardon{{pkg: "./a", test: "T/*"}}, ""},
		"missed by a pattern":   {[]failure{test("a", "T/one/two/s", ""), end("a")}, []pardon{{pkg: "./a", test: "T/*/s"}}, "is not on the list"},
		"listed by a namesake":  {[]failure{test("a", "Tea", ""), end("a")}, []pardon{{pkg: "./a", test: "T"}}, "Tea is not on the list"},
		"in another package":    {[]failure{test("a", "T", ""), end("a")}, []pardon{{pkg: "./b", test: "T"}}, "is not on the list"},
		"one of two":            {[]failure{test("a", "T", ""), end("a"), test("b", "T", ""), end("b")}, []pardon{{pkg: "./a", test: "T"}}, "m/b T is not on the list"},
		"race":                  {[]failure{test("a", "T", "WARNING: DATA RACE\n"), end("a")}, []pardon{{pkg: "./a", test: "T"}}, "DATA RACE"},
		"race of one that ends": {[]failure{test("a", "T", ""), {Package: "m/a", Test: "U", Status: "pass", Output: "WARNING: DATA RACE\n"}, end("a")}, []pardon{{pkg: "./a", test: "T"}, {pkg: "./a", test: "U"}}, "DATA RACE"},
		"two owners inside":     {[]failure{test("a", "T", "    a.go:1: lock breaks: violation: two\n"), end("a")}, []pardon{{pkg: "./a", test: "T"}}, "violation: two"},
		"the package":           {[]failure{end("a")}, []pardon{{pkg: "./a", test: "T"}}, "failed beside its tests"},
		"six":                   {slices.Concat(slices.Repeat([]failure{test("a", "T", "")}, 6), []failure{end("a")}), []pardon{{pkg: "./a", test: "T"}}, "6 tests failed"},
	} {
		tests, reasons, why := chances(tc.failed, tc.list)
		if (why == "") != (tc.why == "") || !strings.Contains(why, tc.why) || len(tests) != len(reasons) || (len(tests) > 0) != (why == "") {
			t.Errorf("%s: %d tests, %q", name, len(tests), why)
		}
	}
}

func TestReadPardons(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []pardon
		err  string
	}{
		"none":       {"", nil, ""},
		"two":        {"# why\n\n2026-01-02 ./a T one two # three\n2026-01-03 ./b/c T/x four", []pardon{{"2026-01-02", "./a", "T", "one two"}, {"2026-01-03", "./b/c", "T/x", "four"}}, ""},
		"no date":    {"./a T luck luck", nil, "list:1: want a date, a package"},
		"wrong date": {"\n2026-13-02 ./a T luck", nil, "list:2: want a date such as"},
		"no reason":  {"2026-01-02 ./a T", nil, "list:1: want a date, a package"},
		"no pattern": {"2026-01-02 ./a T[ luck", nil, "list:1: T[: syntax error"},
	} {
		file := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readPardons(file)
		if !slices.Equal(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// Without a list there is no second chance.
func TestNoSecondChance(t *testing.T) {
	write(t, map[string]string{"it_test.go": testOf("func TestIt(t *testing.T) {\n" + once + "\n}\n")})
	if out, status := wrapped("."); status != 1 || strings.Contains(out, "chance") {
		t.Errorf("status %d:\n%s", status, out)
	}
	if _, err := os.Stat("seen"); err != nil {
		t.Error(err)
	}
}
