package bench

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/lockbench/lockbench/impls/lock"
)

// detail tells all about one lock: the variants of one algorithm, which differ in nothing
// but the client and what that needs.
func detail(w io.Writer, same []lock.Variant) error {
	v := same[0]
	var b strings.Builder
	b.WriteString(v.Algo + "\n")
	for _, line := range wrap(v.Doc, helpWidth-2) {
		b.WriteString("  " + line + "\n")
	}
	b.WriteString("\n")
	const column = 17 // where what belongs to a title begins
	part := func(title string, lines ...string) {
		for _, text := range lines {
			for _, line := range wrap(text, helpWidth-column) {
				b.WriteString(padded("  "+title, column) + line + "\n")
				title = ""
			}
		}
	}
	traits := func(title string, list []trait, names []string) {
		second := column
		for _, name := range names {
			second = max(second, column+len(name)+2)
		}
		for _, line := range sayings(list, names) {
			name := line[0]
			for _, said := range wrap(line[1], helpWidth-second) {
				b.WriteString(padded(padded("  "+title, column)+name, second) + said + "\n")
				title, name = "", ""
			}
		}
	}
	if clients := clientsOf(same); len(clients) > 0 {
		part("clients", strings.Join(clients, ", "))
	}
	part("needs", needsOf(same))
	if len(v.Over) > 0 {
		over := []string{"a single server"}
		for _, t := range v.Over {
			over = append(over, string(t))
		}
		part("runs on", words(over, "or"))
	}
	traits("can", capabilities(), v.Caps.List())
	traits("breaks", hazards(), v.Unsafe.List())
	if v.Grants != nil {
		part("access rules", strings.Join(v.Grants("PREFIX"), " ")+", for the keys that begin with PREFIX, beside the commands")
	}
	if text := freed(v); text != "" {
		part("holder dies", text)
	}
	traits("does not pass", exemptions(), v.Exempt)
	part("source", v.Source)
	part("try it", trials(v)...)
	_, err := io.WriteString(w, b.String())
	return err
}

// padded is text with at least one space behind it, and as many as make it width columns
// wide.
func padded(text string, width int) string {
	return text + strings.Repeat(" ", max(1, width-utf8.RuneCountInString(text)))
}

// trials are calls that try v out.
func trials(v lock.Variant) []string {
	calls := []string{"lockbench run -algo " + v.Algo + " -out " + v.Algo + ".jsonl"}
	switch {
	case v.Caps.Has(lock.Shared):
		calls = append(calls, "lockbench run -algo "+v.Algo+" -shared 0.9")
	case v.Caps.Has(lock.Multi):
		calls = append(calls, "lockbench run -algo "+v.Algo+" -keys 8 -together 2")
	}
	if v.Needs.Kind != "" && v.Needs.Nodes <= 1 {
		calls = append(calls, "lockbench lock -algo "+v.Algo+" -"+v.Needs.Kind+" URL -key KEY -- COMMAND")
	}
	return calls
}
