package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// someRuns writes a results file of runs that were not measured, of these variants.
func someRuns(t *testing.T, name string, variants ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	w, err := results.Append(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variants {
		algo, client, _ := strings.Cut(v, "/")
		r := results.Run{
			Schema: results.Schema, ID: v, Session: "s", Time: time.Unix(1, 0).UTC(), Trial: "algo=" + algo, Algo: algo, Client: client,
			Load:    results.Load{Owners: 2, For: 1e9},
			Metrics: results.Metrics{results.AcqRate: 500}, Valid: results.Valid{OK: true},
		}
		if algo == results.Yardstick {
			r.Metrics[results.AcqRate] = 1000
		} else {
			r.Server = results.Server{Kind: "redis", Product: "redis", Version: "7", Source: "binary"}
		}
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestShow(t *testing.T) {
	in := someRuns(t, "mine.jsonl", "local-mutex", "redis-token/goredis", "redis-token/redigo", "redis-handoff/goredis")
	plot := "\nnext: lockbench plot -in " + in + " -out " + strings.TrimSuffix(in, ".jsonl") + "\n"
	for _, c := range []struct {
		args []string
		want string // the variants
	}{
		{[]string{in}, "local-mutex redis-handoff/goredis redis-token/goredis redis-token/redigo"},
		{[]string{"-in", in}, "local-mutex redis-handoff/goredis redis-token/goredis redis-token/redigo"},
		{[]string{"-algo", "redis-t*", in}, "redis-token/goredis redis-token/redigo"},
		{[]string{"-algo", "redis-token/redigo,local-*", in}, "local-mutex redis-token/redigo"},
		{[]string{"-client", "goredis", in}, "local-mutex redis-handoff/goredis redis-token/goredis"},
		{[]string{"-algo", "redis-handoff", "-client", "go*", in}, "redis-handoff/goredis"},
	} {
		o := call(t, append([]string{"show"}, c.args...)...)
		var rows []string
		for line := range strings.Lines(o.stdout) {
			if fields := strings.Fields(line); fields[0] == "2" {
				rows = append(rows, fields[1])
			}
		}
		if got := strings.Join(rows, " "); o.status != 0 || o.stderr != "" || got != c.want || !strings.HasSuffix(o.stdout, plot) {
			t.Errorf("%q: rows %s, want %s: %+v", c.args, got, c.want, o)
		}
		// The yardstick of a lock counts, though it is not shown.
		if !strings.Contains(o.stdout, "0.500") {
			t.Errorf("%q: no efficiency:\n%s", c.args, o.stdout)
		}
	}
}

// The table of run and that of show are one.
func TestShowIsTheTableOfRun(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	ran := call(t, "run", "-algo", "local-mutex", "-owners", "1,2", "-for", "50ms", "-warmup", "0", "-out", name)
	shown := call(t, "show", name)
	table, _, ok := strings.Cut(shown.stdout, "next: ")
	if !ok || shown.status != 0 || !strings.HasPrefix(ran.stdout, table) {
		t.Errorf("run printed\n%s\nshow %+v", ran.stdout, shown)
	}
}

func TestShowsWhatADamagedFileStillHolds(t *testing.T) {
	in := someRuns(t, "cut.jsonl", "local-mutex", "redis-token/goredis")
	whole, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in, whole[:len(whole)-20], 0o644); err != nil {
		t.Fatal(err)
	}
	o := call(t, "show", in)
	oneLine(t, o, exitFailure, in+":2: cut short")
	if !strings.Contains(o.stdout, "local-mutex") || !strings.Contains(o.stdout, "\nnext: ") {
		t.Errorf("%+v", o)
	}
}

func TestShowBadInput(t *testing.T) {
	in, dir := someRuns(t, "mine.jsonl", "local-mutex", "redis-token/goredis"), t.TempDir()
	local := someRuns(t, "local.jsonl", "local-mutex")
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"nothing", nil, exitMisuse, "no results file given"},
		{"missing", []string{filepath.Join(dir, "nosuch")}, exitFailure, "no such file"},
		{"directory", []string{dir}, exitFailure, "is a directory"},
		{"empty", []string{empty}, exitFailure, "there are no runs in " + empty},
		{"flag", []string{"-nosuch", in}, exitMisuse, "flag provided but not defined: -nosuch"},
		{"pattern", []string{"-algo", "[", in}, exitMisuse, "-algo: want names with *"},
		{"algo", []string{"-algo", "redis-tokne", in}, exitMisuse, `no variant matches "redis-tokne" (did you mean redis-token?); these runs are of local-mutex, redis-token`},
		{"client", []string{"-client", "redigo", in}, exitMisuse, `no client matches "redigo"; there are goredis`},
		{"no client", []string{"-client", "redigo", local}, exitMisuse, `no client matches "redigo"; there are none`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := call(t, append([]string{"show"}, c.args...)...)
			oneLine(t, o, c.status, c.want)
			if o.stdout != "" {
				t.Errorf("stdout is %q", o.stdout)
			}
		})
	}
	var stderr strings.Builder
	if status := run(t.Context(), commands(""), []string{"show", in}, stdio{nil, brokenWriter{}, &stderr}); status != exitFailure || !strings.Contains(stderr.String(), "broken pipe") {
		t.Errorf("status %d, stderr %q", status, stderr.String())
	}
}

func TestNext(t *testing.T) {
	for want, files := range map[string][]string{
		"-in mine.jsonl -out mine":                       {"mine.jsonl"},
		"-in a/b.jsonl -in c.jsonl -out a/b":             {"a/b.jsonl", "c.jsonl"},
		"-in runs -out runs-plots":                       {"runs"},
		"-in a/.jsonl -out a/.jsonl-plots":               {"a/.jsonl"},
		"-in 'my runs'\\''s.jsonl' -out 'my runs'\\''s'": {"my runs's.jsonl"},
		"-out a,b -- a,b.jsonl c":                        {"a,b.jsonl", "c"},
	} {
		if got := next(files); got != "next: lockbench plot "+want {
			t.Errorf("%q: %s, want %s", files, got, want)
		}
	}
}
