package plots

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// dpi makes a PNG 1500 pixels wide: sharp where a README shows it at half size.
// Only tests change it.
var dpi = 150

// save writes path with each of the endings .svg and .png, and returns the names.
func (p *page) save(path string, endings []string) ([]string, error) {
	s := p.layout()
	var files []string
	for _, ending := range endings {
		render := s.svg
		if ending == ".png" {
			render = s.png
		}
		if err := write(path+ending, render); err != nil {
			return files, err
		}
		files = append(files, path+ending)
	}
	return files, nil
}

func (s *sheet) png(w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(pageWidth, s.height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	s.draw(draw.New(c))
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// svg writes the picture as text that a screen reader can read and a search can
// find. Fonts are not embedded, which would add 0.5 MB to each file: Arial and
// Helvetica, of which every system has one, are as wide as Liberation Sans to a
// unit, so nothing moves.
func (s *sheet) svg(w io.Writer) error {
	c := vgsvg.New(pageWidth, s.height)
	s.draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	head := fmt.Sprintf("<title>%s</title>\n<desc>%s</desc>\n<g", html.EscapeString(s.title), html.EscapeString(s.page.question))
	text := strings.Replace(b.String(), "<g", head, 1)
	text = strings.ReplaceAll(text, "font-family:Liberation Sans;", "font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")
	_, err := io.WriteString(w, strings.Map(printable, joined(classes(text))))
	return err
}

// classes names each style that stands in text often once, at its beginning: half of a
// picture would be the same words otherwise.
func classes(text string) string {
	style := regexp.MustCompile(`\s+style="([^"]+)"`)
	times := make(map[string]int)
	var order []string
	for _, m := range style.FindAllStringSubmatch(text, -1) {
		if times[m[1]]++; times[m[1]] == often {
			order = append(order, m[1])
		}
	}
	var sheet strings.Builder
	names := make(map[string]string)
	for i, s := range order {
		names[s] = "s" + strconv.Itoa(i)
		fmt.Fprintf(&sheet, ".%s{%s}\n", names[s], s)
	}
	text = style.ReplaceAllStringFunc(text, func(s string) string {
		if name := names[style.FindStringSubmatch(s)[1]]; name != "" {
			return ` class="` + name + `"`
		}
		return s
	})
	return strings.Replace(text, "</desc>", "</desc>\n<style>\n"+sheet.String()+"</style>", 1)
}

// joined makes one element of neighbouring texts that stand on one line and look alike: a
// matrix has a thousand letters.
func joined(text string) string {
	one := regexp.MustCompile(`^<text x="([^"]+)" (y="[^"]+" transform="[^"]+" class="[^"]+")>([^<]*)</text>$`)
	var out, same []string
	look := ""
	flush := func() {
		var spans strings.Builder // a list of places, which were shorter, not all readers know
		for _, line := range same {
			m := one.FindStringSubmatch(line)
			fmt.Fprintf(&spans, `<tspan x="%s">%s</tspan>`, m[1], m[3])
		}
		switch {
		case len(same) > 2:
			out = append(out, "<text "+look+">"+spans.String()+"</text>")
		default:
			out = append(out, same...)
		}
		same = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		m := one.FindStringSubmatch(line)
		if m == nil || m[2] != look {
			flush()
		}
		if m == nil {
			out, look = append(out, line), ""
			continue
		}
		same, look = append(same, line), m[2]
	}
	flush()
	return strings.Join(out, "\n")
}

// often is how many times a style stands in a picture that gets a name.
const often = 5

// printable drops the characters that XML cannot hold, even escaped; a name in a
// results file may have any.
func printable(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' || r == '\ufffe' || r == '\uffff' {
		return -1
	}
	return r
}

// write makes the file name appear whole or not at all: it is written beside its
// place, and renamed. An error names the file and removes what there is of it.
func write(name string, render func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // the first error is the one that counts
			_ = os.Remove(f.Name()) //
			err = fmt.Errorf("writing %s: %w", name, err)
		}
	}()
	if err = render(f); err != nil {
		return err
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
