package lock

import "testing"

func TestKeyOf(t *testing.T) {
	for _, c := range []struct {
		kind string
		id   any
		want string
	}{
		{"good", 42, "good/42"},
		{"good", "42", "good/42"},
		{"good", uint64(1) << 63, "good/9223372036854775808"},
		{"a/b", "c", "a%2Fb/c"},
		{"a", "b/c", "a/b%2Fc"},
		{"good", "{7}", "good/%7B7%7D"}, // it names no slot of a cluster
		{"good", "50%", "good/50%25"},
		{"", "", "/"},
	} {
		if got := KeyOf(c.kind, c.id); got != c.want {
			t.Errorf("%q %v: %q, want %q", c.kind, c.id, got, c.want)
		}
	}
}
