package zookeeper

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A style is how the nodes of a lock are called: PREFIX GUID MIDDLE SEQUENCE, of
// which the server adds the last. The GUID lets a client whose answer was lost
// find its node (the "protection" of Curator).
type style struct {
	prefix, middle string
	dashes         bool // in the GUID
}

// The names of other libraries, so that they and we stand in one queue.
func kazooLock() style    { return style{"", "__lock__", false} }
func curatorLock() style  { return style{"_c_", "-lock-", true} }
func curatorLease() style { return style{"_c_", "-lease-", true} }
func curatorRead() style  { return style{"_c_", "-__READ__", true} }
func curatorWrite() style { return style{"_c_", "-__WRIT__", true} }
func condWait() style     { return style{"_c_", "-wait-", true} }

// fresh is a name without its sequence number, which nobody else has.
func (s style) fresh() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	guid := hex.EncodeToString(b[:])
	if s.dashes {
		guid = fmt.Sprintf("%s-%s-%s-%s-%s", guid[:8], guid[8:12], guid[12:16], guid[16:20], guid[20:])
	}
	return s.prefix + guid + s.middle
}

// A contender is a node in a queue.
type contender struct {
	name   string
	seq    int32
	shared bool // a reader
	joined bool // a reader may appear in its place, while it is there
}

// contenderIn reads the name of a node. It knows the names of Curator (lock-,
// lease-, __READ__, __WRIT__), of kazoo (__lock__, __rlock__) and of go-zookeeper (lock-);
// whatever else lies there does not queue.
func contenderIn(name string) (contender, bool) {
	for _, m := range []string{"lock-", "__lock__", "__rlock__", "__READ__", "__WRIT__", "lease-", "wait-"} {
		i := strings.LastIndex(name, m)
		if i < 0 {
			continue
		}
		// The counter of the parent is a signed 32-bit number, which goes on below
		// zero.
		n, err := strconv.ParseInt(name[i+len(m):], 10, 32)
		if err != nil {
			continue
		}
		return contender{name, int32(n), m == "__rlock__" || m == "__READ__", m == "__READ__" || m == "__WRIT__"}, true
	}
	return contender{}, false
}

// inOrder lists those of names that queue, the first first. Numbers are compared
// by their distance, which holds where the counter has gone past its largest.
func inOrder(names []string) []contender {
	list := make([]contender, 0, len(names))
	for _, name := range names {
		if c, ok := contenderIn(name); ok {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b contender) int {
		return cmp.Or(cmp.Compare(a.seq-b.seq, 0), cmp.Compare(a.name, b.name))
	})
	return list
}

// before finds whom c waits for: the nearest in list that it cannot share the key
// with. It is -1 if there is nobody. Sure says that c has the key once that one has
// gone, because there is nobody else and nobody can come; there says whether c is in
// the list at all.
//
// A writer of ours and of Curator, since 5.5.0, becomes a reader by making a node of a
// reader with its own number, before it removes its own (CURATOR-621).
func before(list []contender, name string, shared bool) (at int, sure, there bool) {
	i := slices.IndexFunc(list, func(c contender) bool { return c.name == name })
	if i < 0 {
		return -1, false, false
	}
	at, others := -1, 0
	for j := i - 1; j >= 0; j-- {
		if shared && list[j].shared {
			continue
		}
		if at < 0 {
			at = j
		}
		others++
	}
	return at, others == 1 && (shared || !list[at].joined), true
}
