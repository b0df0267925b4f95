package nats

import (
	"fmt"
	"strings"
)

// longest is the longest name of a key: NATS hangs up on a line of more than 4096 bytes,
// in which the name of the bucket and others may stand, too.
const longest = 3000

// escape writes each byte of text that is neither a letter, a digit nor a dash as _ and two
// hexadecimal digits, so that it is a part of a subject. The empty text is a lone _.
func escape(text string) string {
	if text == "" {
		return "_"
	}
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02X", c)
		}
	}
	return b.String()
}

// bucketOf is the name of the bucket of a group; see lock.Config.Group.
func bucketOf(group string) string {
	if group == "" {
		return "lockbench"
	}
	return "lockbench_" + escape(group)
}

// checked says why no key of NATS can have the name key, or returns nil.
func checked(key string) error {
	if n := len(escape(key)); n > longest {
		return fmt.Errorf("nats: the key has %d bytes as NATS writes it, and must not have more than %d", n, longest)
	}
	return nil
}
