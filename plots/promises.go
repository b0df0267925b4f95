package plots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// promises says what the locks of a picture promise, where its groups are of
// several kinds of servers: the numbers of unequal guarantees are never shown
// without it. One line stands for all that promise the same.
func promises(groups []*results.Group) (lines []remark) {
	kinds := make(map[string]bool)
	names := make(map[string][]string)
	for _, g := range groups {
		if g.Server.Kind == "" {
			continue
		}
		kinds[g.Server.Kind] = true
		text := promise(g.Runs[0].Guarantee)
		if !slices.Contains(names[text], g.Name()) {
			names[text] = append(names[text], g.Name())
		}
	}
	if len(kinds) < 2 {
		return nil
	}
	for text, list := range names {
		slices.Sort(list)
		lines = append(lines, remark{text: strings.Join(list, ", ") + ": " + text + "."})
	}
	slices.SortFunc(lines, func(a, b remark) int { return cmp.Compare(a.text, b.text) })
	return append([]remark{{text: "These locks do not promise the same. Who grants, what outlives a crash of the server, when a dead holder's key is free, and whether a late holder can be refused:"}}, lines...)
}

// promise is g in one line.
func promise(g *results.Guarantee) string {
	if g == nil {
		return "not recorded"
	}
	token := "no fencing"
	if g.Fencing {
		token = "fencing token"
	}
	return strings.Join([]string{g.Decides, durable(g) + " outlives a crash", "free " + freed(g), token}, "; ")
}

func durable(g *results.Guarantee) string { return cmp.Or(g.Durable, "(not told)") }

func freed(g *results.Guarantee) string { return cmp.Or(g.Frees, "(not told)") }

// promised writes the same as a table, for sets of any servers whose runs
// recorded it.
func promised(b *strings.Builder, list []*results.Group) {
	var rows []string
	for _, g := range list {
		r := g.Runs[0]
		if g.Server.Kind == "" || r.Guarantee == nil {
			continue
		}
		token := "–"
		if r.Guarantee.Fencing {
			token = "yes"
		}
		row := fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", g.Name(), r.Guarantee.Decides, durable(r.Guarantee), freed(r.Guarantee), token,
			cmp.Or(strings.Join(r.Unsafe, ", "), "–"))
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.Sort(rows)
	b.WriteString("\nWhat the locks promise:\n\n| variant | who grants | outlives a crash of the server | the key of a dead holder is free | fencing | declared unsafe under |\n|:---|:---|:---|:---|:---|:---|\n")
	b.WriteString(strings.Join(rows, ""))
}
