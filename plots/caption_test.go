package plots

import "testing"

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
