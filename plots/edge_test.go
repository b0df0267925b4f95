package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
)

func TestNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := Draw(t.Context(), nil, dir); !errors.Is(err, ErrEmpty) {
		t.Errorf("Draw of nothing: %v, want ErrEmpty", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("Draw of nothing made a directory")
	}
	if err := Table(io.Discard, nil); !errors.Is(err, ErrEmpty) {
		t.Errorf("Table of nothing: %v, want ErrEmpty", err)
	}
	if err := Summary(io.Discard, nil); !errors.Is(err, ErrEmpty) {
		t.Errorf("Summary of nothing: %v, want ErrEmpty", err)
	}
}

// TestGaps draws runs that lack something. Missing lists the pictures that then
// have to be left out with a reason; says is what the pictures' files must say.
func TestGaps(t *testing.T) {
	each := func(change func(r *results.Run)) func(runs []results.Run) []results.Run {
		return func(runs []results.Run) []results.Run {
			for i := range runs {
				change(&runs[i])
			}
			return runs
		}
	}
	memory := func(runs []results.Run) []results.Run {
		return slices.DeleteFunc(runs, func(r results.Run) bool { return r.Server.Kind != "" })
	}
	for _, tc := range []struct {
		name    string
		owners  []int
		change  func([]results.Run) []results.Run
		missing []string
		says    string
	}{
		{"no histograms", []int{1, 8}, each(func(r *results.Run) { r.Hist, r.Exact, r.Series = nil, nil, nil }),
			[]string{"fairness", "handoff", "latency", "latency-owners-1"}, ""},
		{"grants but no bypass", []int{8}, each(func(r *results.Run) { delete(r.Hist, results.Bypass) }), []string{"cost", "throughput"}, "No run has a histogram of bypass"},
		{"bypass but no grants", []int{8}, each(func(r *results.Run) { r.Series = nil }), []string{"cost", "throughput"}, "No run has the grants of each owner"},
		{"no metrics", []int{8}, each(func(r *results.Run) { r.Metrics = nil }), []string{"cost", "throughput", "tradeoff"}, ""},
		{"zero grants", []int{1, 8}, each(func(r *results.Run) { r.Metrics[results.AcqRate] = 0 }), []string{"throughput", "tradeoff"}, ""},
		{"one load without contention", []int{1}, each(func(*results.Run) {}), []string{"cost", "fairness", "handoff", "throughput"}, "1 owner, no contention"},
		{"zero here and there", []int{1, 8}, each(func(r *results.Run) {
			if r.Load.Owners == 8 {
				r.Metrics[results.AcqRate], r.Metrics[results.SrvCPUPerAcq], r.Metrics[results.JainW] = 0, 0, 0
			}
		}), []string{"tradeoff"}, ""},
		{"embedded", []int{1, 8}, each(func(r *results.Run) {
			if r.Server.Kind != "" {
				r.Server = results.Server{Kind: "redis", Product: "miniredis", Source: "embedded"}
				for _, m := range []string{results.SrvCPUPerAcq, results.SrvCmdsPerAcq, results.SrvNetPerAcq} {
					delete(r.Metrics, m)
				}
			}
		}), []string{"cost"}, "EMBEDDED miniredis – not a real Redis"},
		{"built in", []int{1, 8}, each(func(r *results.Run) {
			if r.Server.Kind != "" {
				r.Server = results.Server{Kind: "etcd", Product: "etcd", Version: "3.7.3", Source: "embedded"}
			}
		}), nil, "etcd 3.7.3; "},
		{"part of the cost", []int{1, 8}, each(func(r *results.Run) { delete(r.Metrics, results.SrvNetPerAcq) }), nil, "Not told by the server: bytes"},
		{"only memory", []int{1, 8}, memory, []string{"cost"}, "no server"},
		{"only the control", []int{8}, func(runs []results.Run) []results.Run {
			return slices.DeleteFunc(runs, func(r results.Run) bool { return r.Algo != "local-none" })
		}, []string{"cost", "fairness", "handoff", "latency", "throughput", "tradeoff"}, ""},
		{"all invalid", []int{1, 8}, each(func(r *results.Run) { r.Valid = results.Valid{Reasons: []string{"lag"}} }), nil, "runs not valid"},
		{"a fixed number of grants", []int{8}, each(func(r *results.Run) { r.Load.Ops = 1000 }), []string{"cost", "fairness", "throughput"}, "1000 attempts a run"},
		{"an open loop", []int{8}, each(func(r *results.Run) {
			r.Load.Rate = 500
			r.Hist = map[string]string{results.Response: r.Hist[results.Acquire]}
			r.Exact[results.Response] = r.Exact[results.Acquire]
		}), nil, "500/s offered"},
		{"an open loop without responses", []int{8}, each(func(r *results.Run) { r.Load.Rate = 500 }), []string{"response"}, ""},
		{"faults", []int{1, 8}, each(func(r *results.Run) { r.Asked = []string{"pause@1s+1ms"} }), nil, "faults: pause@1s"},
		{"unknown names", []int{1, 8}, each(func(r *results.Run) {
			r.Algo, r.Env.CPU, r.Unsafe = "a<b>&\"c\x00"+strings.Repeat("long", 50), "<&>\x01", nil
		}), nil, "a&lt;b&gt;&amp;"},
		{"two owners inside", []int{8}, each(func(r *results.Run) { r.Metrics[results.Violations] = 2 }), []string{"cost", "throughput"}, "Two owners were inside at once"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			runs := tc.change(synthetic(t, []string{"goredis"}, tc.owners, 1))
			var missing []string
			said := tc.says == ""
			for _, s := range sets(results.Groups(runs)) {
				for _, picture := range pictures(&s) {
					p, why, err := picture()
					if err != nil {
						t.Fatal(err)
					}
					if p.title == "" || p.question == "" || strings.Contains(why, "\n") {
						t.Errorf("%s: title %q, question %q, missing for %q: want all, in one line", p.name, p.title, p.question, why)
					}
					if why != "" {
						missing = append(missing, p.name)
						continue
					}
					var b bytes.Buffer
					if err := p.layout().svg(&b); err != nil {
						t.Fatal(err)
					}
					if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
						t.Errorf("%s is no XML: %v", p.name, err)
					}
					said = said || strings.Contains(strings.ReplaceAll(b.String(), space, " "), tc.says)
				}
			}
			slices.Sort(missing)
			if !slices.Equal(missing, tc.missing) {
				t.Errorf("left out %v, want %v", missing, tc.missing)
			}
			if !said {
				t.Errorf("no picture says %q", tc.says)
			}
			for _, write := range []func(io.Writer, []results.Run) error{Table, Summary} {
				if err := write(io.Discard, runs); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestBadHistogram(t *testing.T) {
	runs := synthetic(t, []string{"goredis"}, []int{8}, 1)
	runs[0].Hist[results.Acquire] = "no histogram"
	_, err := Draw(t.Context(), runs, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), runs[0].ID) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v: want one line that names the run %s", err, runs[0].ID)
	}
}

// Servers of which the CPUs are known share a picture with those of which they are not.
func TestCPUsUnknown(t *testing.T) {
	runs := synthetic(t, []string{"goredis"}, []int{1, 8}, 1)
	for i := range runs {
		if runs[i].Algo == "redis-token" {
			runs[i].Env.ServerCPUs = "0-1"
		}
	}
	if list := sets(results.Groups(runs)); len(list) != 1 {
		t.Errorf("%d sets, want all in one", len(list))
	}
}

// TestServersApart checks that what does not compare never shares a picture.
func TestServersApart(t *testing.T) {
	base := func() []results.Run { return synthetic(t, []string{"goredis"}, []int{1, 8}, 1) }
	change := func(f func(r *results.Run)) []results.Run {
		runs := base()
		for i := range runs {
			f(&runs[i])
		}
		return runs
	}
	served := func(f func(s *results.Server)) []results.Run {
		return change(func(r *results.Run) {
			if r.Server.Kind != "" {
				f(&r.Server)
			}
		})
	}
	for _, tc := range []struct {
		name string
		more []results.Run
		want []string
	}{
		{"the same again", base(), []string{""}},
		{"another port of ours", served(func(s *results.Server) { s.Nodes = []string{"127.0.0.1:1"} }), []string{""}},
		{"another version", served(func(s *results.Server) { s.Version = "8.0.2" }), []string{"-redis-7.0.15-binary", "-redis-8.0.2-binary"}},
		{"another source", served(func(s *results.Server) { s.Source = "docker" }), []string{"-redis-7.0.15-binary", "-redis-7.0.15-docker"}},
		{"two servers of the user", served(func(s *results.Server) { s.Source, s.Nodes = "url", []string{"db:6379"} }), []string{"-redis-7.0.15-binary", "-redis-7.0.15-db-6379"}},
		{"another machine", change(func(r *results.Run) { r.Env.Cores = 64 }), []string{"-amd-epyc-7r13-2-cores", "-amd-epyc-7r13-64-cores"}},
		{"more keys", change(func(r *results.Run) { r.Load.Keys = 16 }), []string{"-keys-1", "-keys-16"}},
		{"a longer way", change(func(r *results.Run) {
			if r.Server.Kind != "" {
				r.Load.RTT = 1e6
			}
		}), []string{"-rtt-0s", "-rtt-1ms"}},
		{"the server on one CPU", change(func(r *results.Run) {
			if r.Server.Kind != "" {
				r.Env.ServerCPUs = "1"
			}
		}), []string{"-server-cpus-1", "-server-cpus-unknown"}},
		{"other clients at the same owners", change(func(r *results.Run) { r.Load.Clients = 8 }), []string{"-clients-4", "-clients-8"}},
		// Owners 1 and 8 become 4 and 32: no place is taken twice.
		{"clients that grow with the owners", change(func(r *results.Run) { r.Load.Owners *= 4; r.Load.Clients *= 4 }), []string{""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, s := range sets(results.Groups(append(base(), tc.more...))) {
				got = append(got, s.suffix)
				seen := make(map[string]bool)
				for _, g := range s.groups {
					place := g.Name() + "/" + count(float64(g.Load.Owners))
					if seen[place] {
						t.Errorf("%s has two points in the set %q", place, s.suffix)
					}
					seen[place] = true
				}
				if !slices.ContainsFunc(s.groups, func(g results.Group) bool { return g.Algo == results.Yardstick }) {
					t.Errorf("the set %q has no bound", s.suffix)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("sets %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWriteIsAtomic(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x.svg")
	if err := write(name, func(w io.Writer) error { _, err := io.WriteString(w, "old"); return err }); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	err := write(name, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		return full
	})
	if !errors.Is(err, full) || !strings.Contains(err.Error(), name) {
		t.Errorf("%v: want the cause and the name of the file", err)
	}
	text, err := os.ReadFile(name)
	if err != nil || string(text) != "old" {
		t.Errorf("after a failed write the file holds %q, %v", text, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("a failed write left %v, %v", entries, err)
	}
	if _, err := Draw(t.Context(), synthetic(t, []string{"goredis"}, []int{8}, 1), filepath.Join(name, "sub")); err == nil {
		t.Error("drawing into a file succeeded")
	}
}

func TestNoPassword(t *testing.T) {
	runs := synthetic(t, []string{"goredis"}, []int{8}, 1)
	for i := range runs {
		if runs[i].Server.Kind != "" {
			runs[i].Server.Source, runs[i].Server.Nodes = "url", []string{"redis://user:canary@db.example:6379"}
		}
	}
	dir := t.TempDir()
	if _, err := Draw(t.Context(), runs, dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "canary") || strings.Contains(e.Name(), "canary") {
			t.Errorf("%s repeats a password", e.Name())
		}
	}
}

func TestUnits(t *testing.T) {
	for _, tc := range []struct {
		got, want string
	}{
		{nanos(0), "0 ns"}, {nanos(59), "59 ns"}, {nanos(999.96), "1 µs"}, {nanos(41_230), "41.2 µs"},
		{nanos(3.07e6), "3.07 ms"}, {nanos(1.25e9), "1.25 s"}, {nanos(7.2e12), "7200 s"},
		{octets(85), "85 B"}, {octets(1234), "1.23 kB"},
		{count(0.0314), "0.0314"}, {count(812), "812"}, {count(12_345), "12 300"}, {count(1_234_567), "1 230 000"},
		{perSecond(2590), "2590/s"}, {percent(0.999), "99.9 %"}, {factor(1.5), "1.5×"},
		{plural(1, "key"), "1 key"}, {plural(4, "key"), "4 keys"},
	} {
		if got := strings.ReplaceAll(tc.got, space, " "); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// A picture that this call does not draw must not stay from an earlier one,
// where it would be taken for one of these runs.
func TestStalePicturesGo(t *testing.T) {
	dir := t.TempDir()
	runs := synthetic(t, []string{"goredis"}, []int{1, 8}, 1)
	if _, err := Draw(t.Context(), runs, dir); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "holiday.png")
	if err := os.WriteFile(theirs, []byte("png"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		delete(runs[i].Metrics, results.SrvCPUPerAcq)
		delete(runs[i].Metrics, results.SrvCmdsPerAcq)
		delete(runs[i].Metrics, results.SrvNetPerAcq)
	}
	if _, err := os.Stat(filepath.Join(dir, "cost.png")); err != nil {
		t.Fatal("there is no cost picture to go stale")
	}
	if _, err := Draw(t.Context(), runs, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cost.png", "cost.svg"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stayed: %v", name, err)
		}
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Errorf("a file of somebody else is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "throughput.png")); err != nil {
		t.Error(err)
	}
}
