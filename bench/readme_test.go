package bench

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls"
)

// README.md names every command and profile, and what it has people type is understood.
func TestReadmeOfTheCommand(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	all := make(map[string]command)
	for _, c := range commands("") {
		all[c.name] = c
		if !strings.Contains(text, "| `lockbench "+c.name) {
			t.Errorf("it does not name the command %s", c.name)
		}
	}
	for _, name := range profileNames() {
		if !strings.Contains(text, "["+name+"]("+name+".yaml)") {
			t.Errorf("it does not name the profile %s", name)
		}
	}
	understood(t, all, text)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML, want a scenario and claims", len(blocks))
	}
	if _, err := defaultGrid().scenario("README.md", []byte(blocks[0][1]), nil); err != nil {
		t.Error(err)
	}
	if _, err := readClaims("README.md", []byte(blocks[1][1])); err != nil {
		t.Error(err)
	}
}

// understood sees that the commands in the blocks of text could be typed.
func understood(t *testing.T, all map[string]command, text string) {
	t.Helper()
	text = strings.NewReplacer("\\\n", " ", "'", "").Replace(text)
	calls := regexp.MustCompile("(?m)^lockbench [^#\n]+").FindAllString(text, -1)
	if len(calls) == 0 {
		t.Error("it shows no command")
	}
	for _, call := range calls {
		words := strings.Fields(call)
		fs := flag.NewFlagSet(words[1], flag.ContinueOnError)
		c, ok := all[words[1]]
		if !ok {
			t.Errorf("%s: there is no such command", call)
			continue
		}
		c.setup(fs)
		if err := fs.Parse(words[2:]); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// The front door is short, what it has people type is understood, and it names locks that
// there are.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if n := strings.Count(text, "\n"); n > 200 {
		t.Errorf("README.md has %d lines, want 200 at most", n)
	}
	all := make(map[string]command)
	for _, c := range commands("") {
		all[c.name] = c
	}
	understood(t, all, text)
	known := algosOf(impls.All())
	for _, m := range regexp.MustCompile("`((?:redis|sql|zk|etcd|nats|peer|local|failover)-[a-z-]+)`").FindAllStringSubmatch(text, -1) {
		if !slices.Contains(known, m[1]) {
			t.Errorf("there is no lock %s", m[1])
		}
	}
}

// What the pages of this module link to within it is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
