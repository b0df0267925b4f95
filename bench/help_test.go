package bench

import (
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Every page of help fits a terminal and tells each flag once, and its default once.
func TestHelpFits(t *testing.T) {
	pages := map[string]string{"help": call(t, "help").stdout}
	for _, c := range commands("") {
		page := call(t, c.name, "-h").stdout
		pages[c.name] = page
		fs := flag.NewFlagSet("lockbench "+c.name, flag.ContinueOnError)
		c.setup(fs)
		fs.VisitAll(func(f *flag.Flag) {
			head := regexp.MustCompile(`(?m)^  (-[\w-]+, )*-` + regexp.QuoteMeta(f.Name) + `(,|  |$| [\w-]+(  |$))`)
			if n := len(head.FindAllString(page, -1)); n != 1 {
				t.Errorf("%s -h tells %d times of -%s", c.name, n, f.Name)
			}
			if value, text := explained(fs, f.Name); strings.Count(text, "(default ") > 1 || strings.Contains(value, " ") {
				t.Errorf("%s -%s: %q: %q", c.name, f.Name, value, text)
			}
		})
		for _, s := range c.sections {
			for _, name := range s.flags {
				if fs.Lookup(name) == nil {
					t.Errorf("%s: the section %q lists -%s, which there is not", c.name, s.title, name)
				}
			}
		}
	}
	for name, page := range pages {
		for line := range strings.Lines(page) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
}

func TestHelpBeginsWithExamples(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"run", "-h"}} {
		page := call(t, args...).stdout
		head, rest, _ := strings.Cut(page, "\nexamples:\n")
		if strings.Count(head, "\n") > 3 || strings.Count(rest, "  lockbench ") < 3 {
			t.Errorf("%q begins with\n%s", args, page)
		}
	}
}

// No flag of run or lock is left without a section.
func TestHelpInSections(t *testing.T) {
	for _, c := range []struct {
		command command
		titles  []string
	}{
		{runCommand(""), []string{"flags that most runs need", "load", "objective", "lock", "servers", "plan", "output"}},
		{lockCommand(), []string{"flags that most calls need", "servers", "lock"}},
	} {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		c.command.setup(fs)
		var titles []string
		for _, s := range c.command.shown(fs) {
			titles = append(titles, s.title)
		}
		if !slices.Equal(titles, c.titles) {
			t.Errorf("%s has the sections %q, want %q", c.command.name, titles, c.titles)
		}
	}
}

// The examples of help are calls that the command understands.
func TestExamplesAreUnderstood(t *testing.T) {
	list := examples()
	for _, c := range commands("") {
		list = append(list, c.examples...)
	}
	for _, e := range list {
		words := strings.Fields(strings.ReplaceAll(e.call, "'", "")) // quoted for a shell
		i := slices.IndexFunc(commands(""), func(c command) bool { return c.name == words[1] })
		if i < 0 {
			t.Errorf("%s: there is no such command", e.call)
			continue
		}
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		commands("")[i].setup(fs)
		if err := fs.Parse(words[2:]); err != nil {
			t.Errorf("%s: %v", e.call, err)
		}
	}
}

func TestWrap(t *testing.T) {
	got := strings.Join(wrap("one two  three éééé longerthanthat x", 9), "|")
	if want := "one two|three|éééé|longerthanthat|x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMisspelt(t *testing.T) {
	for _, c := range []struct{ call, want string }{
		{"run -owner 3", "lockbench run: there is no flag -owner; did you mean -owners?"},
		{"run -hodl=1ms", "lockbench run: there is no flag -hodl; did you mean -hold?"},
		{"lock -kye k", "lockbench lock: there is no flag -kye; did you mean -key?"},
		{"run -nosuch", "lockbench run: there is no flag -nosuch; lockbench run -h lists them"},
		{"rnu", `lockbench: there is no command "rnu"; did you mean run?`},
		{"nosuch", `lockbench: there is no command "nosuch"; lockbench help lists them`},
		{"help nosuch", `lockbench: there is no command "nosuch"; lockbench help lists them`},
	} {
		o := call(t, strings.Fields(c.call)...)
		if o.status != exitMisuse || o.stderr != c.want+"\n" || o.stdout != "" {
			t.Errorf("%s: %+v, want %s", c.call, o, c.want)
		}
	}
}
