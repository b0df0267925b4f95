package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// event is one of A's or B's on key 0, ms after the beginning.
func event(ms float64, who, did string) results.CellEvent {
	e := results.CellEvent{At: time.Duration(ms * 1e6), Who: who, Did: did}
	switch did {
	case "stopped", "continued", "killed":
		e.Key = -1
	}
	return e
}

// paused is the history of a holder that was stopped past its lease.
func paused() []results.CellEvent {
	list := []results.CellEvent{
		event(49, "C", "called"), event(50, "C", "granted"), event(50.5, "C", "left"), event(51, "C", "released"), // on another key
		event(55.7, "A", "called"), event(56.1, "A", "granted"), event(56.5, "A", "wrote"), event(58, "A", "stopped"), event(58.2, "B", "called"),
		event(1066.5, "B", "granted"), event(1066.9, "B", "wrote"), event(1067, "A", "continued"), event(1067.2, "A", "warned"), event(1067.4, "A", "wrote"),
		event(2070, "B", "warned"),
	}
	for i := range list[:4] {
		list[i].Key = 15
	}
	list[6].Guarded, list[10].Guarded = true, true
	list[13].Guarded, list[13].Stale = true, true
	return list
}

// crashed is the history of a holder that was killed.
func crashed() []results.CellEvent {
	note := event(60, "", "noted")
	note.Key, note.Note = -1, "client Z is elsewhere"
	heard := event(62, "", "noted")
	heard.Key, heard.Note = -1, "the death of client A was seen"
	return []results.CellEvent{event(55, "A", "called"), event(55.4, "A", "granted"), event(56, "B", "called"), event(58, "A", "killed"), note, heard, event(1060, "B", "granted")}
}

// played is a small matrix with everything in it.
func played() (cells []results.Cell, faults []Column) {
	redis := results.Server{Kind: "redis", Product: "redis", Version: "7.0.15", Source: "binary", Nodes: []string{"redis://127.0.0.1:1"}}
	zk := results.Server{Kind: "zookeeper", Product: "zookeeper", Version: "3.8.0", Source: "binary", Nodes: []string{"127.0.0.1:2"}}
	add := func(algo, client, fault string, s results.Server, repeat int, o results.Outcome, change func(c *results.Cell)) {
		c := results.Cell{Schema: results.CellSchema, Algo: algo, Client: client, Fault: fault, Server: s, Repeat: repeat, Verdict: o, Expected: o, Sentence: "what happened.", Evidence: []string{"SIGKILL to | client A"}}
		switch {
		case twoInside(o):
			c.Events = paused()
		case o == results.Blocked:
			c.Events, c.Blocked = crashed(), 1002*time.Millisecond
		}
		if change != nil {
			change(&c)
		}
		cells = append(cells, c)
	}
	none := results.Server{}
	for r := range 2 {
		add("redis-token", "goredis", "pause", redis, r, results.Violated, func(c *results.Cell) { c.Fence = results.FenceNone })
		add("redis-fenced", "goredis", "pause", redis, r, results.Careless, func(c *results.Cell) { c.Fence = results.FenceHeld })
		add("zk-sequential", "", "pause", zk, r, results.Held, nil)
	}
	add("redis-token", "goredis", "crash", redis, 0, results.Blocked, nil)
	add("redis-token", "goredis", "crash", redis, 1, results.Stuck, func(c *results.Cell) { c.Expected = results.Blocked })
	add("redis-fenced", "goredis", "crash", redis, 0, results.Blocked, nil)
	add("zk-sequential", "", "crash", zk, 0, results.NotExercised, func(c *results.Cell) { c.Why = "the machine was slow" })
	add("redis-token", "goredis", "no-renewal", none, 0, "", nil)
	add("redis-fenced", "goredis", "no-renewal", redis, 0, results.Careless, nil)
	add("redis-token-native", "goredis", "crash", none, 0, results.NoServer, nil)
	return cells, []Column{{"crash", "The holder is killed."}, {"pause", "The holder is stopped."}, {"no-renewal", ""}, {"never-played", "Nobody has."}}
}

// svgOf draws p, and checks that it is XML.
func svgOf(t *testing.T, p *page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.layout().svg(&b); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
		t.Errorf("%s is no XML: %v", p.name, err)
	}
	return b.String()
}

func TestMatrix(t *testing.T) {
	cells, faults := played()
	p, missing, err := boardOf(cells, faults).matrix()
	if err != nil || missing != "" {
		t.Fatal(missing, err)
	}
	var b bytes.Buffer
	if err := p.dump(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "matrix.tsv", b.Bytes())
	text := svgOf(t, p)
	for _, want := range []string{">redis-fenced<", ">Redis<", ">ZooKeeper<", ">pause<", ">U<", ">X<", ">not played<", "refused the late write"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture has no %q", want)
		}
	}
}

func TestTimelines(t *testing.T) {
	cells, faults := played()
	var b bytes.Buffer
	list := boardOf(cells, faults).told(100)
	for _, one := range list {
		p, missing, err := timeline(one.cell, one.doc)
		if err != nil || missing != "" && len(one.cell.Events) > 0 {
			t.Fatal(missing, err)
		}
		fmt.Fprintf(&b, "## %s %s\n", one.fileName(), missing)
		if missing == "" {
			svgOf(t, p)
			if err := p.dump(&b); err != nil {
				t.Fatal(err)
			}
		}
	}
	golden(t, "timelines.tsv", b.Bytes())
}

// What is told of first follows from the cells: of each fault one that let two in, the
// worst of it, and only then others.
func TestTold(t *testing.T) {
	cells, faults := played()
	for n, want := range map[int][]string{
		0:   nil,
		1:   {"redis-token pause"},
		2:   {"redis-token pause", "redis-fenced no-renewal"},
		3:   {"redis-token pause", "redis-fenced pause", "redis-fenced no-renewal"},
		100: {"redis-token crash", "redis-fenced crash", "zk-sequential crash", "redis-token pause", "redis-fenced pause", "zk-sequential pause", "redis-fenced no-renewal"},
	} {
		var got []string
		for _, one := range boardOf(cells, faults).told(n) {
			got = append(got, one.cell.Algo+" "+one.cell.Fault)
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %d: %q, want %q", n, got, want)
		}
	}
}

func TestDrawCells(t *testing.T) {
	cells, faults := played()
	dir := filepath.Join(t.TempDir(), "safety")
	if _, err := DrawCells(t.Context(), nil, faults, 10, dir); !errors.Is(err, ErrNoCells) {
		t.Errorf("DrawCells of nothing: %v, want ErrNoCells", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("DrawCells of nothing made a directory")
	}
	figures, err := DrawCells(t.Context(), cells, faults, 3, dir)
	if err != nil || len(figures) != 4 {
		t.Fatalf("%d figures, %v: want the matrix and three timelines", len(figures), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "safety-summary.md", text)
	again := filepath.Join(t.TempDir(), "again")
	if _, err := DrawCells(t.Context(), cells, faults, 3, again); err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		for _, name := range f.Files {
			a, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(again, filepath.Base(name)))
			if err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s is not the same twice: %v", name, err)
			}
		}
	}
	if _, err := DrawCells(t.Context(), cells, faults, 0, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(figures[1].Files[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a timeline of an earlier call stayed: %v", err)
	}
}

// TestCellGaps draws cells that lack something, or have too much of it.
func TestCellGaps(t *testing.T) {
	one := func(change func(c *results.Cell)) []results.Cell {
		cells, _ := played()
		change(&cells[0])
		return cells[:1]
	}
	for _, tc := range []struct {
		name    string
		cells   []results.Cell
		missing []string // of the matrix and the timelines
		says    string
	}{
		{"one cell", one(func(*results.Cell) {}), nil, "1 of 1 cells let two owners in"},
		{"unknown outcome", one(func(c *results.Cell) { c.Verdict = "melted" }), nil, "melted: not an outcome that this program knows"},
		{"unknown deed", one(func(c *results.Cell) { c.Events[5].Did = "flew" }), nil, "A flew"},
		{"unknown fault", one(func(c *results.Cell) { c.Fault = "meteorite" }), nil, "meteorite"},
		{"long names", one(func(c *results.Cell) {
			c.Algo, c.Fault, c.Client = strings.Repeat("lock", 60), strings.Repeat("fault", 60), strings.Repeat("client", 60)
			c.Sentence = strings.Repeat("word ", 400)
		}), nil, "locklocklock"},
		{"odd names", one(func(c *results.Cell) { c.Algo, c.Fault, c.Sentence = "a<b>&\"c\x00", "|../x\x01", "é & <>" }), nil, "a&lt;b&gt;&amp;"},
		{"no events", one(func(c *results.Cell) { c.Events = nil }), []string{"no events were stored"}, ""},
		{"no write marked", one(func(c *results.Cell) { c.Events[13].Stale = false }), []string{"its events do not say which write was stale: play it again"}, ""},
		{"nothing said", one(func(c *results.Cell) { c.Sentence = "" }), nil, ""},
		{"not played", one(func(c *results.Cell) { c.Verdict, c.Server = results.NoServer, results.Server{} }), []string{"none of its cells was played"}, ""},
		{"cannot strike", one(func(c *results.Cell) { c.Verdict, c.Server = "", results.Server{} }), []string{"none of its cells was played"}, ""},
		{"thousands of events", one(func(c *results.Cell) {
			for i := range 4000 {
				c.Events = append(c.Events, event(3000+float64(i), "B", "extended"))
			}
		}), nil, "Left out: "},
		{"an outcome that differs from the expected", one(func(c *results.Cell) { c.Expected = results.Held }), nil, "not as expected"},
		{"remarks alone", one(func(c *results.Cell) {
			c.Verdict = results.Held
			c.Events = []results.CellEvent{{Did: "noted", Key: -1, Note: "it was dark"}}
		}), nil, "it was dark"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			figures, err := DrawCells(t.Context(), tc.cells, nil, 10, dir)
			if err != nil {
				t.Fatal(err)
			}
			var missing []string
			said := tc.says == ""
			for _, f := range figures {
				if f.Missing != "" {
					missing = append(missing, f.Missing)
				}
				for _, name := range f.Files {
					text, err := os.ReadFile(name)
					if err != nil {
						t.Fatal(err)
					}
					if err := xml.Unmarshal(text, new(struct{})); err != nil {
						t.Errorf("%s is no XML: %v", name, err)
					}
					if base := filepath.Base(name); len(base) > 100 || filepath.Dir(name) != dir {
						t.Errorf("a file %s", name)
					}
					said = said || strings.Contains(strings.ReplaceAll(string(text), space, " "), tc.says)
				}
			}
			if !slices.Equal(missing, tc.missing) {
				t.Errorf("left out for %q, want %q", missing, tc.missing)
			}
			if !said {
				t.Errorf("no picture says %q", tc.says)
			}
		})
	}
}

// A matrix of all locks under many faults, each played twenty times, is small enough to
// be kept, and each of its letters is drawn.
func TestMatrixIsSmall(t *testing.T) {
	var cells []results.Cell
	outcomes := outcomeLooks()
	for l := range 55 {
		for f := range 36 {
			for r := range 20 {
				cells = append(cells, results.Cell{Algo: fmt.Sprintf("redis-lock-%d", l), Client: "goredis", Fault: fmt.Sprintf("fault-%d", f), Repeat: r,
					Server: results.Server{Kind: "redis", Product: "redis"}, Verdict: outcomes[(l/3+f)%len(outcomes)].outcome})
			}
		}
	}
	p, _, err := boardOf(cells, nil).matrix()
	if err != nil {
		t.Fatal(err)
	}
	text := svgOf(t, p)
	if n := strings.Count(text, ">20<"); n != 55*36 {
		t.Errorf("%d counts in the picture, want %d", n, 55*36)
	}
	if len(text) > 200_000 {
		t.Errorf("the picture has %d bytes", len(text))
	}
}

// Texts of one line and look become one element, and none of them is lost.
func TestJoined(t *testing.T) {
	text := func(x, y, class, s string) string {
		return `<text x="` + x + `" y="` + y + `" transform="scale(1, -1)" class="` + class + `">` + s + `</text>` + "\n"
	}
	in := text("1", "-5", "a", "U") + text("2", "-5", "a", "20") + text("3", "-5", "a", "&lt;") + text("4", "-6", "a", "x") + text("5", "-6", "b", "y") + "<path/>\n" + text("6", "-6", "b", "z")
	want := `<text y="-5" transform="scale(1, -1)" class="a"><tspan x="1">U</tspan><tspan x="2">20</tspan><tspan x="3">&lt;</tspan></text>` + "\n" +
		text("4", "-6", "a", "x") + text("5", "-6", "b", "y") + "<path/>\n" + text("6", "-6", "b", "z")
	if got := joined(in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
