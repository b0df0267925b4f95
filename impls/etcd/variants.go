// Package etcd holds the locks on etcd, the key-value store whose members agree by
// Raft: what one of them has granted, a majority of them knows.
package etcd

import "github.com/lockbench/lockbench/impls/lock"

// Variants lists the locks on etcd.
func Variants() []lock.Variant {
	return []lock.Variant{mutex()}
}
