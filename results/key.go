package results

import (
	"cmp"
	"fmt"
	"strings"
)

// identity is what two runs must share to be repetitions of each other: every
// dimension, also the window where it was made longer than asked. The seed is none.
func identity(r *Run) string {
	return values(r, func(Dimension) bool { return true })
}

// loadOf is the load of r as it was asked for, but for the round trip to a server: the
// yardstick of a block, which makes none, has the same as every run of the block, also
// as one whose window was made longer.
func loadOf(r *Run) string {
	return values(r, func(d Dimension) bool { return d.load != nil && !d.Served && d.Name != grown })
}

// values are those of r in the dimensions that are meant.
func values(r *Run, meant func(Dimension) bool) string {
	var b strings.Builder
	for _, d := range Dimensions() {
		if meant(d) {
			b.WriteString(d.At(r) + "\x00")
		}
	}
	return b.String()
}

// Differ names the dimensions in which a and b differ, with both values, or is "".
func Differ(a, b *Run) string {
	var list []string
	for _, d := range Dimensions() {
		if x, y := d.At(a), d.At(b); x != y {
			list = append(list, fmt.Sprintf("%s (%s and %s)", d.Name, cmp.Or(x, "none"), cmp.Or(y, "none")))
		}
	}
	return strings.Join(list, ", ")
}
