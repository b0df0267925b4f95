package failover

import "github.com/lockbench/lockbench/impls/lock"

// drain switches engines for all processes at once, and grants nothing on the new
// one before the last lease of the old one has ended.
//
//	state    that of the engines; at the authority one record: epoch, whether its engine
//	         is open or draining, for how long, the longest lease, the engine's name
//	cost     that of the active engine; beside it 1 command to the authority for each
//	         process and eighth of a ttl (at most a second); a switch stops all grants
//	         for 1.25 of the longest ttl
//	safe     as the engines, through any number of switches, as long as the authority
//	         keeps its record and the clocks of the processes run alike within 1 %
//	breaks   as the engines; an authority that restarts empty and whose clients are all
//	         new starts again with the first engine, at once, and with small tokens
//	source   lease draining as in Chubby (M. Burrows, OSDI 2006): a new master waits out
//	         the leases of the old one
//
// Why it excludes. A process takes part while it can read the record. A lease ends,
// by the holder's own clock, 1.25 ttl after the holder last began a reading that
// showed its epoch, or when its engine says so, whichever is first; Deadline and
// Lost say so. Whoever changes the epoch does it by one compare-and-set, after which
// no reading shows the old one. A process that learns of the new epoch, which is
// later still, waits until the longest lease that any process has entered in the
// record must have ended, and only then opens the new engine by another
// compare-and-set. No wall clock is compared with another.
//
// So a process that is cut off from the authority loses its leases and is granted
// nothing: it cannot know whether the others have gone on without it. The price of
// draining is that lock and authority have to be up; an authority that is a quorum
// by itself is the cure.
func drain(client string, h Health, a Authority, engines []Engine) lock.Variant {
	v := lock.Variant{
		Algo: "failover-drain", Client: client,
		Doc: "Several engines behind one lock; a switch waits out every lease of the old one. " +
			"All processes follow one record in an authority. " +
			"While that is down nothing is switched, and after a lease nothing is held or granted.",
		Source: "ours: a drain of leases as in Chubby (M. Burrows, OSDI 2006), over an epoch by compare-and-set",
	}
	compose(&v, drained, h, a, engines)
	return v
}
