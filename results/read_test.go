package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// read collects what Read yields.
func read(r io.Reader, name string) (runs []Run, errs []error) {
	for run, err := range Read(r, name) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		runs = append(runs, run)
	}
	return runs, errs
}

func TestReadNamesTheBadLineAndGoesOn(t *testing.T) {
	good := line(t, sample(t, "good", 100))
	change := func(f func(*Run)) string {
		run := sample(t, "bad", 100)
		f(&run)
		return line(t, run)
	}
	for name, c := range map[string]struct {
		line string
		want []string
	}{
		"text":           {"hello", []string{"not JSON"}},
		"binary":         {"\x89PNG\r\x00", []string{"not JSON"}},
		"cut short":      {good[:len(good)/2], []string{"cut short"}},
		"cut to a brace": {"{", []string{"cut short"}},
		"two on a line":  {good[:len(good)/2] + good, []string{"not JSON", "byte"}},
		"an array":       {"[]", []string{"array", "object"}},
		"a number":       {"7", []string{"number", "object"}},
		"no schema":      {`{"a":1}`, []string{"no schema"}},
		"null":           {"null", []string{"no schema"}},
		"newer schema":   {`{"schema":3,"id":[1]}`, []string{"schema 3", "newer lockbench"}},
		"older schema":   {`{"schema":1,"id":[1]}`, []string{"schema 1", "measure it again"}},
		"schema of text": {`{"schema":"1"}`, []string{"schema", "string"}},
		"wrong type":     {`{"schema":2,"metrics":{"acq/s":"fast"}}`, []string{"metrics", "string"}},
		"bad duration":   {strings.Replace(good, `"hold":"1ms"`, `"hold":"soon"`, 1), []string{`"soon"`}},
		"number too big": {strings.Replace(good, `"jain":0.75`, `"jain":1e999`, 1), []string{"1e999"}},
		"no id":          {change(func(r *Run) { r.ID = "" }), []string{`missing: ["id"]`}},
		"little else":    {`{"schema":2}`, []string{"id", "trial", "time", "algo", "metrics"}},
		"bad histogram":  {change(func(r *Run) { r.Hist[Acquire] = "AAAA" }), []string{"histogram acquire", "HdrHistogram"}},
		"no exact":       {change(func(r *Run) { delete(r.Exact, Hold) }), []string{"no exact numbers of hold"}},
		"no histogram":   {change(func(r *Run) { delete(r.Hist, Hold) }), []string{"no histogram of hold"}},
		"other exact":    {change(func(r *Run) { r.Exact[Hold] = Exact{1, 2, 3, 4} }), []string{"histogram hold", "exact count"}},
		"contradiction":  {change(func(r *Run) { r.Valid.Reasons = []string{"lag"} }), []string{"valid", "lag"}},
	} {
		t.Run(name, func(t *testing.T) {
			runs, errs := read(strings.NewReader(good+"\n"+c.line+"\n\n"+good+"\n"), "dir/f.jsonl")
			if len(runs) != 2 || runs[0].ID != "good" || runs[1].ID != "good" {
				t.Errorf("%d runs, want the good ones before and after", len(runs))
			}
			if len(errs) != 1 {
				t.Fatalf("errors %v, want one", errs)
			}
			wantLine(t, errs[0], append(c.want, "dir/f.jsonl:2: ")...)
		})
	}
}

func TestReadTakesWhatItIsGiven(t *testing.T) {
	good := line(t, sample(t, "good", 100))
	long := sample(t, "long", 100)
	long.Verdict = strings.Repeat("x", 6<<20)
	for name, c := range map[string]struct {
		in         string
		runs, errs int
	}{
		"nothing":             {"", 0, 0},
		"empty lines":         {"\n\n \t\r\n", 0, 0},
		"no end of line":      {good, 1, 0},
		"lines of DOS":        {good + "\r\n" + good + "\r\n", 2, 0},
		"unknown fields":      {strings.Replace(good, "{", `{"mood":"good",`, 1), 1, 0},
		"a line of 6 MB":      {good + "\n" + line(t, long) + "\n" + good + "\n", 3, 0},
		"a broken last line":  {good + "\n" + good[:500], 1, 1},
		"a broken first line": {good[500:] + "\n" + good, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			runs, errs := read(strings.NewReader(c.in), "f")
			if len(runs) != c.runs || len(errs) != c.errs {
				t.Errorf("%d runs and errors %v, want %d and %d", len(runs), errs, c.runs, c.errs)
			}
		})
	}
}

func TestReadStops(t *testing.T) {
	good := line(t, sample(t, "good", 10))
	t.Run("at an error of the disk", func(t *testing.T) {
		broken := errors.New("bad sector")
		in := io.MultiReader(strings.NewReader(good+"\n"), iotest.ErrReader(broken))
		runs, errs := read(in, "f")
		if len(runs) != 1 || len(errs) != 1 || !errors.Is(errs[0], broken) {
			t.Fatalf("%d runs and %v, want 1 and the error of the reader once", len(runs), errs)
		}
		wantLine(t, errs[0], "f:2: ")
	})
	t.Run("when nobody wants more", func(t *testing.T) {
		n := 0
		for range Read(strings.NewReader(good+"\nx\n"+good), "f") {
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%d iterations, want 2", n)
		}
	})
}

func TestReadLineBoundsItsMemory(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader("short\n"+strings.Repeat("y", 5000)+"\nnext\n"+strings.Repeat("z", 5000)), 16)
	for i, want := range []struct {
		line string
		err  error
	}{{"short\n", nil}, {"", errLongLine}, {"next\n", nil}, {"", errLongLine}, {"", io.EOF}} {
		got, err := readLine(in, 100)
		if string(got) != want.line || !errors.Is(err, want.err) {
			t.Errorf("line %d: %q, %v; want %q, %v", i+1, got, err, want.line, want.err)
		}
	}
}

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, lines ...string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	a := put("a.jsonl", line(t, sample(t, "one", 10)), "oops")
	b := put("b.jsonl", line(t, sample(t, "two", 10)), line(t, sample(t, "one", 10)))
	none := filepath.Join(dir, "none.jsonl")

	runs, errs := ReadFiles(a, none, b)
	if len(runs) != 2 || runs[0].ID != "one" || runs[1].ID != "two" {
		t.Errorf("%d runs, want one and two", len(runs))
	}
	if len(errs) != 3 {
		t.Fatalf("errors %v, want 3", errs)
	}
	wantLine(t, errs[0], a+":2: ")
	wantLine(t, errs[1], none, "no such file")
	wantLine(t, errs[2], b, "run one", a)

	if runs, errs := ReadFiles(dir); len(runs) != 0 || len(errs) != 1 {
		t.Errorf("of a directory: %d runs, %v", len(runs), errs)
	} else {
		wantLine(t, errs[0], "directory")
	}
}

// TestGolden pins the stored form of a run. A change that breaks it breaks
// every results file in the world: it needs a new Schema.
func TestGolden(t *testing.T) {
	const name = "testdata/run.jsonl"
	run := sample(t, "golden", 1000)
	if *update {
		if err := os.WriteFile(name, []byte(line(t, run)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	runs, errs := read(strings.NewReader(string(b)), name)
	if len(runs) != 1 || len(errs) != 0 {
		t.Fatalf("%d runs, errors %v", len(runs), errs)
	}
	// The compressor may change with the version of Go, what it holds may not.
	for hist := range run.Hist {
		want, err := run.Histogram(hist)
		if err != nil {
			t.Fatal(err)
		}
		got, err := runs[0].Histogram(hist)
		if err != nil {
			t.Fatal(err)
		}
		if got.Exact != want.Exact || !got.hdr.Equals(want.hdr) {
			t.Errorf("histogram %s holds other values", hist)
		}
	}
	run.Hist = runs[0].Hist
	if got := line(t, run) + "\n"; got != string(b) {
		at := 0
		for at < min(len(got), len(b)) && got[at] == b[at] {
			at++
		}
		around := func(s string) string { return s[max(0, min(at, len(s))-40):min(at+40, len(s))] }
		t.Errorf("at byte %d a run is stored as\n…%s…, want\n…%s…", at, around(got), around(string(b)))
	}
}

func FuzzRead(f *testing.F) {
	golden, err := os.ReadFile("testdata/run.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:len(golden)/3])
	f.Add([]byte("{}\n\nnull\n[1]\n{\"schema\":2}\n"))
	f.Add([]byte(`{"schema":2,"id":"a","trial":"b","time":"2026-01-01T00:00:00Z","algo":"c","metrics":{},"load":{"hold":"exp:1s"}}`))
	small := line(f, sample(f, "small", 1))
	f.Add([]byte(small + "\n" + small))
	f.Fuzz(func(t *testing.T, b []byte) {
		lines := strings.Count(string(b), "\n") + 1
		for run, err := range Read(strings.NewReader(string(b)), "f") {
			if lines--; lines < 0 {
				t.Fatal("more answers than lines")
			}
			if err != nil {
				if !strings.HasPrefix(err.Error(), "f:") {
					t.Fatalf("error %q does not begin with the place", err)
				}
				continue
			}
			// What was accepted stores again and reads back the same.
			again, err := json.Marshal(run)
			if err != nil {
				t.Fatal(err)
			}
			back, err := parse(again)
			if err != nil {
				t.Fatalf("%s\nwas accepted, but not when stored again: %v", again, err)
			}
			if !sameJSON(run, back) {
				t.Fatalf("%s\nreads back as\n%s", again, line(t, back))
			}
		}
	})
}
