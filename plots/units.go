package plots

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
)

// A unit writes a value of one metric for a reader, with what it is counted in.
type unit func(v float64) string

// space is a no-break space, between a number and its unit and between thousands.
const space = "\u00a0"

// digits3 writes v with three significant digits and no trailing zeros.
func digits3(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	places := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	s := strconv.FormatFloat(v, 'f', min(places, 6), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// count writes a plain number: 0.031, 41.2, 12 300.
func count(v float64) string {
	v = results.Rounded(v) // so that 999.9 does not print as 1000 of the smaller unit
	if math.Abs(v) < 10_000 {
		return digits3(v)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + space + s[i:]
	}
	return s
}

// scaled picks the largest unit of which v is at least one.
func scaled(v float64, base float64, units ...string) string {
	v = results.Rounded(v) // so that 999.9 does not print as 1000 of the smaller unit
	i := 0
	for math.Abs(v) >= base*(1-1e-9) && i < len(units)-1 {
		v /= base
		i++
	}
	return digits3(v) + space + units[i]
}

// nanos writes a duration given in ns: 41.2 µs.
func nanos(v float64) string { return scaled(v, 1000, "ns", "µs", "ms", "s") }

// octets writes a number of bytes: 1.2 kB (1 kB = 1000 B).
func octets(v float64) string { return scaled(v, 1000, "B", "kB", "MB", "GB") }

// perSecond writes a rate: 812/s.
func perSecond(v float64) string { return count(v) + "/s" }

// factor writes a multiple: 1.5×.
func factor(v float64) string { return digits3(v) + "×" }

// percent writes a share of 1: 99.9 %.
func percent(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e8)/1e6, 'f', -1, 64) + space + "%"
}

func (r span) String() string { return nanos(float64(r)) }

// span is a duration that prints in human units.
type span time.Duration

// plural writes n things, "1 key", "4 keys".
func plural(n int, thing string) string {
	s := count(float64(n)) + space + thing
	if n != 1 {
		s += "s"
	}
	return s
}
