package page

import (
	"bytes"
	"errors"
	"html/template"
	"regexp"
)

var (
	svgClass    = regexp.MustCompile(`class="(s\d+)"`)
	svgRule     = regexp.MustCompile(`(?m)^\.(s\d+)\{`)
	svgID       = regexp.MustCompile(`\bid="([^"]+)"`)
	svgRef      = regexp.MustCompile(`(url\(#|href="#)`)
	svgSize     = regexp.MustCompile(`<svg width="[^"]*" height="[^"]*"`)
	errNoSVG    = errors.New("no SVG")
	errSVGActs  = errors.New("an SVG with a script, or with parts from elsewhere")
	svgActive   = regexp.MustCompile(`(?i)<script|<foreignObject|\son\w+=|(href|src)="[^#"]`)
	svgPreamble = []byte("<svg")
)

// inline makes a picture part of a page: all pictures of a page share its styles and names,
// so those of each get a prefix of their own. A picture that would do something is refused.
func inline(svg []byte, prefix string) (template.HTML, error) {
	at := bytes.Index(svg, svgPreamble)
	if at < 0 {
		return "", errNoSVG
	}
	svg = svg[at:]
	if svgActive.Match(svg) {
		return "", errSVGActs
	}
	svg = svgClass.ReplaceAll(svg, []byte(`class="`+prefix+`$1"`))
	svg = svgRule.ReplaceAll(svg, []byte(`.`+prefix+`$1{`))
	svg = svgID.ReplaceAll(svg, []byte(`id="`+prefix+`$1"`))
	svg = svgRef.ReplaceAll(svg, []byte(`${1}`+prefix))
	svg = svgSize.ReplaceAll(svg, []byte(`<svg role="img"`))
	return template.HTML(svg), nil //nolint:gosec // drawn by package plots, and checked above
}
