package redis

import (
	"testing"

	"github.com/lockbench/lockbench/impls/redis/wire"
)

// What a lock keeps beside a key is in the slot of the key, but for the keys that
// fenceKey names; Redisson's channel has the name that Redisson gives it.
func TestBesideSlot(t *testing.T) {
	for _, key := range []string{"k", "{k}", "a{b}c", "a{b}{c}", "{{b}}", "a{b", "lb:{run}:0"} {
		names := []string{fenceKey(key), signalKey(key)}
		if key != "a{b" {
			names = append(names, channelOf(key))
		}
		for _, name := range names {
			if wire.Slot(name) != wire.Slot(key) {
				t.Errorf("%q is in slot %d, its key %q in %d", name, wire.Slot(name), key, wire.Slot(key))
			}
		}
	}
}
