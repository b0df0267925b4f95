package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"

	yaml "go.yaml.in/yaml/v4"
)

// readText reads a file that says what to do; what names its kind.
func readText(what, name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, misuse("%s: %w", what, err)
	}
	return text, nil
}

// scenario returns g with its flags set from YAML: a mapping from the names of
// flags to a value or a list of values, each as it would stand behind the flag.
// A list of such mappings gives a grid each, to be measured one after the other.
// Flags that were given on the command line keep their values, but what the
// scenario says of them is checked too. Errors begin with "name:line:".
func (g grid) scenario(name string, text []byte, given map[string]bool) ([]grid, error) {
	parts, err := mappings(name, text, "a scenario is a list of settings such as owners: [1, 8], or a list of such lists")
	if err != nil {
		return nil, err
	}
	var list []grid
	for _, part := range parts {
		one := g
		if err := one.settings(name, part, given); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// mappings are the mappings of a YAML file that has one or a list of them, at least one.
// Want says what the file has to be.
func mappings(name string, text []byte, want string) ([]*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Load(text, &doc); err != nil {
		return nil, badYAML(name, err)
	}
	parts := doc.Content
	if len(parts) == 1 && parts[0].Kind == yaml.SequenceNode {
		parts = parts[0].Content
	}
	for _, part := range parts {
		if part.Kind != yaml.MappingNode {
			return nil, misuse("%s:%d: %s", name, part.Line, want)
		}
	}
	if len(parts) == 0 {
		return nil, misuse("%s:1: %s", name, want)
	}
	return parts, nil
}

// settings sets the flags of g that the mapping part names.
func (g *grid) settings(name string, part *yaml.Node, given map[string]bool) error {
	into := flag.NewFlagSet("", flag.ContinueOnError)
	g.flags(into)
	aside := flag.NewFlagSet("", flag.ContinueOnError)
	new(grid).flags(aside)
	return settle(name, part, into, aside, given, "the settings are the flags of lockbench run -h that choose what to measure")
}

// settle sets the flags of into that the mapping part names, and of aside those that were
// given, so that they are checked too. There says where the settings are explained.
func settle(name string, part *yaml.Node, into, aside *flag.FlagSet, given map[string]bool, there string) error {
	bad := func(n *yaml.Node, format string, args ...any) error {
		return misuse("%s:%d: %w", name, n.Line, fmt.Errorf(format, args...))
	}
	seen := make(map[string]bool)
	pairs := part.Content
	for i := 0; i+1 < len(pairs); i += 2 {
		key, value := pairs[i], pairs[i+1]
		switch {
		case into.Lookup(key.Value) == nil:
			return bad(key, "there is no setting %q; %s", key.Value, there)
		case seen[key.Value]:
			return bad(key, "%s is set twice", key.Value)
		}
		seen[key.Value] = true
		target := into
		if given[key.Value] {
			target = aside
		}
		values := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			values = value.Content
		}
		if len(values) == 0 {
			return bad(value, "%s has no value", key.Value)
		}
		if v, ok := into.Lookup(key.Value).Value.(interface{ many() bool }); (!ok || !v.many()) && len(values) > 1 {
			return bad(value, "%s takes one value, not a list", key.Value)
		}
		for _, v := range values {
			if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
				return bad(v, "%s: want a value or a list of values", key.Value)
			}
			if err := target.Set(key.Value, v.Value); err != nil {
				return bad(v, "%s: %q: %w", key.Value, v.Value, err)
			}
		}
	}
	return nil
}

// badYAML says where the text stops being YAML.
func badYAML(name string, err error) error {
	var at *yaml.LoadError
	if !errors.As(err, &at) {
		return misuse("%s: %w", name, err)
	}
	// The construct that was begun and not ended says more than the place where
	// that was noticed.
	line := at.ContextMark.Line
	if line == 0 {
		line = max(at.Mark.Line, 1)
	}
	return misuse("%s:%d: not YAML: %s", name, line, at.Message)
}
