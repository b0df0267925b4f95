package plots

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/lockbench/lockbench/results"
)

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
	return text
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
