package results

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The grammar of the Go benchmark data format (golang.org/design/14313).
var (
	configLine = regexp.MustCompile(`^[a-z][^\sA-Z:]*:(?:[ \t].*\S)?$`)
	resultLine = regexp.MustCompile(`^Benchmark[A-Z]\S* [1-9][0-9]*(?: [0-9]+(?:\.[0-9]+)? \S+)+$`)
	unitLine   = regexp.MustCompile(`^Unit \S+(?: [a-z]+=[a-z]+)+$`)
)

// benchfmt writes runs and returns the lines, each of which follows the grammar.
func benchfmt(t *testing.T, runs ...Run) []string {
	t.Helper()
	var out strings.Builder
	if err := WriteBenchfmt(&out, runs, nil); err != nil {
		t.Fatal(err)
	}
	if out.Len() == 0 {
		return nil
	}
	text, whole := strings.CutSuffix(out.String(), "\n")
	if !whole {
		t.Errorf("no end of the last line: %q", out.String())
	}
	lines := strings.Split(text, "\n")
	for _, l := range lines {
		if !configLine.MatchString(l) && !resultLine.MatchString(l) && !unitLine.MatchString(l) {
			t.Errorf("line %q is not in the Go benchmark format", l)
		}
	}
	return lines
}

func with(lines []string, prefix string) (list []string) {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			list = append(list, l)
		}
	}
	return list
}

func TestBenchfmt(t *testing.T) {
	run := sample(t, "a", 1000)
	lines := benchfmt(t, run)
	for _, want := range []string{
		"goos: linux", "goarch: amd64", "cpu: Some CPU @ 2.00GHz", "commit: 0123abc", "server: redis 7.0.15 (binary)",
		"valid: yes", "Unit acq/s better=higher", "Unit violations better=lower",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	result := with(lines, "Benchmark")
	if len(result) != 1 || result[0] != lines[len(lines)-1] {
		t.Fatalf("results %q, want one, at the end", result)
	}
	fields := strings.Fields(result[0])
	if want := "BenchmarkLock/algo=redis-token/client=goredis/owners=8/keys=1/hold=1ms-2"; fields[0] != want {
		t.Errorf("name %s, want %s", fields[0], want)
	}
	if fields[1] != "1000" { // 500 acq/s for 2 s
		t.Errorf("%s iterations, want the 1000 grants", fields[1])
	}
	got := make(Metrics)
	var units []string
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			t.Fatal(err)
		}
		got[fields[i+1]] = v
		units = append(units, fields[i+1])
	}
	if units[0] != "ns/op" || got["ns/op"] != 2e6 {
		t.Errorf("first %s = %v, want 2 ms/op", units[0], got["ns/op"])
	}
	if !slices.IsSorted(units[1:]) {
		t.Errorf("metrics %v are not sorted", units[1:])
	}
	for name, v := range run.Metrics {
		thin := strings.HasSuffix(name, "-p99.9-ns") // 1000 values state p99, not p99.9
		if stated, ok := got[name]; ok == thin || ok && stated != v {
			t.Errorf("%s = %v (%v), want %v", name, stated, ok, v)
		}
	}
}

// By default a line tells what locks are compared by, and the units are of that.
func TestBenchfmtOfFew(t *testing.T) {
	every := func(l Load) Run {
		r := Run{Trial: "algo=x", Load: l, Valid: Valid{OK: true}, Metrics: Metrics{}}
		r.Window = time.Second
		for _, name := range []string{
			AcqRate, Efficiency, Jain, JainW, Violations, Lost, Timeouts, Refused, Errors, CmdsPerAcq, SrvCPUPerAcq, CliAllocs, LongestWait,
			AcquireByOwner, "acquire-p50-ns", "acquire-p99-ns", "acquire-max-ns", "handoff-p50-ns", "handoff-p99-ns", "hold-p50-ns",
		} {
			r.Metrics[name] = 1
		}
		if l.Rate > 0 { // there are no shares of owners there
			delete(r.Metrics, Jain)
			r.Metrics["response-p50-ns"], r.Metrics["response-p99-ns"] = 1, 1
		}
		if l.Wait < 0 { // most gave up
			r.Load.Wait, r.Metrics[Timeouts] = 1, 2
		}
		return r
	}
	const rest = " violations"
	for _, c := range []struct {
		load Load
		want string
	}{
		{Load{}, "acq/s acquire-p50-ns acquire-p99-ns cmds/acq errors handoff-efficiency handoff-p50-ns jain srv-cpu-ns/acq" + rest},
		{Load{Rate: 1, Wait: 1}, "acq/s acquire-p50-ns acquire-p99-ns cmds/acq errors handoff-efficiency handoff-p50-ns response-p50-ns response-p99-ns srv-cpu-ns/acq timeouts" + rest},
		{Load{Try: true, Wait: 1}, "acq/s acquire-p50-ns acquire-p99-ns cmds/acq errors handoff-efficiency handoff-p50-ns jain refused srv-cpu-ns/acq timeouts" + rest},
		{Load{Wait: -1}, "acq/s cmds/acq errors handoff-efficiency handoff-p50-ns jain srv-cpu-ns/acq timeouts" + rest},
	} {
		var out strings.Builder
		if err := WriteBenchfmt(&out, []Run{every(c.load)}, (*Run).Compared); err != nil {
			t.Fatal(err)
		}
		var units, told []string
		for line := range strings.Lines(out.String()) {
			switch fields := strings.Fields(line); {
			case fields[0] == "Unit":
				units = append(units, fields[1])
			case strings.HasPrefix(line, "Benchmark"):
				for i := 5; i < len(fields); i += 2 { // after the name, the count and ns/op
					told = append(told, fields[i])
				}
			}
		}
		if got := strings.Join(told, " "); got != c.want || len(told) > 12 {
			t.Errorf("%+v: %d metrics %s\nwant %s", c.load, len(told), got, c.want)
		}
		told = slices.DeleteFunc(told, func(name string) bool { return Better(name) == "" })
		if !slices.Equal(units, told) {
			t.Errorf("%+v: units of %q, want of %q", c.load, units, told)
		}
	}
}

func TestBenchfmtConfig(t *testing.T) {
	token, mutex, late, odd, empty := sample(t, "a", 10), sample(t, "b", 10), sample(t, "c", 10), sample(t, "d", 10), sample(t, "e", 10)
	mutex.Algo, mutex.Trial, mutex.Server = Yardstick, "algo=local-mutex", Server{Source: "memory"}
	late.Valid = Valid{Reasons: []string{"lag"}}
	late.Env.Commit = ""
	odd.Session, odd.Server, odd.Trial, odd.Env.GOMAXPROCS = "s2", Server{Source: "memory"}, "a trial\nof lines", 1
	odd.Env.CPU = "two\nlines: of CPU"
	empty.Metrics = nil
	lines := benchfmt(t, mutex, token, late, empty, odd)
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Unit") })
	for i, l := range lines {
		if name, _, ok := strings.Cut(l, " "); ok && strings.HasPrefix(l, "Benchmark") {
			lines[i] = name
		}
	}
	const tokenLine = "BenchmarkLock/algo=redis-token/client=goredis/owners=8/keys=1/hold=1ms-2"
	want := []string{
		"goos: linux", "goarch: amd64", "cpu: Some CPU @ 2.00GHz", "kernel: 6.1.0", "go: go1.26", "commit: 0123abc",
		"server: redis 7.0.15 (binary)", "valid: yes", // the yardstick's table is that of its session
		"BenchmarkLock/algo=local-mutex-2",
		tokenLine,
		"commit:", "valid: no",
		tokenLine,
		"cpu: two lines: of CPU", "commit: 0123abc", "server: memory", "valid: yes",
		"BenchmarkLock/a_trial_of_lines",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("lines\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestBenchfmtOfNothing(t *testing.T) {
	if lines := benchfmt(t); lines != nil {
		t.Errorf("no runs give %q", lines)
	}
	run := sample(t, "a", 0)
	run.Metrics = Metrics{AcqRate: 0, CmdsPerAcq: math.Inf(1), Jain: math.NaN()}
	if got := with(benchfmt(t, run), "Benchmark"); len(got) != 1 || !strings.HasSuffix(got[0], " 1 0 acq/s") {
		t.Errorf("a run without a grant gives %q", got)
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestBenchfmtReportsTheWriter(t *testing.T) {
	want := errors.New("pipe closed")
	if err := WriteBenchfmt(brokenWriter{want}, []Run{sample(t, "a", 1)}, nil); !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}
