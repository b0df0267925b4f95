package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A matrix is cells as a table on the terminal.
type matrix struct{ cells []results.Cell }

// letter is one cell of the table; "" is one that has not been played.
func letter(list []results.Cell) string {
	if len(list) == 0 {
		return ""
	}
	seen := ""
	for _, c := range list {
		l := map[results.Outcome]string{
			results.Held: "+", results.Blocked: "B", results.Stuck: "X", results.Violated: "U", results.Careless: "T",
			results.NotExercised: "?", results.NoServer: "", "": "-",
		}[c.Verdict]
		if !strings.Contains(seen, l) {
			seen += l
		}
	}
	return seen
}

// print writes one row for each lock and one column for each fault.
func (m matrix) print(w io.Writer, faults []safety.Fault, variants []lock.Variant) error {
	at := map[string][]results.Cell{}
	counts := map[results.Outcome]int{}
	for _, c := range m.cells {
		key := c.Algo + "/" + c.Client + "/" + c.Server.Kind + "/" + c.Fault
		at[key] = append(at[key], c)
		counts[c.Verdict]++
	}
	head := []string{"LOCK"}
	for i := range faults {
		head = append(head, fmt.Sprint(i+1))
	}
	rows := [][]string{head}
	for _, v := range variants {
		row := []string{v.Name()}
		for _, f := range faults {
			l := letter(at[v.Algo+"/"+v.Client+"/"+v.Needs.Kind+"/"+f.Name])
			if l == "" {
				l = letter(at[v.Algo+"/"+v.Client+"//"+f.Name])
			}
			row = append(row, l)
		}
		rows = append(rows, row)
	}
	if err := table(w, rows); err != nil {
		return err
	}
	for i, f := range faults {
		say(w, "%3d %-14s %s\n", i+1, f.Name, f.Doc)
	}
	say(w, "+ held, B blocked, X stuck, U violated, T careless, ? not exercised, - cannot strike\n")
	n := len(m.cells) - counts[""] - counts[results.NoServer]
	say(w, "%d cells: %d held, %d blocked, %d stuck, %d violated, %d careless, %d not exercised; %d more that no fault can strike\n",
		n, counts[results.Held], counts[results.Blocked], counts[results.Stuck], counts[results.Violated], counts[results.Careless],
		counts[results.NotExercised], counts[""])
	return nil
}

// unexpected names the cells that are not as the table of expected outcomes says. Where
// nothing was exercised there is nothing to compare.
func (m matrix) unexpected() (list []string) {
	for _, c := range m.cells {
		if c.Verdict != c.Expected && c.Verdict != results.NoServer && c.Verdict != results.NotExercised {
			list = append(list, fmt.Sprintf("%s%s under %s was %s, expected %s", c.Algo, kindOfCell(c), c.Fault, or(string(c.Verdict), "-"), or(string(c.Expected), "-")))
		}
	}
	return list
}

// proves tells that some cell was exercised.
func (m matrix) proves() bool {
	return slices.ContainsFunc(m.cells, func(c results.Cell) bool {
		return c.Verdict != "" && c.Verdict != results.NoServer && c.Verdict != results.NotExercised
	})
}
