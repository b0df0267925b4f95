package plots

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/lockbench/lockbench/results/compare"
)

// ComparisonText writes c: a row for each finding, then a sentence for each that counts,
// what was left out and what differs in the environment.
func ComparisonText(w io.Writer, c *compare.Comparison) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s against %s: %s\n", c.New, c.Old, plural(c.Trials, "trial"))
	rows := [][]string{{"trial", "metric", "pairs", "old", "new", "new ÷ old", "p Holm", "A/A noise", "seen from", "verdict"}}
	last := ""
	for _, f := range c.Findings {
		name := f.Trial
		if name == last {
			name = ""
		}
		last = f.Trial
		u := unitOfMetric(f.Metric)
		rows = append(rows, []string{name, f.Metric, strconv.Itoa(f.Pairs), u(f.Old), u(f.New), f.Times(), compare.P(f.Holm), compare.Share(f.Band), compare.Share(f.Detectable), string(f.Verdict)})
	}
	if err := tabbed(&b, rows); err != nil {
		return err
	}
	for _, f := range c.Findings {
		if f.Verdict == compare.Worse || f.Verdict == compare.Better {
			fmt.Fprintf(&b, "%s\n", f.Sentence)
		}
	}
	for _, f := range c.Findings {
		if f.Verdict == compare.Few {
			fmt.Fprintf(&b, "%s\n", f.Sentence)
			break // it is the same of the others
		}
	}
	if c.Yardstick {
		b.WriteString("a lock in memory moved, too, so the machine, the load or the harness did: handoff-efficiency is without that\n")
	}
	if c.Drift && c.Sessions < 2 {
		b.WriteString("old and new were measured one after the other, and the A/A noise is of one session: what the machine did between them is in the differences; measure by turns, or give -noise a file of several sessions\n")
	}
	if c.Invalid > 0 {
		fmt.Fprintf(&b, "left out: %s with a run that is not valid (%s)\n", plural(c.Invalid, "pair"), strings.Join(c.Reasons, "; "))
	}
	if c.Alone > 0 {
		fmt.Fprintf(&b, "left out: %s without a counterpart\n", plural(c.Alone, "run"))
	}
	if len(c.Environment) > 0 {
		fmt.Fprintf(&b, "environment, differences only: %s\n", strings.Join(c.Environment, "; "))
	} else {
		b.WriteString("environment: no difference\n")
	}
	fmt.Fprintf(&b, "in all: %s (alpha %s over all of them, least effect %s)\n", verdictsOf(c), percent(c.Config.Alpha), percent(c.Config.Least))
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), space, " "))
	return err
}

// SelfText writes what comparisons of a machine with itself came to.
func SelfText(w io.Writer, aa *compare.AA) error {
	rows := [][]string{{"trial", "metric", "blocks", "pairs", "A/A band", "false alarms"}}
	last := ""
	for _, r := range aa.Rows {
		name := r.Trial
		if name == last {
			name = ""
		}
		last = r.Trial
		rows = append(rows, []string{name, r.Metric, strconv.Itoa(r.Blocks), strconv.Itoa(r.Pairs), compare.Share(r.Band), fmt.Sprintf("%d of %d", r.False, r.Splits)})
	}
	var b strings.Builder
	if err := tabbed(&b, rows); err != nil {
		return err
	}
	fmt.Fprintf(&b, "A/A band: 95 of 100 comparisons of the machine with itself stay below it\n%d of %d comparisons of a trial with itself raised a false alarm\n", aa.False, aa.Comparisons)
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), space, " "))
	return err
}

// PowerText writes rows of detection power as a table of Markdown, which is also read as
// it stands.
func PowerText(w io.Writer, rows []compare.Row, effects []float64) error {
	var b strings.Builder
	b.WriteString("| trial | metric | A/A band | false alarms |")
	for _, e := range effects {
		fmt.Fprintf(&b, " %s worse |", percent(e))
	}
	b.WriteString("\n|" + strings.Repeat("---|", 4+len(effects)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %d |", r.Trial, r.Metric, compare.Share(r.Band), r.False)
		for _, n := range r.Seen {
			fmt.Fprintf(&b, " %d |", n)
		}
		b.WriteString("\n")
	}
	if len(rows) > 0 {
		fmt.Fprintf(&b, "\nof %d draws of 2 × %d blocks, out of %d and more: how many saw what was put in\n", rows[0].Draws, rows[0].Pairs, fewestOf(rows))
	}
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), space, " "))
	return err
}

func fewestOf(rows []compare.Row) int {
	n := rows[0].Blocks
	for _, r := range rows {
		n = min(n, r.Blocks)
	}
	return n
}

func tabbed(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := io.WriteString(t, strings.Join(row, "\t")+"\n"); err != nil {
			return err
		}
	}
	return t.Flush()
}

func unitOfMetric(metric string) unit {
	if strings.HasSuffix(metric, "-ns") || strings.HasSuffix(metric, "-ns/acq") {
		return nanos
	}
	return count
}
