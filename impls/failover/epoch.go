package failover

import "github.com/lockbench/lockbench/impls/lock"

// epoch switches engines for all processes at once and grants on the new one
// immediately: the tokens of the new epoch are larger than all of the old ones.
//
//	state    as failover-drain, never draining
//	cost     as failover-drain, but a switch stops nothing
//	safe     with a resource that refuses older tokens, through any number of switches, as
//	         long as the authority keeps its record and each engine its numbers within an epoch
//	breaks   without such a resource at each switch: the holder on the old engine goes on
//	         until it learns of the new epoch, which takes an eighth of a ttl or a second,
//	         or as long as it is cut off
//	source   epochs as in ZooKeeper's zxid (epoch and counter in one number; Hunt, Konar,
//	         Junqueira, Reed, USENIX ATC 2010) and M. Kleppmann's fencing tokens, 2016
//
// A token is the epoch in the upper 20 bits and the engine's own token in the lower
// 44. While the authority is down, the engine that was active last is used on, and
// nothing is switched; a process that missed a switch so gets tokens that are refused.
func epoch(client string, h Health, a Authority, engines []Engine) lock.Variant {
	v := lock.Variant{
		Algo: "failover-epoch", Client: client,
		Doc: "Several engines behind one lock; a switch makes the tokens larger than all before. " +
			"A resource that remembers the largest token refuses the holders on the old engine, which overlap with the new ones. " +
			"While the authority is down nothing is switched.",
		Source: "ours: zxid's epoch and counter (Hunt and others, USENIX ATC 2010) as a fencing token (M. Kleppmann, 2016)",
	}
	compose(&v, fenced, h, a, engines)
	return v
}

const (
	sequenceBits = 44
	maxSequence  = 1<<sequenceBits - 1
	maxEpoch     = 1<<(64-sequenceBits) - 1
)
