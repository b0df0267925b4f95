package wire

import (
	"slices"
	"strings"
	"testing"
)

// Whatever the keys, no two names are the same, and a name lies in the slot of its key
// and begins with it, where any name can.
func TestBeside(t *testing.T) {
	seen := make(map[string]string)
	for _, c := range []struct {
		key              string
		begins, sameSlot bool
	}{
		{"k", true, true}, {"k{k}", true, true}, {"{k}", true, true}, {"k{k}k", true, true}, {"k{k}:queue", true, true},
		{"k/queue", true, true}, {"k:queue", true, true}, {"{k}:queue", true, true}, {"{k}/queue", true, true},
		{"k{k}/queue", true, true}, {"a{b}c{d}", true, true}, {"a{{b}}", true, true}, {"a b", true, true},
		{"a{b", false, true}, {"{", true, true}, {"a{{b", false, true},
		{"", true, false}, {"}", false, false}, {"a}b", false, false}, {"a{}b", false, false}, {"{}", false, false},
	} {
		for _, what := range []string{"queue", "fence", "cond", "signal", "writers"} {
			name := Beside(c.key, what)
			if other, dup := seen[name]; dup {
				t.Errorf("%q and %q share the name %q", c.key, other, name)
			}
			seen[name] = c.key
			if got := strings.HasPrefix(name, c.key); got != c.begins {
				t.Errorf("Beside(%q, %q) = %q: begins with the key: %v", c.key, what, name, got)
			}
			if got := Slot(name) == Slot(c.key); got != c.sameSlot {
				t.Errorf("Beside(%q, %q) = %q: in the slot of the key: %v", c.key, what, name, got)
			}
		}
		if _, dup := seen[c.key]; dup && !strings.Contains(c.key, "queue") {
			t.Errorf("the key %q is the name of another's", c.key)
		}
	}
}

// The rules admit the names of a key, with braces or without, and take its text as it stands.
func TestRules(t *testing.T) {
	for prefix, want := range map[string][]string{
		"app:":   {"~app:*", "&ch:{app:*", "&ch:app:*"},
		"{app}:": {"~{app}:*", "&ch:{app}:*"},
		`a*?[\b`: {`~a\*\?\[\\b*`, `&ch:{a\*\?\[\\b*`, `&ch:a\*\?\[\\b*`},
		"":       {"~*", "&ch:{*", "&ch:*"},
	} {
		if got := append(OwnKeys(prefix), Named("&", "ch", prefix)...); !slices.Equal(got, want) {
			t.Errorf("rules of %q: %q, want %q", prefix, got, want)
		}
	}
}
