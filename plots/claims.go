package plots

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"

	"github.com/lockbench/lockbench/results"
)

// ClaimsFile is the name of the table that DrawClaims writes beside its picture.
const ClaimsFile = "claims.md"

// ClaimsText writes one line for each verdict: whether the claim held, the value
// with its interval, the bound, and what was compared.
func ClaimsText(w io.Writer, verdicts []results.Verdict) error {
	var b strings.Builder
	for _, v := range verdicts {
		fmt.Fprintf(&b, "%-6s  %s: %s\n", outcome(v), v.Claim.Text, strings.ReplaceAll(finding(v), space, " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// DrawClaims writes the verdicts on runs into dir, which it makes if need be: a
// picture with a row for each claim, as SVG and PNG, and ClaimsFile. It returns
// ErrEmpty for no verdicts or runs.
func DrawClaims(runs []results.Run, verdicts []results.Verdict, dir string) (Figure, error) {
	if len(verdicts) == 0 || len(runs) == 0 {
		return Figure{}, ErrEmpty
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Figure{}, fmt.Errorf("plots: %w", err)
	}
	p, missing := claims(runs, verdicts)
	f := Figure{Name: p.name, Title: p.title, Question: p.question, Missing: missing}
	var err error
	if missing == "" {
		f.Files, err = p.save(filepath.Join(dir, p.name))
	}
	err = errors.Join(err, write(filepath.Join(dir, ClaimsFile), func(w io.Writer) error {
		return claimsTable(w, runs, verdicts, f)
	}))
	if err != nil {
		return f, fmt.Errorf("plots: %w", err)
	}
	return f, nil
}

func outcome(v results.Verdict) string {
	switch {
	case v.Missing != "":
		return "?"
	case v.Held:
		return "held"
	}
	return "MISSED"
}

// asked is the bound of a claim in words.
func asked(c results.Claim) string {
	u := unitOf(c)
	var parts []string
	if c.Least != nil {
		parts = append(parts, "≥ "+u(*c.Least))
	}
	if c.Most != nil {
		parts = append(parts, "≤ "+u(*c.Most))
	}
	if c.Every {
		parts[len(parts)-1] += " in every block"
	}
	if c.Low != nil {
		parts = append(parts, "interval above "+u(*c.Low))
	}
	return strings.Join(parts, ", ")
}

// unitOf is how the value of c is written: ratios as plain numbers.
func unitOf(c results.Claim) unit {
	if len(c.Over.Variants) == 0 && strings.HasSuffix(c.Of.Metric, "-ns") {
		return nanos
	}
	return count
}

// finding is what was seen of a claim, and where.
func finding(v results.Verdict) string {
	if v.Missing != "" {
		return "not measured: " + v.Missing
	}
	u := unitOf(v.Claim)
	low, high := spread(v)
	text := fmt.Sprintf("%s [%s … %s], asked %s; %s", measured(v), u(low), u(high), asked(v.Claim), compared(v))
	if v.Doubt != "" {
		text += "; to be doubted: " + v.Doubt
	}
	return text + ratesAlone(v) + thinly(v)
}

// measured is the median of v, with as many digits as tell it from its bound.
func measured(v results.Verdict) string {
	u, median := unitOf(v.Claim), v.Point.Median
	text := u(median)
	for _, bound := range []*float64{v.Claim.Least, v.Claim.Most} {
		if bound == nil || len(v.Claim.Over.Variants) == 0 {
			continue // a number with a unit, or a count
		}
		for digits := 4; text == u(*bound) && median != *bound && digits <= 17; digits++ { // 17 tell any two apart
			text = strconv.FormatFloat(median, 'g', digits, 64)
		}
	}
	return text
}

// spread is the interval that is told beside the median of v: that of the median,
// or the range where every block is asked for.
func spread(v results.Verdict) (low, high float64) {
	if v.Claim.Every {
		return v.Point.Min, v.Point.Max
	}
	return v.Point.Low, v.Point.High
}

// thinly tells in how many blocks v rests on a percentile of too few values.
func thinly(v results.Verdict) string {
	if v.Thin == 0 {
		return ""
	}
	return fmt.Sprintf("; in %d of %s too few values for that percentile", v.Thin, plural(v.Point.N, "block"))
}

// ratesAlone tells which blocks v counts although their waits say nothing.
func ratesAlone(v results.Verdict) string {
	if v.Rates == 0 {
		return ""
	}
	return fmt.Sprintf("; in %d of %s waits were too long for the window, which does not touch what is counted in it", v.Rates, plural(v.Point.N, "block"))
}

// compared says which numbers of which variants the value comes from.
func compared(v results.Verdict) string {
	of, over := v.Claim.Of, v.Claim.Over
	text := of.Metric + " of " + v.Of
	if v.Over == "" {
		return text + " at " + of.At
	}
	switch {
	case of.Metric != over.Metric:
		text += " ÷ " + over.Metric + " of " + v.Over
	case v.Of != v.Over:
		text += " ÷ " + v.Over
	}
	if of.At == over.At {
		return text + " at " + of.At
	}
	if v.Of == v.Over {
		return text + " at " + of.At + " ÷ at " + over.At
	}
	return text + " at " + of.At + " ÷ " + over.At
}

// claimWidth leaves more than half of the page to the values beside the claims.
const claimWidth = pageWidth * 0.42

// claims is a row for each verdict: how far beyond its bound the value lies.
func claims(runs []results.Run, verdicts []results.Verdict) (*page, string) {
	p := &page{
		name:     "claims",
		title:    "What was claimed, and what was measured",
		question: "Does each claim hold, and by how much? Right of the line at 1 it holds.",
		columns:  1,
	}
	n := panel{}
	var unseen []string
	lo, hi := 1.0, 1.0
	rows, tallest := 0, 1 // in lines
	for _, v := range verdicts {
		at, ok := margin(v)
		if !ok {
			unseen = append(unseen, v.Claim.Text)
			continue
		}
		rows++
		lo, hi = min(lo, at.xlo), max(hi, at.xhi)
		at.y = -float64(rows)
		at.lo, at.hi = at.y, at.y
		look := look{colour: hex(0x0072b2), marker: circle, width: 1.5}
		if !v.Held {
			look.colour, look.marker = alarm(), cross
		}
		at.hollow = v.Doubt != ""
		n.lines = append(n.lines, line{
			name: v.Claim.Text, label: measured(v) + " (" + asked(v.Claim) + ")",
			look: look, points: []point{at}, loose: true, faint: 1,
		})
		words := wrap(unbroken(v.Claim.Text), style(labelSize, nil, false), claimWidth)
		tallest = max(tallest, len(words))
		n.y.ticks = append(n.y.ticks, plot.Tick{Value: at.y, Label: strings.Join(words, "\n")})
	}
	if rows == 0 {
		return p, "no claim has a value above 0 to draw"
	}
	n.x = logAxis("how far within its bound (measured ÷ asked, or asked ÷ measured where less is better; log scale)", lo/1.1, hi*1.1, factor)
	n.y.min, n.y.max = -float64(rows)-0.7, -0.3
	n.lines = append(n.lines, line{
		name: "bound", look: look{colour: ink(), width: 1, marker: bar}, bare: true, faint: 2,
		points: []point{{x: 1, y: n.y.min, lo: n.y.min, hi: n.y.min}, {x: 1, y: n.y.max, lo: n.y.max, hi: n.y.max}},
	})
	p.panels = []panel{n}
	p.tall = rowHeight * vg.Length(0.6+0.85*float64(tallest)) * (1 + lineCount(p))
	p.caption = claimsCaption(runs, verdicts, unseen)
	return p, ""
}

// margin is the value of v by its bound, turned so that more is better.
func margin(v results.Verdict) (point, bool) {
	c, median := v.Claim, v.Point.Median
	low, high := spread(v)
	if v.Missing != "" || !(low > 0) || math.IsInf(high, 1) {
		return point{}, false
	}
	switch {
	case c.Least != nil && *c.Least > 0:
		return point{x: median / *c.Least, xlo: low / *c.Least, xhi: high / *c.Least}, true
	case c.Most != nil && *c.Most > 0:
		return point{x: *c.Most / median, xlo: *c.Most / high, xhi: *c.Most / low}, true
	}
	return point{}, false
}

// narrowly reports whether v was missed although its median keeps the bound.
func narrowly(v results.Verdict) bool {
	at, ok := margin(v)
	return ok && !v.Held && v.Doubt == "" && at.x >= 1
}

func claimsCaption(runs []results.Run, verdicts []results.Verdict, unseen []string) []remark {
	held, doubted := 0, 0
	for _, v := range verdicts {
		if v.Held {
			held++
		}
		if v.Doubt != "" {
			doubted++
		}
	}
	list := []remark{
		{text: fmt.Sprintf("%d of %s held. Points: medians of the ratios within each interleaved block; whiskers: %s.", held, plural(len(verdicts), "claim"), intervals(verdicts))},
		{text: "What each row compares, with its load, stands in " + ClaimsFile + "."},
	}
	if slices.ContainsFunc(verdicts, narrowly) {
		list[0].text += " A cross right of the line: the median keeps its bound, but its interval or one of the blocks does not."
	}
	if len(unseen) > 0 {
		list = append(list, remark{text: "Not drawn, being 0 or not measured: " + strings.Join(unseen, "; ") + "."})
	}
	if doubted > 0 {
		list = append(list, remark{fmt.Sprintf("%s from runs that are not valid: hollow markers.", plural(doubted, "value")), true})
	}
	var where remark
	for _, g := range results.Groups(runs) {
		if g.Server.Kind == "" {
			continue
		}
		if r := server(g.Server); !slices.Contains(list, r) {
			list = append(list, r)
		}
		if where.text == "" {
			where.text = "Host: " + host(g.Env) + "."
		}
	}
	if where.text != "" {
		list = append(list, where)
	}
	return list
}

// intervals says what the whiskers are, which depends on how many blocks there were.
func intervals(verdicts []results.Verdict) string {
	least, most := results.Point{}, results.Point{}
	for _, v := range verdicts {
		if n := v.Point.N; n > 0 {
			if least.N == 0 || n < least.N {
				least = v.Point
			}
			if n > most.N {
				most = v.Point
			}
		}
	}
	text := least.Interval()
	if least.N != most.N {
		text += " up to " + most.Interval()
	}
	if slices.ContainsFunc(verdicts, func(v results.Verdict) bool { return v.Claim.Every }) {
		text += "; the range where every block is asked for"
	}
	return text
}

func claimsTable(w io.Writer, runs []results.Run, verdicts []results.Verdict, f Figure) error {
	var b strings.Builder
	b.WriteString("# Claims\n\nMedians over interleaved blocks, with an interval: the range below 6 blocks and where every block is asked for, else one that holds the median with 95 % confidence.\n\n")
	for _, r := range claimsCaption(runs, verdicts, nil)[2:] {
		fmt.Fprintf(&b, "- %s\n", r.text)
	}
	b.WriteString("\n| | claim | measured | interval | blocks | asked | what was compared |\n|:---|:---|---:|:---|---:|:---|:---|\n")
	for _, v := range verdicts {
		u := unitOf(v.Claim)
		value, interval, what := "–", "–", "not measured: "+v.Missing
		if v.Missing == "" {
			low, high := spread(v)
			value, interval, what = measured(v), u(low)+" … "+u(high), compared(v)
		}
		if v.Doubt != "" {
			what += " – **to be doubted**: " + v.Doubt
		}
		what += ratesAlone(v) + thinly(v)
		mark := outcome(v)
		if mark == "MISSED" {
			mark = "**missed**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %s | %s |\n", mark, v.Claim.Text, value, interval, v.Point.N, asked(v.Claim), what)
	}
	if f.Missing == "" {
		fmt.Fprintf(&b, "\n- [%s](%s.svg): %s\n", f.Title, f.Name, f.Question)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
