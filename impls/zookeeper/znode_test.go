package zookeeper

import (
	"strings"
	"testing"
)

func TestZnode(t *testing.T) {
	seen := map[string]string{}
	for key, want := range map[string]string{
		"orders": "orders", "orders/42": "orders%2F42", "": "%", "%": "%25", "%25": "%2525", "%-": "%25-", ".": "%2E", "..": "%2E%2E",
		"...": "...", "../a": "..%2Fa", "two words": "two words", "zookeeper": "%7Aookeeper", "Zookeeper": "Zookeeper",
		"nul\x00": "nul%00", "é": "%C3%A9", "\xff": "%FF", "\x7f": "%7F", "lb:{a}:k": "lb:{a}:k",
	} {
		got := Znode(key)
		if got != want {
			t.Errorf("Znode(%q) is %q, want %q", key, got, want)
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q are both %q", key, other, got)
		}
		seen[got] = key
		if got == noZnode {
			t.Errorf("Znode(%q) is the name of none", key)
		}
		if strings.ContainsAny(got, "/\x00") {
			t.Errorf("Znode(%q) is no name of a node: %q", key, got)
		}
	}
}
