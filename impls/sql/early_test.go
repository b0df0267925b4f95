package sql_test

import (
	"testing"

	locks "github.com/lockbench/lockbench/impls/sql"
)

// Settings that go with the first packet hold from then on, and a server that does not know
// one of them opens a session all the same, without any.
func TestEarlySettings(t *testing.T) {
	s := serve(t, "postgresql")
	for _, c := range []struct {
		settings map[string]string
		want     string
	}{
		{map[string]string{"statement_timeout": "1234"}, "1234ms"},
		{map[string]string{"statement_timeout": "1234", "no_such_setting": "0"}, "0"},
		{nil, "0"},
	} {
		got, err := locks.EarlyStatementTimeouts(t.Context(), s.Deployment.Nodes[0], c.settings)
		if err != nil {
			t.Errorf("with %v: %v", c.settings, err)
		}
		for _, g := range got {
			if g != c.want {
				t.Errorf("with %v: statement_timeout is %q in three sessions, want %s", c.settings, got, c.want)
				break
			}
		}
	}
}
