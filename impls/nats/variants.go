// Package nats holds the locks on NATS JetStream, whose key-value buckets are streams:
// each write has a number, its revision, and a stream of several servers is replicated by
// Raft.
package nats

import "github.com/lockbench/lockbench/impls/lock"

// Variants lists the locks on NATS.
func Variants() []lock.Variant {
	return []lock.Variant{kv()}
}
