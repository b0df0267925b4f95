package harness

import (
	"testing"
	"time"
)

// Probes are shared for a moment.
func TestProbesAreShared(t *testing.T) {
	var m prober
	for _, c := range []struct {
		name  string
		age   time.Duration // that the last probes pretend
		again bool
	}{
		{name: "the first", again: true},
		{name: "at once", age: -time.Hour}, // however slow this machine is
		{name: "old", age: fresh, again: true},
	} {
		if !m.at.IsZero() {
			m.at = time.Now().Add(-c.age)
		}
		before := m.at
		p := m.probe()
		if again := !m.at.Equal(before); again != c.again {
			t.Errorf("%s: probed again: %v, want %v", c.name, again, c.again)
		}
		if p.overshoot <= 0 || p.resolution <= 0 || p.wakeup <= 0 {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}
