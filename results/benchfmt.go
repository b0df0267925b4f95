package results

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// WriteBenchfmt writes runs in the Go benchmark format, which benchstat reads:
//
//	goos: linux
//	server: redis 7.0.15 (binary)
//	valid: yes
//	BenchmarkLock/algo=redis-token/client=goredis/owners=8/keys=1/hold=1ms-2 1234 8100 ns/op 812 acq/s …
//
// The name is that of `go test -bench`, the iterations are the grants, ns/op is
// the time from grant to grant, and the other metrics for which keep says so follow
// in the order of their names; a nil keep wants them all, and [Run.Compared] those that
// locks are compared by. Percentiles of too few values are left out.
//
// Configuration lines are repeated where they change, and benchstat makes a
// table of each; that keeps runs that are not valid ("valid: no") out of the
// tables of those that are, and apart what ran on different servers. Hence
// nothing that differs from run to run, such as the seed, is among them. Runs
// in memory bear the server of their session if that had just one, so that the
// yardstick stands in the table of what it bounds.
func WriteBenchfmt(w io.Writer, runs []Run, keep func(r *Run, metric string) bool) error {
	var out bytes.Buffer
	for _, name := range unitsIn(runs, keep) {
		if better := Better(name); better != "" {
			fmt.Fprintf(&out, "Unit %s better=%s\n", name, better)
		}
	}
	servers := serversBySession(runs)
	last := make(map[string]string)
	for i := range runs {
		r := &runs[i]
		line := benchmarkLine(r, keep)
		if line == "" {
			continue
		}
		server := describeServer(r.Server)
		if of := servers[r.Session]; r.Server.Kind == "" && len(of) == 1 {
			server = of[0]
		}
		for _, c := range benchConfig(r, server) {
			if c.value != last[c.key] {
				last[c.key] = c.value
				// An empty value takes the key back.
				fmt.Fprintln(&out, strings.TrimSpace(c.key+": "+c.value))
			}
		}
		out.WriteString(line)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// Compared tells whether metric is one of the dozen or fewer that locks are compared
// by under the load of r: what a lock grants, how long an owner waits, how evenly,
// whether anything went wrong, and what it costs. Where most of the bounded waits gave
// up, how long those few waited that got in is not among them.
func (r *Run) Compared(metric string) bool {
	if n, of := r.GaveUp(); OfWaits(metric) && MostGaveUp(n, of) {
		return false
	}
	switch metric {
	case AcqRate, Acquire + "-p50-ns", Acquire + "-p99-ns", Response + "-p50-ns", Response + "-p99-ns", Handoff + "-p50-ns",
		Efficiency, Jain, Violations, Errors, CmdsPerAcq, SrvCPUPerAcq:
		return true
	case Timeouts:
		return r.Load.Wait > 0
	case Refused:
		return r.Load.Try
	}
	return false
}

// follow lists the metrics of r that its line tells, sorted.
func follow(r *Run, keep func(r *Run, metric string) bool) []string {
	return slices.DeleteFunc(r.Metrics.Names(), func(name string) bool {
		v := r.Metrics[name]
		return math.IsNaN(v) || math.IsInf(v, 0) || r.Thin(name) || keep != nil && !keep(r, name)
	})
}

// unitsIn lists the metrics that the lines of runs tell, sorted.
func unitsIn(runs []Run, keep func(r *Run, metric string) bool) []string {
	all := make(Metrics)
	for i := range runs {
		for _, name := range follow(&runs[i], keep) {
			all[name] = 0
		}
	}
	return all.Names()
}

// serversBySession lists the distinct servers of each session.
func serversBySession(runs []Run) map[string][]string {
	found := make(map[string][]string)
	type at struct{ session, server string }
	seen := make(map[at]bool)
	for i := range runs {
		r := &runs[i]
		p := at{r.Session, describeServer(r.Server)}
		if r.Server.Kind != "" && !seen[p] {
			seen[p] = true
			found[p.session] = append(found[p.session], p.server)
		}
	}
	return found
}

// describeServer is "redis 7.0.15 (binary)" or "redis 7.0.15 cluster (binary)".
func describeServer(s Server) string {
	name := s.Product
	if name == "" {
		name = s.Kind
	}
	if s.Version != "" {
		name += " " + s.Version
	}
	if s.Topology != "" {
		name += " " + s.Topology
	}
	if s.Source != "" && s.Kind != "" {
		name += " (" + s.Source + ")"
	}
	if s.Kind == "" {
		name = "memory"
	}
	return oneLine(name)
}

type setting struct{ key, value string }

// benchConfig lists the configuration lines of r, with the keys of the Go tool
// where it has them.
func benchConfig(r *Run, server string) []setting {
	valid := "yes"
	if !r.Valid.OK {
		valid = "no"
	}
	return []setting{
		{"goos", oneLine(r.Env.OS)},
		{"goarch", oneLine(r.Env.Arch)},
		{"cpu", oneLine(r.Env.CPU)},
		{"kernel", oneLine(r.Env.Kernel)},
		{"go", oneLine(r.Env.Go)},
		{"commit", oneLine(r.Env.Commit)},
		{"server", server},
		{"valid", valid},
	}
}

// benchmarkLine is the line of r with its end, or "" if r has nothing to say.
func benchmarkLine(r *Run, keep func(r *Run, metric string) bool) string {
	var b strings.Builder
	if rate := r.Metrics[AcqRate]; rate > 0 {
		fmt.Fprintf(&b, " %s ns/op", number(1e9/rate))
	}
	for _, name := range follow(r, keep) {
		fmt.Fprintf(&b, " %s %s", number(r.Metrics[name]), name)
	}
	if b.Len() == 0 {
		return ""
	}
	suffix := ""
	if r.Env.GOMAXPROCS > 1 { // as the Go tool has it
		suffix = "-" + strconv.Itoa(r.Env.GOMAXPROCS)
	}
	grants := r.grants()
	name := strings.Join(strings.Fields(r.Trial), "_") // a space would end the name
	return fmt.Sprintf("BenchmarkLock/%s%s %d%s\n", name, suffix, max(1, int64(math.Round(grants))), b.String())
}

// number prints v without an exponent, which is easier on the eye and exact.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// oneLine keeps a value that came from elsewhere from breaking the format.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
