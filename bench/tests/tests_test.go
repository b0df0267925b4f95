package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// write puts files into a new module, which becomes the current directory.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module it\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// testOf is a file of tests in the package it.
func testOf(bodies string) string {
	return "package it\nimport (\"fmt\"; \"os\"; \"testing\"; \"time\")\nvar _, _, _ = os.Args, fmt.Sprint, time.Sleep\n" + bodies
}

// wrapped runs what is tested, and returns what it printed and its status.
func wrapped(args ...string) (string, int) {
	var stdout, stderr bytes.Buffer
	status := run(args, &stdout, &stderr)
	return stdout.String() + stderr.String(), status
}

// plain is what go test prints, and its status.
func plain(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test"}, args...)...)
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

var took = regexp.MustCompile(`\d+\.\d+s|\(cached\)`)

// What go test prints comes first, word for word but for the times, with its status.
func TestPrintsWhatGoTestPrints(t *testing.T) {
	for name, bodies := range map[string]string{
		"passes": `func TestA(t *testing.T) { fmt.Println("hidden"); t.Log("hidden"); t.Run("s", func(t *testing.T) { t.Skip("hidden") }) }`,
		"fails": `func TestA(t *testing.T) { t.Log("one\ntwo"); t.Run("deep", func(t *testing.T) { t.Run("er", func(t *testing.T) { t.Error("here") }); t.Run("fine", func(*testing.T) {}) })
	t.Run("a/b", func(t *testing.T) { t.Parallel(); t.Run("c", func(t *testing.T) { t.Error("c") }) }); t.Run("d/e", func(t *testing.T) { t.Run("f", func(t *testing.T) { t.Error("f") }) }) }
func TestB(t *testing.T) { t.Log("hidden") }
func TestC(t *testing.T) { t.Parallel(); time.Sleep(200 * time.Millisecond); t.Error("c") }
func TestD(t *testing.T) { t.Parallel(); t.Fatal("d") }`,
		"exits": `func TestA(t *testing.T) {}
func TestMain(m *testing.M) { m.Run(); fmt.Println("bye"); os.Exit(3) }`,
		"none": `func BenchmarkA(*testing.B) {}`,
	} {
		t.Run(name, func(t *testing.T) {
			write(t, map[string]string{"it_test.go": testOf(bodies)})
			want, wantStatus := plain(t, "./...")
			got, status := wrapped("./...")
			want, got = took.ReplaceAllString(want, "T"), took.ReplaceAllString(got, "T")
			got, _, _ = strings.Cut(got, "\npackages by time:")
			got, _, _ = strings.Cut(got, "\nleft out:")
			if got != want || status != wantStatus {
				t.Errorf("status %d, printed:\n%s\ngo test: status %d, printed:\n%s", status, got, wantStatus, want)
			}
		})
	}
}

// With -v everything is printed as it comes.
func TestVerbose(t *testing.T) {
	write(t, map[string]string{"it_test.go": testOf(`func TestA(t *testing.T) { t.Log("shown") }`)})
	if out, status := wrapped("-v", "."); status != 0 || !strings.Contains(out, "=== RUN   TestA\n") || strings.Count(out, "shown") != 1 {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// What fails, and how, is written down for other programs.
func TestFailures(t *testing.T) {
	write(t, map[string]string{
		"fine/it_test.go":   testOf(`func TestA(t *testing.T) {}`),
		"fails/it_test.go":  testOf(`func TestA(t *testing.T) { t.Run("s", func(t *testing.T) { t.Error("1 violation") }); t.Run("fine", func(*testing.T) {}) }`),
		"cut/it_test.go":    testOf(`func TestA(t *testing.T) {}; func TestB(t *testing.T) { panic("dead") }`),
		"cut2/it_test.go":   testOf(`func TestA(t *testing.T) { os.Exit(0) }`),
		"broken/it_test.go": testOf(`func TestA(t *testing.T) { x }`),
		"many/it_test.go":   testOf(`var n int; func TestA(t *testing.T) { if n++; n != 2 { t.Error("go", n) } }`),
	})
	out, status := wrapped("-fail", "bin/failures", "-count", "3", "./...")
	if status != 1 {
		t.Errorf("status %d:\n%s", status, out)
	}
	f, err := os.Open("bin/failures")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := make(map[string][]string) // "package test status" → outputs
	for d := json.NewDecoder(f); ; {
		var one failure
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		what := one.Package + " " + one.Test + " " + one.Status
		if one.Parent {
			what += " parent"
		}
		seen[what] = append(seen[what], one.Output)
	}
	for what, says := range map[string]string{
		"it/fails TestA fail parent": "", "it/fails TestA/s fail": "1 violation", "it/fails  fail": "FAIL\tit/fails",
		"it/cut TestB fail": "panic: dead", "it/cut  fail": "FAIL\tit/cut",
		"it/cut2 TestA fail": "os.Exit(0)", "it/cut2  fail": "FAIL\tit/cut2",
		"it/broken  fail": "undefined: x", "it/many TestA fail": "go", "it/many  fail": "FAIL\tit/many",
	} {
		if len(seen[what]) == 0 || !strings.Contains(seen[what][0], says) {
			t.Errorf("%s: %q, want %q", what, seen[what], says)
		}
		if n := map[string]int{"it/fails TestA fail parent": 3, "it/fails TestA/s fail": 3, "it/many TestA fail": 2}[what]; n != 0 && len(seen[what]) != n {
			t.Errorf("%s: %d times, want %d", what, len(seen[what]), n)
		}
		delete(seen, what)
	}
	for what := range seen {
		t.Errorf("written down besides: %s", what)
	}
	for _, says := range []string{"ok  \tit/fine", "undefined: x", "FAIL\tit/broken [build failed]", "panic: dead", "go 3"} {
		if !strings.Contains(out, says) {
			t.Errorf("%q is not in:\n%s", says, out)
		}
	}
}

// What was not run is told at the end by what it lacks, and what ran again by its
// name; of a run that lacks nothing nothing is told.
func TestSummary(t *testing.T) {
	write(t, map[string]string{
		"a/it_test.go": testOf(`
func TestA(t *testing.T) { t.Skip("NOT RUN: there is no zookeeper; get it with scripts/servers zookeeper") }
func TestB(t *testing.T) { t.Run("s", func(t *testing.T) { t.Skip("NOT TESTED: neither redis-server nor valkey-server is on PATH; get one with: scripts/servers redis") })
	t.Run("poor", func(t *testing.T) { t.Skip("NOT RUN: none found (embedded: needs a redis with CLIENT TRACKING, found miniredis 2.40.0 without)") })
	t.Run("t", func(t *testing.T) { t.Skip("NOT RUN: this needs a real one; get it with scripts/servers redis") }) }
func TestC(t *testing.T) { t.Log("NOT RUN: redis-token-native needs more; scripts/newer gets it; scripts/servers redis does not") }
func TestD(t *testing.T) { t.Skip("NOT RUN: -short leaves out the soak") }
func TestE(t *testing.T) { t.Log("AGAIN: go 1 of 3 at Exclusion ran into a time-out") }
func TestF(t *testing.T) { t.SkipNow() }
func TestG(t *testing.T) { t.Skip("NOT TESTED, because it is not here: there is no container engine; get one with: apt-get install docker.io") }`),
		"b/it_test.go": testOf(`
func TestA(t *testing.T) { time.Sleep(300 * time.Millisecond); t.Run("sub", func(t *testing.T) { time.Sleep(100 * time.Millisecond) }) }`),
	})
	const tail = `
carried out again within a test, 1 times:
  it/a TestE: AGAIN: go 1 of 3 at Exclusion ran into a time-out

left out: -short leaves out the soak (1 test)
left out: no reason is given (1 test)
not tested here: redis (3 tests)
not tested here: docker (1 test)
not tested here: valkey9 (1 test)
not tested here: zookeeper (1 test)
`
	for range 2 { // the second time from the cache of go test
		if out, status := wrapped("./a"); status != 0 || !strings.HasSuffix(out, tail) {
			t.Errorf("status %d, want at the end:%s\nprinted:\n%s", status, tail, out)
		}
	}
	out, status := wrapped("./b")
	if !regexp.MustCompile(`(?s)^ok  \tit/b\t\S+\n\npackages by time:\n +\d\.\d s  it/b\n\nthe 10 slowest tests, without their subtests:\n +0\.\d s  it/b TestA\n +0\.\d s  it/b TestA/sub\n$`).MatchString(out) || status != 0 {
		t.Errorf("status %d:\n%s", status, out)
	}
}
