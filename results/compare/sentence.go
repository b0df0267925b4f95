package compare

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sentence tells f in words.
func (f *Finding) sentence(c Config) string {
	head := f.Trial + ": " + f.Metric + " "
	if f.exact {
		return head + fmt.Sprintf("0 → %g: worse, whatever the statistics say", f.New)
	}
	if f.Ratio == 0 {
		text := head + fmt.Sprintf("%s → %s in the mean (p_Holm %s)", short(f.Old), short(f.New), equals(f.Holm))
		return text + ": " + f.verdictWords(c)
	}
	return head + f.Times() + " (p_Holm " + equals(f.Holm) + "): " + f.verdictWords(c)
}

// Times is the ratio with half its interval: "1.06 ± 0.02 ×".
func (f *Finding) Times() string {
	if f.Ratio == 0 {
		return "–"
	}
	if f.High == 0 {
		return fmt.Sprintf("%.2f ± ? ×", f.Ratio)
	}
	half := (f.High - f.Low) / 2
	digits := 2
	if half < 0.005 {
		digits = 3
	}
	return fmt.Sprintf("%.*f ± %.*f ×", digits, f.Ratio, digits, half)
}

func (f *Finding) verdictWords(c Config) string {
	switch f.Verdict {
	case Better, Worse:
		word := strings.ToLower(string(f.Verdict))
		if f.Ratio == 0 {
			return word
		}
		return word + " by " + Share(math.Abs(f.Ratio-1))
	case Slight:
		return fmt.Sprintf("a difference below what counts (least effect %s, A/A noise %s)", Share(c.Least), Share(f.Band))
	case Few:
		return fmt.Sprintf("%d pairs are too few to tell; measure with -repeat %d or more", f.Pairs, f.needed)
	}
	if f.Detectable > 0 {
		return "no difference; " + Share(f.Detectable) + " would have been seen"
	}
	return "no difference"
}

// Share writes a share of 1 in percent, and "–" for 0, which stands for what is not known.
func Share(v float64) string {
	switch {
	case v == 0:
		return "–"
	case v < 0.0005:
		return "< 0.1 %"
	case v >= 0.1:
		return fmt.Sprintf("%.0f %%", 100*v)
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// equals writes p behind its name.
func equals(p float64) string {
	if text := P(p); strings.HasPrefix(text, "<") {
		return text
	}
	return "= " + P(p)
}

// P writes a p-value; below a ten-thousandth the resamples say no more.
func P(p float64) string {
	if p < 1e-4 {
		return "< 0.0001"
	}
	return strconv.FormatFloat(p, 'g', 2, 64)
}
