package sql

import (
	"context"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// notify is a lock that others poll for, with waiters that are woken by NOTIFY. They
// poll only while nothing can be heard.
//
//	state    the rows of the lock without it: the two exclude each other
//	channel  lockbench_insert, lockbench_version, lockbench_lease; a statement that frees
//	         a row tells the SHA-256 of its key there, in hex, as it commits
//	cost     as without it, but the first waiter of a process makes two attempts, and after
//	         each release the one that has waited longest makes one. sql-lease-notify asks
//	         how long the key is held where that is not known, 1 statement. One connection more for
//	         each process that has waited, on which it has sent LISTEN once. It pays where
//	         waiters share a process: of many processes all but one are woken in vain
//	safe     as without it: a message is only a hint
//	breaks   as without it; a pooler that hands sessions from client to client between
//	         transactions lets nothing be heard, and the waiters poll; all commits that tell
//	         something wait for each other in the server
//	source   PostgreSQL, NOTIFY
//
// Statements: as without it · left in sql-lease-notify, after an attempt that failed.
func notify(v lock.Variant) lock.Variant {
	v.Doc = "As " + v.Algo + ", but a release wakes the longest waiter of each process by NOTIFY. " +
		"A message that is lost costs time: a waiter asks again when the lease ends or, if it has no end, after Config.TTL."
	v.Source += "; PostgreSQL, NOTIFY"
	v.Algo += "-notify"
	v.Caps |= lock.Notify
	return v
}

// notifying is the dialect of PostgreSQL with statements that tell, as they commit,
// which row they have freed.
func notifying() *dialect {
	d := postgres()
	d.listen = listenPostgres
	tell := func(table string) string {
		return ` RETURNING pg_notify('` + channelOf(table) + `', encode(sha256(resource), 'hex'))`
	}
	d.free += tell("insert")
	d.swapBack += tell("version")
	d.leaseFree += tell("lease")
	d.leaseLeft = `SELECT ceil(extract(epoch FROM lock_until - clock_timestamp()) * 1000000)::bigint FROM lockbench.lease WHERE resource = $1`
	return d
}

func channelOf(table string) string { return "lockbench_" + table }

// woken is the Locker of the algorithms whose waiters are told when to ask again.
type woken struct {
	*polling
	ear *ear
}

func newWoken(p *polling, table string, ep lock.Endpoint) *woken {
	return &woken{p, newEar(p.c, func(ctx context.Context, heard func(string)) (listening, error) {
		return p.d.listen(ctx, ep, p.c, channelOf(table), heard)
	})}
}

// Close ends the waits before what they are woken by.
func (w *woken) Close() error {
	err := w.polling.Close()
	w.ear.close()
	return err
}

// Acquire tries, begins to listen, tries again, and then sleeps until it is told of a
// release. Where others of this process wait, it goes behind them at once: a try of its
// own would overtake them or be in vain.
func (w *woken) Acquire(ctx context.Context, key string) (lease lock.Lease, err error) {
	ctx, cancel := w.untilClosed(ctx)
	defer cancel()
	owner := w.owner()
	var s *seat
	defer func() {
		if s != nil {
			w.ear.leave(s, err != nil)
		}
	}()
	if w.c.Retry.Limit == 0 {
		if s = w.ear.follow(key); s != nil {
			s.sleep(ctx, w.c.TTL)
		}
	}
	sleep := func(ctx context.Context, n int) error {
		if s == nil {
			var hears bool
			if s, hears = w.ear.join(key); hears {
				return nil // what was freed before is told to nobody
			}
		}
		s.told = false
		nap, err := w.nap(context.WithoutCancel(ctx), key, n, s.freed)
		if err == nil {
			s.sleep(ctx, nap)
		}
		return err
	}
	return lock.Wait{Config: w.c, Closed: w.closed, Sleep: sleep}.Acquire(ctx, func(ctx context.Context) (lock.Lease, error) {
		return w.take(ctx, key, owner)
	})
}

// nap is how long a waiter sleeps at most after its n-th attempt, counted from 0. Who
// was told that key was freed, and came late, knows that the holder's lease is new, and
// takes it for as long as its own would be.
func (w *woken) nap(ctx context.Context, key string, n int, freed bool) (time.Duration, error) {
	retry := w.c.Retry.Next(n)
	switch {
	case !w.ear.hears(), w.c.Retry.Limit > 0: // a limit is one of time, too
		return retry, nil
	case w.left == nil, freed:
		return w.c.TTL, nil
	}
	left, err := w.left(ctx, key)
	return max(left, 0), err // 0: freed or ended since the attempt
}
