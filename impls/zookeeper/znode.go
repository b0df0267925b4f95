package zookeeper

import (
	"fmt"
	"strings"
)

// noZnode is a name that Znode gives to no key. To delete the node of that name,
// which fails with "no node", changes nothing and is a write all the same: when
// its answer has come, the server that was asked has applied all that had been
// answered before, by whatever server of the ensemble. A sync does less: the leader
// answers it before it has applied what it has committed and told the others of.
const noZnode = "%-"

// Znode is the name of the node that stands for key among the children of one
// node of ZooKeeper. Two keys never have the same name. A key of letters, digits
// and other printable ASCII stands for itself; a slash, which would divide a path,
// a percent sign and every other byte are written as %XX. So are the names that
// ZooKeeper gives a meaning of its own. No result holds a % that two upper-case
// hexadecimal digits do not follow, except that of the empty key, which is "%".
func Znode(key string) string {
	switch key {
	case "":
		return "%"
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	case "zookeeper": // the server's own, below the root
		return "%7Aookeeper"
	}
	plain := func(b byte) bool { return b >= ' ' && b <= '~' && b != '/' && b != '%' }
	var out strings.Builder
	for i := range len(key) {
		if plain(key[i]) {
			out.WriteByte(key[i])
		} else {
			fmt.Fprintf(&out, "%%%02X", key[i])
		}
	}
	return out.String()
}

// Keys is the Keys of every variant that keeps a key in one node below the root, and
// all else below that.
func Keys(key string) []string { return []string{Znode(key)} }
