package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

func listCommand() command {
	return command{
		name: "list", args: "[-json] [NAME…]  or  -md | -into FILE",
		does: "lists the locks: what each needs, can do, and what breaks it",
		examples: []example{
			{"lockbench list", "all locks, a line each"},
			{"lockbench list redis-token", "all about one lock, in words"},
			{"lockbench list 'sql-*' 'zk-*'", "the lines of those that match a pattern"},
		},
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			asJSON := fs.Bool("json", false, "print a JSON array with one object for each algorithm and client library")
			asMarkdown := fs.Bool("md", false, "print the table of impls/README.md")
			into := fs.String("into", "", "write the table of -md between its markers in `FILE`")
			return func(_ context.Context, std stdio) error {
				all, err := named(impls.All(), fs.Args())
				switch {
				case err != nil:
					return err
				case *asJSON && (*asMarkdown || *into != ""):
					return misuse("-json and -md are two forms of one list: give one of them")
				case fs.NArg() > 0 && (*asMarkdown || *into != ""):
					return misuse("-md and -into write the table of all locks: leave the names away")
				case *into != "":
					return writeInto(*into, all)
				case *asMarkdown:
					_, err := io.WriteString(std.out, markdown(all))
					return err
				case *asJSON:
					return listJSON(std.out, all)
				}
				if plain(fs.Args()) {
					return details(std.out, all)
				}
				return listText(std.out, all)
			}
		},
	}
}

// entry is a Variant as JSON.
type entry struct {
	Algo   string       `json:"algo"`
	Client string       `json:"client"`
	Needs  lock.Needs   `json:"needs"`
	Caps   lock.Caps    `json:"caps"`
	Unsafe lock.Hazards `json:"unsafe"`
	Frees  lock.Frees   `json:"frees,omitempty"`
	Exempt []string     `json:"exempt,omitempty"`
	// Engines are those of a variant that can switch.
	Engines []string `json:"engines,omitempty"`
	Doc     string   `json:"doc"`
	Source  string   `json:"source"`
}

func listJSON(w io.Writer, all []lock.Variant) error {
	list := []entry{}
	for _, v := range all {
		list = append(list, entry{v.Algo, v.Client, v.Needs, v.Caps, v.Unsafe, v.Frees, v.Exempt, v.Engines, v.Doc, v.Source})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(list)
}

// needsOf says what the variants of one algorithm need: one of several where they
// differ.
func needsOf(same []lock.Variant) string {
	var list []string
	for _, v := range same {
		if text := v.Needs.String(); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return strings.Join(list, " or ")
}

// byAlgo lists the variants of each algorithm, which differ in nothing but the
// client and what that needs.
func byAlgo(all []lock.Variant) [][]lock.Variant {
	at := make(map[string]int)
	var rows [][]lock.Variant
	for _, v := range all {
		i, ok := at[v.Algo]
		if !ok {
			i = len(rows)
			at[v.Algo] = i
			rows = append(rows, nil)
		}
		rows[i] = append(rows[i], v)
	}
	return rows
}

// named are the variants of the algorithms that names match, or all if there are none.
func named(all []lock.Variant, names []string) ([]lock.Variant, error) {
	if len(names) == 0 {
		return all, nil
	}
	return choose(all, names, nil)
}

// plain tells whether names are names, and no patterns.
func plain(names []string) bool {
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return strings.ContainsAny(name, `*?[\`) })
}

// details tells of each lock, one after the other.
func details(w io.Writer, all []lock.Variant) error {
	for i, same := range byAlgo(all) {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := detail(w, same); err != nil {
			return err
		}
	}
	return nil
}

// listWidth is the longest line of the table, in columns.
const listWidth = 120

// listText prints a line for each lock, and what its letters mean.
func listText(w io.Writer, all []lock.Variant) error {
	rows := [][]string{{"LOCK", "NEEDS", "CAN", "BREAKS", "WHAT IT DOES"}}
	for _, same := range byAlgo(all) {
		v := same[0]
		failing := "."
		if len(v.Exempt) > 0 {
			failing = "*"
		}
		rows = append(rows, []string{
			v.Algo, kindsOf(same),
			letters(capabilities(), v.Caps.List()), letters(hazards(), v.Unsafe.List()) + failing, v.Synopsis(),
		})
	}
	// What is too long is cut at its end: list NAME has it whole.
	left := listWidth
	for i := range rows[0][:4] {
		widest := 0
		for _, row := range rows {
			widest = max(widest, utf8.RuneCountInString(row[i]))
		}
		left -= widest + 2
	}
	for _, row := range rows {
		row[4] = cut(row[4], left)
	}
	if err := table(w, rows); err != nil {
		return err
	}
	for _, text := range []string{
		"NEEDS: the servers, and on how many independent ones it runs.",
		"CAN: " + legend(capabilities()) + ".",
		"BREAKS, by letting two owners in or nobody ever again: " + legend(hazards()) + "; * does not pass every case of the conformance suite.",
		"lockbench list NAME tells all about one lock in words.",
	} {
		for _, line := range wrap(text, listWidth) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// kindsOf is needsOf in short.
func kindsOf(same []lock.Variant) string {
	var list []string
	for _, v := range same {
		text := or(v.Needs.Kind, "–")
		if v.Needs.Nodes > 1 {
			text = fmt.Sprintf("%d × %s", v.Needs.Nodes, text)
		}
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return strings.Join(list, "/")
}

// cut is text in at most width columns, with "…" at its end if it had more.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return strings.TrimSuffix(text, ".")
	}
	return strings.TrimRight(wrap(text, width-1)[0], ",;:") + "…"
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// markdown is the generated table of impls/README.md.
func markdown(all []lock.Variant) string {
	var b strings.Builder
	cells := func(list ...string) {
		for _, cell := range list {
			fmt.Fprintf(&b, "| %s ", strings.ReplaceAll(or(cell, "–"), "|", "\\|"))
		}
		b.WriteString("|\n")
	}
	cells("variant", "clients", "needs", "can", "breaks under", "what it does", "source")
	b.WriteString(strings.Repeat("|---", 7) + "|\n")
	for _, same := range byAlgo(all) {
		v := same[0]
		cells("`"+v.Algo+"`", strings.Join(clientsOf(same), ", "), needsOf(same),
			strings.Join(v.Caps.List(), ", "), breaks(v), v.Synopsis(), v.Source)
	}
	b.WriteString("\nWhat the locks of each family can do. A name stands here only where the suite runs that case on it, and it passes:\n\n")
	b.WriteString(featureTable(all))
	return b.String()
}

// breaks is what v does not survive, and what else it does not keep.
func breaks(v lock.Variant) string {
	text := strings.Join(v.Unsafe.List(), ", ")
	if len(v.Exempt) > 0 {
		text += "; fails " + strings.Join(v.Exempt, ", ")
	}
	return text
}

// The lines around the generated table.
const (
	tableBegin = "<!-- lockbench list -md -->"
	tableEnd   = "<!-- end -->"
)

// splice puts table between the markers in text, or says which is missing.
func splice(text, table string) (string, error) {
	head, rest, ok := strings.Cut(text, tableBegin)
	if !ok {
		return "", fmt.Errorf("there is no line %s", tableBegin)
	}
	_, tail, ok := strings.Cut(rest, tableEnd)
	if !ok {
		return "", fmt.Errorf("there is no line %s after %s", tableEnd, tableBegin)
	}
	return head + tableBegin + "\n" + table + tableEnd + tail, nil
}

func writeInto(name string, all []lock.Variant) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err := splice(string(old), markdown(all))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if bytes.Equal(old, []byte(text)) {
		return nil
	}
	return os.WriteFile(name, []byte(text), 0o644)
}
