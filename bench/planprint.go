package bench

import (
	"fmt"
	"io"
	"strings"

	"github.com/lockbench/lockbench/results/capacity"
)

// A planWriter writes a plan as text or as Markdown, which differ in headings, tables and
// what is to be pasted.
type planWriter struct {
	w        io.Writer
	markdown bool
	err      error // the first one
}

func (p *planWriter) line(format string, a ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", a...)
	}
}

func (p *planWriter) heading(level int, text string) {
	if p.markdown {
		p.line("%s %s\n", strings.Repeat("#", level), text)
		return
	}
	p.line("%s", text)
}

// table has its heads first. In text the columns are aligned.
func (p *planWriter) table(rows [][]string) {
	switch {
	case p.err != nil || len(rows) < 2:
	case p.markdown:
		for i, row := range rows {
			for j := range row {
				row[j] = strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(row[j])
			}
			p.line("| %s |", strings.Join(row, " | "))
			if i == 0 {
				p.line("%s|", strings.Repeat("|---", len(row)))
			}
		}
		p.line("")
	default:
		for _, row := range rows {
			row[0] = "  " + row[0]
		}
		p.err = table(p.w, rows)
		p.line("")
	}
}

// item is one of a list, wrapped in text.
func (p *planWriter) item(text string) {
	if p.markdown {
		p.line("- %s", strings.ReplaceAll(text, "<", "&lt;"))
		return
	}
	for i, line := range wrap(text, listWidth-4) {
		if i == 0 {
			p.line("  – %s", line)
		} else {
			p.line("    %s", line)
		}
	}
}

// call is a command with what is said of it.
func (p *planWriter) call(text, says string) {
	if p.markdown {
		p.line("- `%s` (%s)", text, strings.ReplaceAll(says, "<", "&lt;"))
		return
	}
	p.line("  %s\n      %s", text, says)
}

// printPlan writes a: the verdict first. Check is the command that checks it.
func printPlan(w io.Writer, a capacity.Answer, markdown bool, check string) error {
	p := &planWriter{w: w, markdown: markdown}
	p.heading(1, "Verdict")
	for _, one := range a.Workloads {
		p.item(one.Need.Name + ": " + one.Verdict)
	}
	if len(a.Together) > 0 {
		t := a.Together[0]
		p.item(fmt.Sprintf("All on common servers: %s on %d, which then spend %.2f CPUs at the peaks with headroom.", t.Name, t.Servers, t.Cores))
	} else if len(a.Workloads) > 1 {
		p.item("No one lock can do all of them.")
	}
	p.line("")
	for _, one := range a.Workloads {
		p.workload(one)
	}
	p.heading(2, "Not tested")
	for _, text := range a.NotTested {
		p.item(text)
	}
	p.line("")
	if list := checks(a); len(list) > 0 {
		p.heading(2, "To check")
		for _, c := range list {
			p.call(c.command(), c.expects())
		}
		p.call(check, "all of these, judged")
	}
	return p.err
}

func (p *planWriter) workload(one capacity.Workload) {
	n := one.Need
	text := fmt.Sprintf("%s: %g/s (%.0f/s with headroom), %d keys", n.Name, n.Rate, n.Peak(), n.Keys)
	if n.Keys == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if n.Skew > 0 {
		text += fmt.Sprintf(" with a skew of %g", n.Skew)
	}
	text += fmt.Sprintf(", hold %v, %d owners", n.Hold, n.Owners)
	for _, part := range []struct{ name, value string }{{"SLO ", n.SLO.String()}, {"survives ", strings.Join(n.Survive, ", ")}, {"", strings.Join(n.Guarantees, ", ")}} {
		if part.value != "" {
			text += ", " + part.name + part.value
		}
	}
	p.heading(2, text)
	p.can(n, one.Can)
	p.cannot(one.Cannot)
	if len(one.Can) > 0 {
		p.first(one.Can[0])
	}
}

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// span5 is an interval in ns, with the middle first.
func span5(i capacity.Interval) string {
	return fmt.Sprintf("%v (%v–%v)", capacity.Short(i.Mid), capacity.Short(i.Low), capacity.Short(i.High))
}

func (p *planWriter) can(n capacity.Need, list []capacity.Choice) {
	rows := [][]string{{"CAN", "SERVES", "SERVERS", "CONNECTIONS", "RAM", "WAIT P50", "WAIT P99 (5–95 %)", "HOTTEST KEY", "SERVER CPU", "CPU S / MILLION", "EXHAUSTED", "MODEL'S ERROR"}}
	for _, c := range list {
		rows = append(rows, []string{
			c.Name, string(c.Order), fmt.Sprint(c.Servers), fmt.Sprint(c.Connections), ram(c), capacity.Short(c.Peak.P50.Mid).String(), span5(c.Peak.P99),
			percent(c.Peak.Hottest), percent(c.Peak.Server), fmt.Sprintf("%.0f at %.0f/s", c.Bill.PerMillion(), c.Bill.At), exhausted(c.Exhausted), modelError(c.Errors),
		})
	}
	p.table(rows)
}

// ram is what all servers of c have in RAM.
func ram(c capacity.Choice) string {
	if c.Memory == nil {
		return "not told"
	}
	return megabytes(c.Bytes)
}

func megabytes(bytes float64) string { return fmt.Sprintf("%.0f MB", bytes/1e6) }

func exhausted(e *capacity.Exhaustion) string {
	switch {
	case e == nil:
		return "no growth"
	case e.AtLeast:
		return fmt.Sprintf("not before %s (%.0f/s, as far as measured)", e.Date.Format("2006-01"), e.Rate)
	}
	return fmt.Sprintf("%s (%.0f/s)", e.Date.Format("2006-01"), e.Rate)
}

func modelError(e capacity.Errors) string {
	if e.Runs == 0 {
		return "not validated"
	}
	return fmt.Sprintf("%.1f %% acq/s, %.0f %% p99, %d of %d inside", 100*e.Throughput, 100*e.P99, e.Inside, e.Runs)
}

func (p *planWriter) cannot(list []capacity.Choice) {
	rows := [][]string{{"CANNOT", "FOR", "WHY"}}
	for _, c := range list {
		var why []string
		for _, r := range c.Reasons {
			why = append(why, r.Text)
		}
		rows = append(rows, []string{c.Name, string(c.Reasons[0].Why), strings.Join(why, "; ")})
	}
	p.table(rows)
}

// first tells of the recommended lock what would give way, and what changes would do.
func (p *planWriter) first(c capacity.Choice) {
	p.item(fmt.Sprintf("%s: %s would give way first, in use for %s: %s.", c.Name, c.Bottleneck.What, percent(c.Bottleneck.In), c.Bottleneck.Evidence))
	if c.KeyLimit > 0 {
		text := fmt.Sprintf("The hottest key allows at most %.0f/s on any number of servers (1/(p₁·E[S]))", c.KeyLimit)
		if c.Formula > 0 {
			text += fmt.Sprintf("; M/G/1 has a mean wait of %v for it, before round trips, and the simulation %v over all keys", capacity.Short(c.Formula), capacity.Short(c.Peak.Mean.Mid))
		}
		p.item(text + ".")
	}
	if c.Poll > 0 {
		p.item(fmt.Sprintf("Its waiters ask in vain %.0f times a second.", c.Poll))
	}
	if c.Bill.PerAcq > 0 {
		p.item(fmt.Sprintf("The bill was measured at %.0f/s. A server that idles between commands spends more on each, so at fewer it is higher.", c.Bill.At))
	}
	if m := c.Memory; m != nil {
		text := fmt.Sprintf("Its servers had %s in RAM with %d owners", megabytes(m.Resident), m.Owners)
		if m.PerOwner > 0 {
			text += fmt.Sprintf(", of which each owner with its connections has %.0f kB", m.PerOwner/1e3)
		} else {
			text += "; what each owner adds to that they do not tell"
		}
		p.item(text + ".")
	}
	if u := c.Scaling; u != nil {
		if why := u.Rejected(); why != "" {
			p.item(why + ".")
		} else {
			p.item(fmt.Sprintf("USL over closed loops: σ %.3g, κ %.3g, λ %.4g/s, R² %.3f.", u.Sigma, u.Kappa, u.Lambda, u.R2))
		}
	}
	if c.Errors.Runs == 0 {
		p.item("The model is not validated on this machine: -held takes the runs of -check, and make validate-model tries many loads.")
	}
	p.line("")
	rows := [][]string{{"WHAT IF", "SLO", "WAIT P99 (5–95 %)", ""}}
	for _, w := range c.WhatIf {
		row := []string{w.What, "missed", "", w.Says}
		switch {
		case w.Peak == nil:
			row[1], row[3] = "refused", w.Refused
		case w.Meets:
			row[1] = "met"
		}
		if w.Peak != nil {
			row[2] = span5(w.Peak.P99)
		}
		rows = append(rows, row)
	}
	p.table(rows)
}
