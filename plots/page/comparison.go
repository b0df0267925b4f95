package page

import (
	"fmt"
	"strings"

	"github.com/lockbench/lockbench/results/compare"
)

// comparison is one of the runs with older ones, as the page shows it.
type comparison struct {
	*compare.Comparison
	Says  string   // how many findings have which verdict
	Notes []string // what a reader has to know to believe it
	// Tell are the findings that differ, Rest are all others.
	Tell, Rest []finding
}

// finding is a row of a comparison; figures as text, as their units are those of the metric.
type finding struct {
	compare.Finding
	From, To, Band, Seen string
	Class                string // of its verdict
}

func newComparison(c *compare.Comparison) comparison {
	out := comparison{Comparison: c}
	n := map[compare.Verdict]int{}
	for _, f := range c.Findings {
		n[f.Verdict]++
		unit := count
		if strings.HasSuffix(f.Metric, "-ns") || strings.HasSuffix(f.Metric, "-ns/acq") {
			unit = duration
		}
		row := finding{f, unit(f.Old), unit(f.New), compare.Share(f.Band), compare.Share(f.Detectable), strings.ToLower(strings.ReplaceAll(string(f.Verdict), " ", "-"))}
		if f.Verdict == compare.Same || f.Verdict == compare.Few {
			out.Rest = append(out.Rest, row)
		} else {
			out.Tell = append(out.Tell, row)
		}
	}
	var parts []string
	for _, v := range []compare.Verdict{compare.Worse, compare.Better, compare.Slight, compare.Same, compare.Few} {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[v], strings.ToLower(string(v))))
		}
	}
	out.Says = strings.Join(parts, ", ")
	if c.Yardstick {
		out.Notes = append(out.Notes, "A lock in memory moved, too, so the machine, the load or the harness did.")
	}
	if c.Drift && c.Sessions < 2 {
		out.Notes = append(out.Notes, "Old and new were measured one after the other, so what the machine did between them is in the differences.")
	}
	if c.Invalid > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Left out: %s with a run that is not valid (%s).", plural(c.Invalid, "pair"), strings.Join(c.Reasons, "; ")))
	}
	if c.Alone > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Left out: %s without a counterpart.", plural(c.Alone, "run")))
	}
	return out
}

// changed is the verdict of the first screen on comparisons.
func changed(all []comparison) verdict {
	worse, better, of := 0, 0, 0
	var against []string
	for _, c := range all {
		against = append(against, c.Old)
		of += len(c.Findings)
		for _, f := range c.Findings {
			switch f.Verdict {
			case compare.Worse:
				worse++
			case compare.Better:
				better++
			}
		}
	}
	answer := fmt.Sprintf("%d worse, %d better of %d figures", worse, better, of)
	if worse+better == 0 {
		answer = fmt.Sprintf("Nothing that counts, in %d figures", of)
	}
	return verdict{"What changed?", answer, "Against " + strings.Join(against, ", ") + ", in pairs of runs, with the noise of the machine.", "#compare"}
}
