package bench

import (
	"flag"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/results"
)

// helpWidth is the longest line of a help text, in columns.
const helpWidth = 100

// An example is a call and what it is good for.
type example struct{ call, does string }

// A section is the flags that help shows under one title, in this order.
type section struct {
	title string
	flags []string
	about string // a line below the title, or ""
}

// examples are those of the whole command: from looking to a picture.
func examples() []example {
	return []example{
		{"lockbench list redis-token", "what one lock needs, can do, and what breaks it"},
		{"lockbench run -algo redis-token,redis-handoff -for 5s -out mine.jsonl", "measures two locks on a Redis that it starts"},
		{"lockbench plot -in mine.jsonl -out mine", "draws what was measured"},
	}
}

// usage prints what the command can do.
func usage(w io.Writer, all []command) {
	say(w, "lockbench measures distributed locks.\n")
	printExamples(w, examples())
	say(w, "\ncommands:\n")
	for _, c := range all {
		say(w, "  %-8s  %s\n", c.name, c.does)
	}
	say(w, "\nlockbench COMMAND -h explains one of them.\n")
}

// usage prints all about c: first examples, then words, then the flags by sections.
func (c command) usage(w io.Writer, fs *flag.FlagSet) {
	say(w, "usage: %s\n\n%s\n", strings.TrimSpace(fs.Name()+" "+c.args), c.does)
	printExamples(w, c.examples)
	if c.more != "" {
		say(w, "\n%s\n", strings.TrimSpace(c.more))
	}
	for _, s := range c.shown(fs) {
		printSection(w, fs, s)
	}
}

func printExamples(w io.Writer, list []example) {
	if len(list) == 0 {
		return
	}
	say(w, "\nexamples:\n")
	for _, e := range list {
		say(w, "  %s\n        %s\n", e.call, e.does)
	}
}

// shown are the sections of c. Flags that no section lists make the last one, in the
// order of their names.
func (c command) shown(fs *flag.FlagSet) []section {
	rest := section{title: "flags"}
	fs.VisitAll(func(f *flag.Flag) {
		if !slices.ContainsFunc(c.sections, func(s section) bool { return slices.Contains(s.flags, f.Name) }) {
			rest.flags = append(rest.flags, f.Name)
		}
	})
	list := slices.Clip(c.sections)
	if len(rest.flags) > 0 {
		list = append(list, rest)
	}
	return list
}

// printSection prints the flags of s. Neighbours that the same text explains share it.
func printSection(w io.Writer, fs *flag.FlagSet, s section) {
	say(w, "\n%s:\n", s.title)
	if s.about != "" {
		for _, line := range wrap(s.about, helpWidth-2) {
			say(w, "  %s\n", line)
		}
	}
	for i := 0; i < len(s.flags); {
		value, text := explained(fs, s.flags[i])
		var names []string
		for ; i < len(s.flags); i++ {
			if v, t := explained(fs, s.flags[i]); v != value || t != text {
				break
			}
			names = append(names, "-"+s.flags[i])
		}
		printFlag(w, strings.TrimSpace(strings.Join(names, ", ")+" "+value), text)
	}
}

// explained is the word for the value of a flag, "" if it takes none, and what help says
// of the flag.
func explained(fs *flag.FlagSet, name string) (value, text string) {
	f := fs.Lookup(name)
	value, text = flag.UnquoteUsage(f)
	// A text that tells the default itself knows more of it.
	if !strings.Contains(text, "(default ") && !slices.Contains([]string{"", "false", "0s", "0"}, f.DefValue) {
		text += " (default " + f.DefValue + ")"
	}
	return value, text
}

// printFlag prints what stands for a flag beside its text, or above it if it is long.
func printFlag(w io.Writer, head, text string) {
	const column = 26 // where the text begins
	indent := strings.Repeat(" ", column)
	lines := wrap(text, helpWidth-column)
	if first := "  " + head; utf8.RuneCountInString(first) <= column-2 {
		say(w, "%-*s%s\n", column, first, lines[0])
		lines = lines[1:]
	} else {
		for _, line := range wrap(head, helpWidth-2) {
			say(w, "  %s\n", line)
		}
	}
	for _, line := range lines {
		say(w, "%s%s\n", indent, line)
	}
}

// wrap breaks text between words into lines of at most width columns. A longer word has
// a line of its own.
func wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// runSections are the sections of run. A dimension stands where it belongs by what holds
// it, and so needs no entry here.
func runSections() []section {
	first := section{title: "flags that most runs need", flags: []string{"algo", "owners", "hold", "for", "repeat", "out"}}
	load := section{title: "load"}
	locks := section{title: "lock", flags: []string{"client"}}
	servers := serverSection()
	for _, d := range results.Dimensions() {
		switch {
		case d.Help == "" || slices.Contains(first.flags, d.Name):
		case d.OfLoad():
			load.flags = append(load.flags, d.Name)
		case d.OfConfig():
			locks.flags = append(locks.flags, d.Name)
		default:
			servers.flags = append(servers.flags, d.Name)
		}
	}
	load.flags = append(load.flags, "fault")
	return []section{
		first, load,
		{title: "objective", flags: []string{"slo", "search"}},
		locks, servers,
		{title: "plan", flags: []string{"profile", "scenario", "print", "grow", "yardstick", "seed"}},
		{title: "output", flags: []string{"format", "metrics", "trace", "prometheus"}},
	}
}

// serverSection is the flags of sources.
func serverSection() section {
	return section{
		title: "servers",
		flags: append([]string{"server"}, append(serverFlags("", "-topology", "-image"), "nats-sync")...),
		about: "What a lock needs is started here, unless a URL names one that runs, or several independent ones by commas. " +
			"$LOCKBENCH_KIND_URL, $LOCKBENCH_KIND_TOPOLOGY and $LOCKBENCH_KIND_IMAGE stand for the flags, such as $LOCKBENCH_REDIS_URL.",
	}
}

// serverFlags are the names of the flags of every kind of server, by what follows the
// kind in them.
func serverFlags(endings ...string) (names []string) {
	for _, ending := range endings {
		for _, k := range server.Kinds() {
			if ending != "-topology" || len(k.Topologies) > 0 {
				names = append(names, k.Name+ending)
			}
		}
	}
	return names
}
