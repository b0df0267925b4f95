package plots

import (
	"image/color"
	"regexp"
	"strings"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// style is how text of that size, in points, is written.
func style(size vg.Length, colour color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return text.Style{Color: colour, Font: f, XAlign: draw.XLeft, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
}

// measure is a number with its unit.
var measure = regexp.MustCompile(`(\d) (ns|µs|ms|s)\b`)

// unbroken keeps numbers on one line with their units.
func unbroken(s string) string { return measure.ReplaceAllString(s, "${1}"+space+"${2}") }

// wrap breaks s at blanks into lines no wider than width.
func wrap(s string, sty text.Style, width vg.Length) []string {
	var lines []string
	line := ""
	for _, word := range strings.Split(s, " ") {
		if next := strings.TrimPrefix(line+" "+word, " "); line == "" || sty.Width(next) <= width {
			line = next
			continue
		}
		lines = append(lines, line)
		line = word
	}
	return append(lines, line)
}
