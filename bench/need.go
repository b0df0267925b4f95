package bench

import (
	"errors"
	"flag"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/capacity"
)

// exampleNeeds is the file that comes with the program: see shipped.
const exampleNeeds = "example.plan.yaml"

// A wanted is one workload of a plan, and the locks that are considered for it.
type wanted struct {
	capacity.Need
	algos, clients []string // patterns, see choose
}

// defaultWanted is what a workload is whose needs say nothing; its rate is missing.
func defaultWanted() wanted {
	return wanted{
		Need:  capacity.Need{Name: "workload", Keys: 1, Procs: max(1, harness.DefaultProcs()), Headroom: 0.3, Hold: results.Dist{Kind: "fixed", Mean: time.Millisecond}},
		algos: []string{"*"},
	}
}

// flags declares what a workload needs, which are also the settings of a file of needs.
func (w *wanted) flags(fs *flag.FlagSet) {
	number := func(min, max float64, want string) func(string) (float64, error) {
		return func(text string) (float64, error) {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil || !(x >= min && x <= max) {
				return 0, errors.New("want " + want)
			}
			return x, nil
		}
	}
	fs.StringVar(&w.Name, "name", w.Name, "`name` of the workload in the answer")
	fs.Var(&list[string]{values: &w.algos, parse: pattern}, "algo", "`patterns` of the algorithms to consider, such as redis-*; see lockbench list")
	fs.Var(&list[string]{values: &w.clients, parse: pattern}, "client", "`patterns` of client libraries (default the first on each kind of server)")
	fs.Var(bounded[float64]{&w.Rate, number(1e-3, 1e9, "acquires a second, such as 300")}, "rate", "`acquires` a second at the peak")
	fs.Var(bounded[int]{&w.Keys, whole(1, 10_000_000)}, "keys", "`number` of keys")
	fs.Var(bounded[float64]{&w.Skew, number(0, 10, "a Zipf exponent from 0 (uniform) to 10")}, "skew", "Zipf `exponent` over the keys: 0 is uniform")
	fs.Var(bounded[results.Dist]{&w.Hold, results.ParseDist}, "hold", "`time` inside the lock: 1ms, exp:1ms or lognormal:1ms:0.5")
	fs.Var(bounded[int]{&w.Owners, whole(1, 1_000_000)}, "owners", "`number` of owners that hold or wait at once; further ones queue in the clients (default twice what the holds take, at least 64)")
	fs.Var(bounded[int]{&w.Procs, whole(1, 1000)}, "procs", "`processes` that the owners live in")
	fs.Var(bounded[time.Duration]{&w.RTT, span}, "rtt", "`time` that the network adds to a round trip")
	fs.Var(bounded[results.SLO]{&w.SLO, predictable}, "slo", "`bound` to keep, such as response-p99<20ms, several with commas; p50, p90, p99 and p99.9 of response or wait")
	fs.Var(bounded[float64]{&w.Headroom, number(0, 0.99, "a part of 1, such as 0.3")}, "headroom", "`share` of the capacity that stays free at the peak")
	fs.Var(bounded[float64]{&w.Growth, number(0, 100, "a part of 1 in a month, such as 0.05")}, "growth", "`share` by which the rate grows in a month: 0.05 is 5 %")
	fs.Var(bounded[float64]{&w.Cores, number(0.01, 10000, "a number of CPUs, such as 1")}, "cores", "`CPUs` that each server has for locks (default those of the server that was measured, and 1 for Redis)")
	fs.Var(&list[string]{values: &w.Survive, parse: survivable}, "survive", "`faults` that may let nobody else in and stop nobody for ever: of lockbench safety, or "+masterLoss+", whatever takes the server that grants")
	fs.Var(&list[string]{values: &w.Guarantees, parse: guaranteed}, "guarantee", "`capabilities` that are wanted: "+strings.Join(capNames(), ", "))
}

// needFlags are the names of the flags of a workload.
func needFlags() (names []string) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	w := defaultWanted()
	w.flags(fs)
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// masterLoss stands for those faults that take the server which grants.
const masterLoss = "master-loss"

func masterLosses() []string { return []string{"failover", "leader-kill", "minority-down"} }

func survivable(text string) (string, error) {
	names := []string{masterLoss}
	for _, f := range safety.Faults() {
		names = append(names, f.Name)
	}
	if !slices.Contains(names, text) {
		return "", errors.New("no such fault; " + guess(text, names, "", "lockbench safety -h tells of them"))
	}
	return text, nil
}

func capNames() (names []string) {
	for _, t := range capabilities() {
		names = append(names, t.name)
	}
	return names
}

func guaranteed(text string) (string, error) {
	if !slices.Contains(capNames(), text) {
		return "", errors.New("no such capability; " + guess(text, capNames(), "", "there are "+words(capNames(), "and")))
	}
	return text, nil
}

// readNeeds reads a list of workloads, or one. Flags that were given on the command line
// keep their values in all of them.
func readNeeds(name string, text []byte, from wanted, given map[string]bool) ([]wanted, error) {
	parts, err := mappings(name, text, "needs are a list of workloads, each with settings such as rate: 300")
	if err != nil {
		return nil, err
	}
	var all []wanted
	for i, part := range parts {
		w := from
		w.Guarantees, w.Survive = slices.Clone(w.Guarantees), slices.Clone(w.Survive)
		if !given["name"] && len(parts) > 1 {
			w.Name = "workload-" + strconv.Itoa(i+1)
		}
		into, aside, other := flag.NewFlagSet("", flag.ContinueOnError), flag.NewFlagSet("", flag.ContinueOnError), defaultWanted()
		w.flags(into)
		other.flags(aside)
		if err := settle(name, part, into, aside, given, "the settings are the flags of lockbench plan -h that say what is needed"); err != nil {
			return nil, err
		}
		if err := w.Check(); err != nil {
			return nil, misuse("%s:%d: %w", name, part.Line, err)
		}
		if slices.ContainsFunc(all, func(other wanted) bool { return other.Name == w.Name }) {
			return nil, misuse("%s:%d: two workloads are called %q", name, part.Line, w.Name)
		}
		all = append(all, w)
	}
	return all, nil
}

// predictable reads an SLO of which every bound can be predicted. No text is none.
func predictable(text string) (slo results.SLO, err error) {
	if text = strings.TrimSpace(text); text == "" {
		return nil, nil
	}
	if slo, err = results.ParseSLO(text); err != nil {
		return nil, err
	}
	return slo, capacity.CheckSLO(slo)
}
