package plots

import (
	"slices"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// The caption says of a client what its lines show.
func TestClientsNote(t *testing.T) {
	for _, tc := range []struct {
		clients []string
		want    string
	}{
		{[]string{"", "mysql"}, ""},
		{[]string{"pgx", "mysql"}, "Solid lines: mysql; dashed lines and markers with a white centre: pgx."},
		{[]string{"pgx", "goredis", "", "mysql"}, "Solid lines: goredis, mysql; dashed lines and markers with a white centre: pgx."},
		{[]string{"goredis", "mysql"}, "Solid lines: goredis, mysql."},
		{[]string{"redigo", "rueidis"}, "Dashes tell the clients apart: redigo, rueidis."},
	} {
		var list []series
		for _, c := range tc.clients {
			list = append(list, series{client: c})
		}
		if got := clientsNote(list); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.clients, got, tc.want)
		}
	}
}

// Which clients have a white centre is the same in every caption.
func TestWhiteCentres(t *testing.T) {
	list := []series{{client: "pgx"}, {client: "mysql"}, {}, {client: "goredis"}, {client: "redigo"}}
	plain, dotted := looks(list)
	if !slices.Equal(plain, []string{"goredis", "mysql"}) || len(dotted) != 2 || !slices.Contains(dotted, "pgx") || !slices.Contains(dotted, "redigo") {
		t.Errorf("plain %q, white centre %q", plain, dotted)
	}
}

// Runs of one picture may have had windows of several lengths.
func TestWindows(t *testing.T) {
	group := func(window time.Duration) *results.Group { return &results.Group{Load: results.Load{For: window}} }
	for want, groups := range map[string][]*results.Group{
		"1" + space + "s":                      {group(1e9), group(1e9)},
		"12" + space + "s to 40" + space + "s": {group(12e9), group(40e9), group(20e9)},
	} {
		if got := windows(groups); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
