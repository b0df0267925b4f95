package plots

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/lockbench/lockbench/results/compare"
)

// ClaimsText writes one line for each judgement: what became of the claim, the value with
// its interval, the bound, and what was compared.
func ClaimsText(w io.Writer, judged []compare.Judgement) error {
	var b strings.Builder
	for _, v := range judged {
		fmt.Fprintf(&b, "%-11s  %s: %s\n", v.Outcome, v.Claim.Text, ClaimText(v))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// asked is the bound of a claim in words.
func asked(c compare.Claim) string {
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
func unitOf(c compare.Claim) unit {
	if len(c.Over.Variants) == 0 && strings.HasSuffix(c.Of.Metric, "-ns") {
		return nanos
	}
	return count
}

// ClaimText is what was seen of a claim, and where: the value with its interval, the bound,
// and what was compared.
func ClaimText(v compare.Judgement) string { return strings.ReplaceAll(finding(v), space, " ") }

func finding(v compare.Judgement) string {
	if v.Outcome == compare.Missing {
		return "not measured: " + v.Why
	}
	u := unitOf(v.Claim)
	text := "asked " + asked(v.Claim) + "; " + compared(v)
	if v.Blocks > 0 {
		text = fmt.Sprintf("%s [%s … %s] over %s, ", measured(v), u(v.Low), u(v.High), plural(v.Blocks, "block")) + text
	}
	if v.Left > 0 && v.Outcome != compare.Invalid {
		text += fmt.Sprintf("; %s not valid and left out", plural(v.Left, "block"))
	}
	if v.Why != "" {
		text += "; " + v.Why
	}
	return text
}

// measured is the value of v, with as many digits as tell it from its bound.
func measured(v compare.Judgement) string {
	u := unitOf(v.Claim)
	text := u(v.Value)
	for _, bound := range []*float64{v.Claim.Least, v.Claim.Most} {
		if bound == nil || len(v.Claim.Over.Variants) == 0 {
			continue // a number with a unit, or a count
		}
		for digits := 4; text == u(*bound) && v.Value != *bound && digits <= 17; digits++ { // 17 tell any two apart
			text = strconv.FormatFloat(v.Value, 'g', digits, 64)
		}
	}
	return text
}

// compared says which numbers of which variants the value comes from.
func compared(v compare.Judgement) string {
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
