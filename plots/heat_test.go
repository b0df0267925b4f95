package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// hot is a run of which the first windows are quick, that was struck in between, and in
// which the waits of the pause end after it.
func hot(t *testing.T, open bool) results.Run {
	t.Helper()
	r := copied(synthetic(t, []string{"goredis"}, []int{8}, 1)[7])
	const ms = int64(time.Millisecond)
	counts := make([][]int64, 20)
	for w := range counts {
		counts[w] = make([]int64, 60)
		at := func(ns int64) *int64 { return &counts[w][results.Coarser(results.BucketOf(ns))+40] }
		switch {
		case w >= 8 && w < 12: // the pause: nobody gets in
		case w == 12:
			*at(400 * ms), *at(200 * ms) = 7, 5
		default:
			*at(ms), *at(3 * ms) = 100, 40
		}
	}
	of := results.Acquire
	if open {
		of, r.Load.Rate = results.Response, 800
	}
	r.Series.Heat = results.NewHeat(50*time.Millisecond, of, -40, counts)
	if open {
		for w := range counts {
			lag := 2 * ms / int64(w+1)
			if w >= 8 && w < 12 {
				lag = 0
			}
			r.Series.Heat.Lag = append(r.Series.Heat.Lag, lag)
		}
	}
	r.Faults = []results.Fault{{Kind: "pause", At: 400 * time.Millisecond, For: 200 * time.Millisecond}}
	r.Asked = []string{"pause@400ms+200ms"}
	return r
}

func heatOf(t *testing.T, r results.Run) (*page, string) {
	t.Helper()
	groups := results.Groups([]results.Run{r})
	p, missing, err := heatMap(&groups[0])
	if err != nil {
		t.Fatal(err)
	}
	return p, missing
}

func TestHeatMap(t *testing.T) {
	for _, open := range []bool{false, true} {
		name := "heat.tsv"
		if open {
			name = "heat-open.tsv"
		}
		p, missing := heatOf(t, hot(t, open))
		if missing != "" {
			t.Fatal(missing)
		}
		var b bytes.Buffer
		if err := p.dump(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
		// Nothing was granted while the server stood still, and what waited came after.
		for _, c := range p.panels[0].heat.cells {
			if c.x0 >= 400e6 && c.x1 <= 600e6 {
				t.Errorf("a grant from %v on", time.Duration(c.x0))
			}
			if c.y0 > 100e6 && c.x0 != 600e6 {
				t.Errorf("a wait of %v at %v", time.Duration(c.y0), time.Duration(c.x0))
			}
		}
		if n := len(p.panels[0].lines); open && n != 2 || !open && n != 0 {
			t.Errorf("%d lines of the lag", n)
		}
	}
}

// A run of many owners has dark cells, one grant is seen, and the legend tells the two apart.
func TestShades(t *testing.T) {
	for _, most := range []int64{1, 2, 5, 7, 60, 1000, 123_456_789} {
		last := -1
		for n := int64(1); n <= min(most, 5000); n++ {
			s := shadeOf(n, most)
			if s < last || s >= len(shades()) {
				t.Fatalf("%d of %d has shade %d, and less has %d", n, most, s, last)
			}
			last = s
		}
		if got := shadeOf(most, most); got != len(shades())-1 {
			t.Errorf("most of %d is not the darkest, but %d", most, got)
		}
		legend := shadeLegend(most)
		if len(legend) > len(shades()) || len(legend) == 0 {
			t.Errorf("%d colours for up to %d", len(legend), most)
		}
		if end := legend[len(legend)-1].words; !strings.Contains(end, count(float64(most))) {
			t.Errorf("the darkest of %d is %q", most, end)
		}
	}
}

func TestHeatSVG(t *testing.T) {
	r := hot(t, true)
	r.Valid = results.Valid{Reasons: []string{"late"}}
	for i := range 30 { // more than there is room for
		r.Faults = append(r.Faults, results.Fault{Kind: fmt.Sprint("fault", i), At: 950 * time.Millisecond, For: time.Hour})
	}
	text, err := HeatSVG(&r)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"pause", "own lag", "not valid: late", "<title>"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if len(text) > 40_000 {
		t.Errorf("%d bytes", len(text))
	}
	r.Series.Heat = nil
	if _, err := HeatSVG(&r); !errors.Is(err, ErrEmpty) {
		t.Errorf("of a run without any: %v", err)
	}
}

// Runs with faults get their maps beside the other pictures, and those without on demand.
func TestDrawHeat(t *testing.T) {
	struckRun, calm := hot(t, false), hot(t, false)
	calm.Faults, calm.Asked, calm.ID = nil, nil, "calm"
	old := copied(calm) // stored before there was any
	old.Series.Heat, old.ID, old.Algo = nil, "old", "redis-old"
	names := func(figures []Figure) (list []string) {
		for _, f := range figures {
			if strings.HasPrefix(f.Name, "heat-") {
				list = append(list, strings.TrimSpace(f.Name+" "+f.Missing))
			}
			for _, file := range f.Files {
				if _, err := os.Stat(file); err != nil {
					t.Error(err)
				}
			}
		}
		return list
	}
	dir := t.TempDir()
	figures, err := Draw(t.Context(), []results.Run{struckRun}, dir)
	if got := names(figures); err != nil || !slices.Equal(got, []string{"heat-redis-token-goredis"}) {
		t.Errorf("%v, %v", got, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, SummaryFile)); err != nil || !bytes.Contains(text, []byte("heat-redis-token-goredis.svg")) {
		t.Errorf("the summary does not name it: %v", err)
	}
	figures, err = Draw(t.Context(), []results.Run{calm}, t.TempDir())
	if got := names(figures); err != nil || len(got) != 0 {
		t.Errorf("of a calm run: %v, %v", got, err)
	}
	figures, err = DrawHeat(t.Context(), []results.Run{calm, old}, t.TempDir())
	got := names(figures)
	if err != nil || len(got) != 2 || !slices.Contains(got, "heat-redis-token-goredis") || !strings.Contains(strings.Join(got, ""), "measure again") {
		t.Errorf("on demand: %v, %v", got, err)
	}
	if _, err := DrawHeat(t.Context(), nil, t.TempDir()); !errors.Is(err, ErrEmpty) {
		t.Errorf("of nothing: %v", err)
	}
}
