package plots

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// writeStages writes what became of the arrivals of each stage, of those groups that have
// some: the burst and the time after it are told apart.
func writeStages(b *strings.Builder, list []*results.Group) {
	rows := [][]string{{"owners", "variant", "stage", "time", "offered", "acq/s", "response p50", "p99", "p99.9", "max", "unserved"}}
	for _, g := range list {
		for i, s := range g.Load.Stages.List() {
			name := func(metric string) string { return results.StageMetric(i+1, metric) }
			if g.Points[name(results.AcqRate)].N == 0 { // the log of the run was full
				continue
			}
			row := []string{fmt.Sprint(g.Load.Owners), g.Name(), fmt.Sprint(i + 1), s.For.String(), perSecond(s.Rate), quoted(g.Points[name(results.AcqRate)], count)}
			for _, q := range []string{"p50", "p99", "p99.9", "max"} {
				row = append(row, quoted(g.Points[name(results.Response+"-"+q+"-ns")], nanos))
			}
			rows = append(rows, append(row, tallied(g, name(results.Unserved))))
		}
	}
	if len(rows) > 1 {
		b.WriteString("\nBy stage, of the arrivals that were due in it (acq/s: grants in it, also of earlier arrivals):\n")
		aligned(b, rows)
	}
}

// objective is what the SLO of the runs of g said: one answer, or how many met it.
func objective(g *results.Group) string {
	var answers []results.Answer
	met := 0
	for _, r := range g.Runs {
		if r.SLO != nil {
			answers = append(answers, r.SLO.Answer)
			if r.SLO.Answer == results.Met {
				met++
			}
		}
	}
	if len(answers) == 0 {
		return "–"
	}
	if slices.Min(answers) == slices.Max(answers) {
		return string(answers[0])
	}
	return fmt.Sprintf("%d of %d met", met, len(answers))
}
