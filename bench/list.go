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

	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

func listCommand() command {
	return command{
		name: "list", args: "[-json | -md] [-into FILE]",
		does: "lists every lock variant: what it needs, can and does not survive",
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			asJSON := fs.Bool("json", false, "print a JSON array with one object for each algorithm and client")
			asMarkdown := fs.Bool("md", false, "print the table of README.md")
			into := fs.String("into", "", "write the table of -md between its markers in `FILE`")
			return func(_ context.Context, std stdio) error {
				if err := noArguments(fs); err != nil {
					return err
				}
				all := impls.All()
				switch {
				case *asJSON && (*asMarkdown || *into != ""):
					return misuse("-json and -md are two forms of one list: give one of them")
				case *into != "":
					return writeInto(*into, all)
				case *asMarkdown:
					_, err := io.WriteString(std.out, markdown(all))
					return err
				case *asJSON:
					return listJSON(std.out, all)
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
	Exempt []string     `json:"exempt,omitempty"`
	// Engines are those of a variant that can switch.
	Engines []string `json:"engines,omitempty"`
	Doc     string   `json:"doc"`
	Source  string   `json:"source"`
}

func listJSON(w io.Writer, all []lock.Variant) error {
	list := []entry{}
	for _, v := range all {
		list = append(list, entry{v.Algo, v.Client, v.Needs, v.Caps, v.Unsafe, v.Exempt, v.Engines, v.Doc, v.Source})
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

func listText(w io.Writer, all []lock.Variant) error {
	rows := [][]string{{"ALGO", "CLIENTS", "NEEDS", "SYNOPSIS", "FAILS"}}
	for _, same := range byAlgo(all) {
		v := same[0]
		rows = append(rows, []string{v.Algo, or(strings.Join(clientsOf(same), " "), "–"), needsOf(same), v.Synopsis(), strings.Join(v.Exempt, " ")})
	}
	return table(w, rows)
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// markdown is the generated table of README.md.
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
