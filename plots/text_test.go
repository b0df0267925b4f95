package plots

import (
	"image/color"
	"strings"
	"testing"
)

// A number and its unit stay on one line.
func TestUnbroken(t *testing.T) {
	sty := style(labelSize, color.Black, false)
	for text, want := range map[string]string{
		"with a hold of 100 µs, alone": "with a hold of 100" + space + "µs, alone",
		"after 5 ms or 2 s":            "after 5" + space + "ms or 2" + space + "s",
		"1.4 seconds of 2 sides":       "1.4 seconds of 2 sides",
	} {
		if got := unbroken(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
		for _, line := range wrap(unbroken(text), sty, 1) {
			if strings.HasSuffix(line, "100") || strings.HasPrefix(line, "µs") {
				t.Errorf("%q is broken at %q", text, line)
			}
		}
	}
}
