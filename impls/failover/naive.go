package failover

import "github.com/lockbench/lockbench/impls/lock"

// naive switches engines as each process sees fit, and tells nobody.
//
//	state    that of the active engine; which one is active, each process only remembers
//	cost     that of the active engine
//	safe     as the engines, until the first switch
//	breaks   whenever an engine fails or is switched: who holds a key on the old engine goes
//	         on beside the one who gets it on the new engine, to the end of the lease, and
//	         for ever between processes that see the health of an engine differently; the
//	         tokens are those of the engines, so that a new grant may have a smaller one
//	source   the usual facade over two lock services, as in application code
//
// It is here to show what that costs.
func naive(client string, h Health, engines []Engine) lock.Variant {
	v := lock.Variant{
		Algo: "failover-naive", Client: client,
		Doc: "Several engines behind one lock; each process falls back by itself and tells nobody. " +
			"Two owners hold a key whenever two processes are on different engines. " +
			"It shows what a switch without a fence costs.",
		Source: "the usual facade over two lock services in application code",
	}
	compose(&v, alone, h, Authority{}, engines)
	return v
}
