package wire

import "testing"

func TestSlotOf(t *testing.T) {
	// The first is the check value of the specification, 0x31C3; the others are
	// what CLUSTER KEYSLOT of Redis 7.0 answers.
	for name, want := range map[string]int{
		"123456789": 0x31C3, "": 0, "foo": 12182, "{foo}.bar": 12182, "a{foo}{bar}": 12182,
		"foo{}{bar}": 8363, "foo{{bar}}zap": 4015,
	} {
		if got := Slot(name); got != want {
			t.Errorf("slotOf(%q) = %d, want %d", name, got, want)
		}
	}
}

// Every slot has a tag, and a name that holds it belongs to that slot.
func TestTagFor(t *testing.T) {
	for _, slot := range []int{0, 1, 5460, 5461, 10922, 16383} {
		if got := Slot("lockbench:inbox:{" + SlotTag(slot) + "}:x"); got != slot {
			t.Errorf("the tag %s for slot %d belongs to %d", SlotTag(slot), slot, got)
		}
	}
}
