package results

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// writer appends to name until the test ends.
func writer(t *testing.T, name string) *Writer {
	t.Helper()
	w, err := Append(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func write(t *testing.T, w *Writer, run Run) {
	t.Helper()
	if err := w.Write(&run); err != nil {
		t.Fatal(err)
	}
}

func TestWriteThenRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	want := []Run{sample(t, "a", 500), sample(t, "b", 0), sample(t, "c", 1)}
	w := writer(t, name)
	write(t, w, want[0])
	write(t, w, want[1])
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	late := want[2]
	late.Schema = 0
	late.Time = late.Time.In(time.FixedZone("elsewhere", 3600))
	write(t, writer(t, name), late)
	if late.Schema != 0 {
		t.Error("Write changed the run it was given")
	}

	runs, errs := ReadFiles(name)
	if len(errs) != 0 || !sameJSON(runs, want) {
		t.Errorf("read back %d runs and %v, want the 3 written", len(runs), errs)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&0o600 != 0o600 || mode&0o133 != 0 {
		t.Errorf("mode %v, want 0644 less the umask", mode)
	}
}

func TestWriteRefuses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	w := writer(t, name)
	for what, c := range map[string]struct {
		change func(*Run)
		want   string
	}{
		"no id":             {func(r *Run) { r.ID = "" }, `"id"`},
		"no metrics":        {func(r *Run) { r.Metrics = nil }, `"metrics"`},
		"another schema":    {func(r *Run) { r.Schema = Schema + 1 }, "schema"},
		"a lone histogram":  {func(r *Run) { delete(r.Exact, Acquire) }, "acquire"},
		"a bad histogram":   {func(r *Run) { r.Hist[Acquire] = "x" }, "acquire"},
		"an infinite rate":  {func(r *Run) { r.Load.Rate = math.Inf(1) }, "Inf"},
		"config of no JSON": {func(r *Run) { r.Config = []byte("{") }, "JSON"},
	} {
		t.Run(what, func(t *testing.T) {
			run := sample(t, "x", 10)
			c.change(&run)
			wantLine(t, w.Write(&run), c.want, run.Trial)
		})
	}
	if b, err := os.ReadFile(name); err != nil || len(b) != 0 {
		t.Errorf("refused runs left %d bytes, %v", len(b), err)
	}
}

// TestMetricsThatAreNoNumbers: they are left out and cost the run its validity,
// but not its existence.
func TestMetricsThatAreNoNumbers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	run := sample(t, "x", 10)
	run.Metrics[Jain], run.Metrics[JainW] = math.NaN(), math.Inf(-1)
	write(t, writer(t, name), run)
	if !run.Valid.OK || len(run.Metrics) != len(sample(t, "x", 10).Metrics)+1 {
		t.Error("Write changed the run it was given")
	}
	runs, errs := ReadFiles(name)
	if len(errs) != 0 || len(runs) != 1 {
		t.Fatal(len(runs), errs)
	}
	got := runs[0]
	if _, ok := got.Metrics[Jain]; ok || got.Metrics[AcqRate] != run.Metrics[AcqRate] {
		t.Errorf("metrics %v", got.Metrics)
	}
	if got.Valid.OK || len(got.Valid.Reasons) != 2 || !strings.Contains(got.Valid.Reasons[0], "jain came out as NaN") {
		t.Errorf("valid %+v", got.Valid)
	}
}

func TestAppendHealsABrokenLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	write(t, writer(t, name), sample(t, "before", 10))
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	broken := string(whole) + string(whole[:len(whole)/2])
	if err := os.WriteFile(name, []byte(broken), 0o644); err != nil {
		t.Fatal(err)
	}
	w := writer(t, name)
	write(t, w, sample(t, "after", 10))
	write(t, w, sample(t, "last", 10))

	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(b), broken+"\n{") || strings.Contains(string(b), "\n\n") {
		t.Error("the broken line was changed, or more than one line end was added")
	}
	runs, errs := ReadFiles(name)
	if len(runs) != 3 || runs[1].ID != "after" || runs[2].ID != "last" {
		t.Errorf("%d runs, want before, after, last", len(runs))
	}
	if len(errs) != 1 {
		t.Fatalf("errors %v, want one", errs)
	}
	wantLine(t, errs[0], name+":2: cut short")
}

func TestAppendRefusesOtherFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"{\"sch":                          "", // cut short
		"{\"schema\":2,\"id\":\"x":        "",
		"\n{\"schema\":2,\"id\":\"x\"}\n": "",
		"package main\n":                  "not JSON",
		"{\"a\":1}\n":                     "no schema",
		"[1,2]":                           "a run is an object",
	} {
		name := filepath.Join(t.TempDir(), "f.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		w, err := Append(name)
		if err == nil {
			_ = w.Close()
		}
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		wantLine(t, err, name+":1: ")
		wantLine(t, err, want)
		if b, err := os.ReadFile(name); err != nil || string(b) != text {
			t.Errorf("%q was changed to %q (%v)", text, b, err)
		}
	}
}

func TestAppendSaysWhy(t *testing.T) {
	dir := t.TempDir()
	for what, c := range map[string]struct {
		name string
		want error
	}{
		"no such directory": {filepath.Join(dir, "none", "f.jsonl"), fs.ErrNotExist},
		"a directory":       {dir, syscall.EISDIR},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := Append(c.name)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			wantLine(t, err, c.name)
		})
	}
}

func TestFullDisk(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		lacking(t, "full", "this system has no "+full)
	}
	run := sample(t, "x", 10)
	err := writer(t, full).Write(&run)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, want ENOSPC", err)
	}
	wantLine(t, err, "no space left on device; 0 runs are safe in "+full)
}

// TestTwoWriters has writers with files of their own append long lines at once.
func TestTwoWriters(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	const writers, each = 3, 15
	var wg sync.WaitGroup
	for i := range writers {
		w := writer(t, name)
		long := sample(t, "x", 200)
		long.Verdict = strings.Repeat(string(rune('a'+i)), 300_000)
		for part := range 2 { // a Writer is safe for concurrent use, too
			wg.Go(func() {
				for j := range each {
					run := long
					run.ID = fmt.Sprint(i, "-", part, "-", j)
					if err := w.Write(&run); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	runs, errs := ReadFiles(name)
	if len(runs) != writers*each*2 || len(errs) != 0 {
		t.Errorf("%d runs and %v, want %d", len(runs), errs, writers*each*2)
	}
}

// killed is set for the process that TestKilledWriter kills.
const killed = "LOCKBENCH_TEST_KILLED_WRITER"

// TestKilledWriter kills a process that writes run after run with SIGKILL:
// every run that it had called written is there, and the file goes on.
func TestKilledWriter(t *testing.T) {
	if name := os.Getenv(killed); name != "" {
		w := writer(t, name)
		for i := 0; ; i++ {
			run := sample(t, fmt.Sprint("run-", i), 300)
			write(t, w, run)
			fmt.Println(run.ID)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestKilledWriter$")
	cmd.Env = append(os.Environ(), killed+"="+name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written := make(map[string]bool)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if written[lines.Text()] = true; len(written) == 20 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || len(written) < 20 {
		t.Fatalf("the writer ended by itself after %d runs: %v", len(written), err)
	}

	write(t, writer(t, name), sample(t, "after", 10))
	runs, errs := ReadFiles(name)
	for _, run := range runs {
		delete(written, run.ID)
	}
	if len(written) != 0 || runs[len(runs)-1].ID != "after" {
		t.Errorf("lost: %v; last run %s", written, runs[len(runs)-1].ID)
	}
	if len(errs) > 1 {
		t.Errorf("errors %v, want at most the line that was being written", errs)
	}
}
