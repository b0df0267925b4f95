package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgain sees what the second chance of CI excuses: a failure that does not
// come again, and nothing else.
func TestAgain(t *testing.T) {
	const once = `if _, err := os.Stat("seen"); err != nil { os.WriteFile("seen", nil, 0o600); t.Fatal("first") }`
	for _, tc := range []struct {
		name, body string
		ok         bool
		says       string
		last       string // of the test that runs last
	}{
		{name: "once", body: once, ok: true, says: "FLAKY: again TestIt/a+(b)/c failed once"},
		{name: "always", body: `t.Fatal("always")`, says: "FAIL"},
		{name: "seen violation", body: strings.Replace(once, "first", "1 violation", 1), says: "no second chance"},
		{name: "race", body: strings.Replace(once, "first", "DATA RACE", 1), says: "no second chance"},
		{name: "panic", body: strings.Replace(once, "t.Fatal", "panic", 1), says: "no second chance"},
		{name: "does not build", body: `x`, says: "no second chance"},
		{name: "exit", body: `os.Exit(3)`, says: "with names"},
		{name: "cut short", body: once, last: `os.Exit(3)`, says: "with names"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			script, err := filepath.Abs("../scripts/again")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			text := "package again\nimport (\"os\"; \"testing\")\nvar _ = os.Args\nfunc TestFine(*testing.T) {}\n" +
				"func TestIt(t *testing.T) { t.Run(\"a+(b)\", func(t *testing.T) { t.Run(\"c\", func(t *testing.T) {\n" + tc.body + "\n}) }) }\nfunc TestLast(*testing.T) { " + tc.last + " }\n"
			write := func(name, text string) string {
				name = filepath.Join(dir, name)
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return name
			}
			write("go.mod", "module again\n")
			write("it_test.go", text)
			run := func(name string, args ...string) (string, error) {
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			first, err := run("go", "test", "./...")
			if err == nil {
				t.Fatalf("the tests passed at once:\n%s", first)
			}
			log := write("log", first)
			out, err := run(script, log, "-timeout", "1m")
			if (err == nil) != tc.ok || !strings.Contains(out, tc.says) {
				t.Errorf("again: %v, want ok %v and %q:\n%s", err, tc.ok, tc.says, out)
			}
		})
	}
}
