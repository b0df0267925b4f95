package zookeeper

import "github.com/lockbench/lockbench/impls/lock"

// sequential is ZooKeeper's own recipe: every owner makes a node with a number, and
// waits for the one before it.
//
//	state    /KEY (a container) → one ephemeral node GUID__lock__NUMBER for each owner
//	cost     acquire 1 write, 2 reads at once; a waiter 1 watch more, and 1 list unless the
//	         one before it is of the same client, or of this project and had the key;
//	         release 1 write (of two changes if its owner had to wait); a session 1 read
//	         each third of its time-out
//	safe     while the holder finishes before its session ends; with a resource that
//	         refuses smaller czxids always
//	breaks   holder pauses past the time-out of its session
//	source   Apache ZooKeeper, Recipes and Solutions, Locks; names as in kazoo's Lock
//
// Steps: create · list · release.
//
// Config.TTL is the time-out of the session that is asked for. The server keeps it
// between its own bounds, 2 and 20 ticks if nobody set others; the Deadline of a
// lease follows what it grants. The end of a session is rounded up to a tick.
func sequential() lock.Variant {
	return lock.Variant{
		Algo: "zk-sequential",
		Doc: "ZooKeeper's recipe: numbered ephemeral nodes, each waiter watches the one before it. " +
			"Excludes kazoo's Lock and is excluded by it.",
		Source: "Apache ZooKeeper, Recipes and Solutions, Locks; kazoo, Lock",
		Caps:   lock.Try | lock.Fencing | lock.Fair | lock.Notify | lock.Renew,
		Open:   over(func(s *session) lock.Locker { return &queuing{session: s, style: kazooLock()} }),
	}
}
