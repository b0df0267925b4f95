package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
)

// matrix is the safety matrix: locks × faults.
type matrix struct {
	Faults []Trait
	Rows   []matrixRow
	Count  map[string]int // cells by verdict
	Total  int
}

type matrixRow struct {
	Name  string
	Cells []matrixCell
}

type matrixCell struct {
	Letter, Verdict, Title string
	Class                  string
	ID                     int // of cellText; −1 if there is none
}

// cellText is the evidence of one cell.
type cellText struct {
	Lock     string `json:"lock"`
	Fault    string `json:"fault"`
	Verdict  string `json:"verdict"`
	Fence    string `json:"fence"`
	Sentence string `json:"sentence"`
	Plays    int    `json:"plays"`
	Lines    string `json:"lines"` // what was done and seen, at most maxEvidence bytes
}

// maxEvidence bounds what a page keeps of the events of a cell; the file has all.
const maxEvidence = 1000

// worst orders the outcomes of several plays of one cell.
var worst = []results.Outcome{results.Violated, results.Careless, results.Stuck, results.Blocked, results.Held, results.NotExercised}

func newMatrix(d Data) (*matrix, []cellText) {
	if len(d.Cells) == 0 {
		return nil, nil
	}
	type place struct{ lock, fault string }
	by := map[place][]*results.Cell{}
	var names []string
	for i := range d.Cells {
		c := &d.Cells[i]
		name := c.Algo
		if c.Client != "" {
			name += "/" + c.Client
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		by[place{name, c.Fault}] = append(by[place{name, c.Fault}], c)
	}
	m := &matrix{Count: map[string]int{}}
	for _, f := range d.Faults {
		if slices.ContainsFunc(names, func(n string) bool { return len(by[place{n, f.Name}]) > 0 }) {
			m.Faults = append(m.Faults, f)
		}
	}
	var texts []cellText
	for _, name := range names {
		line := matrixRow{Name: name}
		for _, f := range m.Faults {
			plays := by[place{name, f.Name}]
			if len(plays) == 0 {
				line.Cells = append(line.Cells, matrixCell{ID: -1, Letter: "", Class: "none", Title: name + ": " + f.Name + " does not apply"})
				continue
			}
			c := slices.MinFunc(plays, func(a, b *results.Cell) int { return slices.Index(worst, a.Verdict) - slices.Index(worst, b.Verdict) })
			verdict := string(c.Verdict)
			if c.Verdict == results.Blocked && c.Blocked > 0 {
				verdict += " for " + duration(float64(c.Blocked))
			}
			line.Cells = append(line.Cells, matrixCell{
				Letter: c.Verdict.Letter(), Verdict: verdict, Class: string(c.Verdict), ID: len(texts),
				Title: fmt.Sprintf("%s, %s: %s", name, f.Name, verdict),
			})
			texts = append(texts, cellText{name, f.Name, verdict, string(c.Fence), c.Sentence, len(plays), evidence(c)})
			m.Count[string(c.Verdict)]++
			m.Total++
		}
		m.Rows = append(m.Rows, line)
	}
	return m, texts
}

// evidence is what was done and seen in a cell, in short lines.
func evidence(c *results.Cell) string {
	var b strings.Builder
	add := func(line string) bool {
		if b.Len()+len(line)+1 > maxEvidence {
			b.WriteString("…")
			return false
		}
		b.WriteString(line + "\n")
		return true
	}
	for _, e := range c.Evidence {
		if !add(e) {
			return b.String()
		}
	}
	for _, e := range c.Events {
		line := fmt.Sprintf("+%v %s %s", e.At.Round(time.Millisecond), e.Who, e.Did)
		if e.Token > 0 {
			line += fmt.Sprintf(" token %d", e.Token)
		}
		if e.Stale {
			line += " STALE"
		}
		if e.Refused {
			line += " refused"
		}
		if e.Note != "" {
			line += ": " + e.Note
		}
		if !add(line) {
			break
		}
	}
	return b.String()
}
