package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/lockbench/lockbench/results"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain draws coarser pictures where time is short: under the race detector a
// pixel costs twenty times what it costs without.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		dpi = 50
	}
	m.Run()
}

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run the test with -update to make it)", err)
	}
	if !bytes.Equal(got, want) {
		a, b := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("%s differs in line %d:\ngot  %s\nwant %s", path, i+1, a[i], b[i])
			}
		}
		t.Fatalf("%s has %d lines, want %d", path, len(a), len(b))
	}
}

// pages makes every page of runs that can be made.
func pages(t *testing.T, runs []results.Run) []*page {
	t.Helper()
	var list []*page
	for _, s := range sets(results.Groups(runs)) {
		for _, picture := range pictures(&s) {
			p, missing, err := picture()
			if err != nil {
				t.Fatal(err)
			}
			if missing == "" {
				p.name += s.suffix
				list = append(list, p)
			}
		}
	}
	return list
}

// few is a small set with everything in it: two clients, a bound, a control and
// invalid runs.
func few(t *testing.T) []results.Run {
	t.Helper()
	keep := []string{"local-mutex", "local-none", "redis-token", "redis-getset", "redis-timestamp-del"}
	return slices.DeleteFunc(synthetic(t, []string{"goredis", "redigo"}, []int{1, 8, 32}, 3),
		func(r results.Run) bool { return !slices.Contains(keep, r.Algo) })
}

func TestSeries(t *testing.T) {
	list := pages(t, few(t))
	if len(list) != 7 {
		t.Errorf("%d pictures, want throughput, fairness, tradeoff, cost, handoff and two of latency", len(list))
	}
	for _, p := range list {
		var b bytes.Buffer
		if err := p.dump(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, p.name+".tsv", b.Bytes())
	}
}

func TestTables(t *testing.T) {
	var b bytes.Buffer
	if err := Summary(&b, few(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, SummaryFile, b.Bytes())
	b.Reset()
	if err := Table(&b, few(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", b.Bytes())
}

// An upper bound is written as one, also where too few values stand behind it.
func TestQuoted(t *testing.T) {
	for want, p := range map[string]results.Point{
		"–":        {},
		"1 ms":     {N: 1, Median: 1e6},
		"(1 ms)":   {N: 1, Median: 1e6, Thin: 1},
		"≤ 1 ms":   {N: 1, Median: 1e6, AtMost: 1},
		"(≤ 1 ms)": {N: 1, Median: 1e6, AtMost: 1, Thin: 1},
	} {
		if got := strings.ReplaceAll(quoted(p, nanos), space, " "); got != want {
			t.Errorf("%+v is written %q, want %q", p, got, want)
		}
	}
}

// What was waited for a pool has a column where a lock has one, and only there.
func TestTablesOfPools(t *testing.T) {
	for _, pool := range []bool{false, true} {
		runs := few(t)
		for i := range runs {
			if pool && runs[i].Algo == "redis-token" {
				runs[i].Metrics[results.PoolWaitPerAcq] = 7.5e6
			}
		}
		for _, write := range []func(io.Writer, []results.Run) error{Table, Summary} {
			var b bytes.Buffer
			if err := write(&b, runs); err != nil {
				t.Fatal(err)
			}
			var head, row bool
			for line := range strings.Lines(strings.ReplaceAll(b.String(), space, " ")) {
				head = head || strings.Contains(line, "owners") && strings.Contains(line, "pool-wait/acq")
				row = row || strings.Contains(line, "redis-token/goredis") && strings.Contains(line, "7.5 ms")
			}
			if head != pool || row != pool {
				t.Errorf("a pool: %t, its column: %t, its value: %t", pool, head, row)
			}
		}
	}
}

func TestDrawRenders(t *testing.T) {
	runs, dir := few(t), t.TempDir()
	figures, err := Draw(t.Context(), runs, dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range figures {
		if f.Name == "readwrite" || f.Name == "rtt" {
			if f.Missing == "" || len(f.Files) > 0 {
				t.Errorf("%+v: no run holds what it shows", f)
			}
			continue
		}
		names = append(names, f.Name)
		if f.Missing != "" || len(f.Files) != 2 || f.Title == "" || f.Question == "" {
			t.Errorf("%+v: want a title, a question and two files", f)
			continue
		}
		svg, err := os.ReadFile(f.Files[0])
		if err != nil {
			t.Fatal(err)
		}
		checkSVG(t, f, svg)
		file, err := os.Open(f.Files[1])
		if err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(file)
		if err != nil {
			t.Fatalf("%s: %v", f.Files[1], err)
		}
		_ = file.Close()
		checkPNG(t, f, img)
	}
	want := []string{"throughput", "latency", "fairness", "tradeoff", "cost", "handoff", "latency-owners-1"}
	if !slices.Equal(names, want) {
		t.Errorf("drew %v, want %v", names, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2*len(want)+1 {
		t.Errorf("%d files in %s, want two for each picture and the summary", len(entries), dir)
	}

	// The same runs in another order give the same bytes.
	again := t.TempDir()
	shuffled := slices.Clone(runs)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if _, err := Draw(t.Context(), shuffled, again); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		a, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(again, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s depends on the order of the runs or changes from call to call", e.Name())
		}
	}
}

func checkSVG(t *testing.T, f Figure, svg []byte) {
	t.Helper()
	text, shapes := "", 0
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", f.Files[0], err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "path" {
				shapes++
			}
		case xml.CharData:
			text += string(token)
		}
	}
	for _, want := range []string{f.Title, "redis-token", "redis 7.0.15", "AMD EPYC", "local-none"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s does not say %q", f.Files[0], want)
		}
	}
	if shapes < 40 {
		t.Errorf("%s has only %d shapes", f.Files[0], shapes)
	}
}

func checkPNG(t *testing.T, f Figure, img image.Image) {
	t.Helper()
	colours, painted, all := make(map[[3]uint32]bool), 0, 0
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			r, g, b, _ := img.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}] = true
			all++
			if r+g+b < 3*0xffff {
				painted++
			}
		}
	}
	if img.Bounds().Dx() != 10*dpi || len(colours) < 50 || painted*50 < all {
		t.Errorf("%s: %v, %d colours, %d of %d pixels painted: that is no picture", f.Files[1], img.Bounds(), len(colours), painted, all)
	}
}

// TestTextIsClear records what a picture writes: no text may leave the page or
// touch another one.
func TestTextIsClear(t *testing.T) {
	loads := map[string][]results.Run{
		"one client":  synthetic(t, []string{"goredis"}, []int{1, 2, 8, 32}, 3),
		"two clients": synthetic(t, []string{"goredis", "redigo"}, []int{1, 2, 8, 32}, 3),
		"one load":    synthetic(t, []string{"goredis"}, []int{8}, 1),
		"few":         few(t),
		"long ways":   farther(t, []string{"goredis", "redigo"}, []int{1, 32}, 2),
		"readers":     shared(t, []int{8, 32}, 2),
	}
	type text struct {
		words string
		box   vg.Rectangle
	}
	for name, runs := range loads {
		t.Run(name, func(t *testing.T) {
			all := slices.Concat(pages(t, runs), swept(t, byRTT, runs), swept(t, byShared, runs))
			for _, p := range all {
				s := p.layout()
				var rec recorder.Canvas
				s.draw(draw.NewCanvas(&rec, pageWidth, s.height))
				var texts []text
				turned, stack := false, []bool{}
				for _, a := range rec.Actions {
					switch a := a.(type) {
					case *recorder.Push:
						stack = append(stack, turned)
					case *recorder.Pop:
						turned, stack = stack[len(stack)-1], stack[:len(stack)-1]
					case *recorder.Rotate:
						turned = true
					case *recorder.FillString:
						if turned || strings.TrimSpace(a.String) == "" {
							continue
						}
						width := style(a.Size, nil, false).Width(a.String)
						// From the baseline to the height of a capital.
						texts = append(texts, text{a.String, vg.Rectangle{Min: a.Point, Max: a.Point.Add(vg.Point{X: width, Y: 0.7 * a.Size})}})
					}
				}
				if len(texts) < 15 {
					t.Fatalf("%s: recorded %d texts", p.name, len(texts))
				}
				for i, a := range texts {
					if a.box.Min.X < 2 || a.box.Max.X > pageWidth-2 || a.box.Min.Y < 2 || a.box.Max.Y > s.height-2 {
						t.Errorf("%s: %q leaves the page: %v", p.name, a.words, a.box)
					}
					for _, b := range texts[:i] {
						if overlap(a.box, b.box) {
							t.Errorf("%s: %q and %q overlap: %v %v", p.name, a.words, b.words, a.box, b.box)
						}
					}
				}
			}
		})
	}
}

// TestLabelsKeepOffLines sees that no label of the trade-off is crossed by the
// line at which its fairest locks stand.
func TestLabelsKeepOffLines(t *testing.T) {
	const fair = "redis-fenced"
	runs := synthetic(t, []string{"goredis"}, []int{8}, 1)
	for i := range runs {
		if runs[i].Algo == fair {
			runs[i].Metrics[results.JainW] = 1
		}
	}
	for _, p := range pages(t, runs) {
		if p.name != "tradeoff" {
			continue
		}
		s := p.layout()
		var rec recorder.Canvas
		s.draw(draw.NewCanvas(&rec, pageWidth, s.height))
		place, y := s.places[0], p.panels[0].y
		at := place.Min.Y + vg.Length((1-y.min)/(y.max-y.min))*(place.Max.Y-place.Min.Y)
		seen := false
		for _, a := range rec.Actions {
			text, ok := a.(*recorder.FillString)
			if !ok || text.String != fair {
				continue
			}
			seen = true
			if text.Point.Y < at && at < text.Point.Y+0.7*text.Size {
				t.Errorf("the line at %v runs through the label at %v", at, text.Point)
			}
		}
		if !seen {
			t.Error("there is no label " + fair)
		}
	}
}
