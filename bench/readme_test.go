package bench

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
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
	for _, call := range regexp.MustCompile("(?m)^lockbench [^#\n]+").FindAllString(text, -1) {
		words := strings.Fields(call)
		fs := flag.NewFlagSet(words[1], flag.ContinueOnError)
		all[words[1]].setup(fs)
		if err := fs.Parse(words[2:]); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
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
