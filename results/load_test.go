package results

import "testing"

func TestReadingOwners(t *testing.T) {
	for _, c := range []struct {
		owners int
		shared float64
		want   int
	}{
		{32, 0.95, 30}, {20, 0.95, 19}, {32, 0.5, 16},
		{2, 0.99, 1}, {2, 0.01, 1}, {32, 0.999, 31}, {32, 0.001, 1},
		{1, 0.4, 0}, {1, 0.6, 1}, {8, 0, 0}, {8, 1, 8}, {0, 1, 1},
	} {
		l := Load{Owners: c.owners, Shared: c.shared}
		n := 0
		for i := range max(c.owners, 1) {
			if l.Reads(i) {
				n++
			}
		}
		if got := l.ReadingOwners(); got != c.want || n != got {
			t.Errorf("%d owners, share %v: %d read and %d are said to, want %d", c.owners, c.shared, n, got, c.want)
		}
	}
}

// The writers are spread over the clients, to which owners go by turns.
func TestWritersAreSpread(t *testing.T) {
	l := Load{Owners: 32, Shared: 0.75}
	writers := make([]int, 4)
	for i := range l.Owners {
		if !l.Reads(i) {
			writers[i%len(writers)]++
		}
	}
	for i, n := range writers {
		if n != 2 {
			t.Errorf("client %d has %d writers, want 2", i, n)
		}
	}
}
