package wire

import (
	"strconv"
	"strings"
)

// clusterSlots is how many parts the keys of a cluster fall into.
const clusterSlots = 16384

// Slot is the part that name belongs to: the CRC16 (XMODEM) of its tag, as the
// Redis Cluster specification has it.
func Slot(name string) int {
	crc := uint16(0)
	for _, b := range []byte(tagOf(name)) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % clusterSlots
}

// tagOf is the part of name that is hashed: the text between the first "{" and
// the next "}" if there is any, else the whole.
func tagOf(name string) string {
	if _, rest, open := strings.Cut(name, "{"); open {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			return tag
		}
	}
	return name
}

// SlotTag is the smallest number whose digits belong to slot. It is the same
// everywhere; the search takes 16 384 steps in the mean, about a millisecond.
func SlotTag(slot int) string {
	for i := 0; ; i++ {
		if tag := strconv.Itoa(i); Slot(tag) == slot {
			return tag
		}
	}
}
