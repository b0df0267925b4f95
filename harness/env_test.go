package harness

import (
	"testing"
	"time"
)

// Probes are shared for a moment, and never by trials that are bound to other CPUs.
func TestProbesAreShared(t *testing.T) {
	var m prober
	for _, c := range []struct {
		name, pin string
		age       time.Duration // that the last probes pretend
		again     bool
	}{
		{name: "the first", pin: PinNone, again: true},
		{name: "at once", pin: PinNone, age: -time.Hour}, // however slow this machine is
		{name: "bound otherwise", pin: PinTogether, age: -time.Hour, again: true},
		{name: "as before", pin: PinTogether, age: -time.Hour},
		{name: "old", pin: PinTogether, age: fresh, again: true},
	} {
		if !m.at.IsZero() {
			m.at = time.Now().Add(-c.age)
		}
		before := m.at
		p := m.probe(c.pin)
		if again := !m.at.Equal(before); again != c.again {
			t.Errorf("%s: probed again: %v, want %v", c.name, again, c.again)
		}
		if p.overshoot <= 0 || p.resolution <= 0 || p.wakeup <= 0 {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}
