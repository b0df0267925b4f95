package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

// tokenVariable is where the command finds its fencing token.
const tokenVariable = "LOCKBENCH_TOKEN"

// giveBack bounds the release, which must happen even after Ctrl-C.
const giveBack = 5 * time.Second

func lockCommand() command {
	return command{
		name: "lock", args: "-key K [flags] [--] CMD [ARG…]",
		does: "holds a key while a command runs, like flock(1) across machines",
		examples: []example{
			{"lockbench lock -redis redis://10.0.0.5:6379 -key deploy -- ./deploy.sh", "runs ./deploy.sh as soon as nobody else holds the key deploy"},
			{"lockbench lock -algo sql-advisory -postgresql postgres://me@10.0.0.6/app -key j -wait 5s -- ./job", "the same on PostgreSQL, and gives up after 5 s"},
		},
		sections: []section{
			{title: "flags that most calls need", flags: []string{"key", "algo", "wait", "shared", "ttl"}},
			{title: "servers", flags: serverFlags(""), about: "One is named by its flag or by $LOCKBENCH_KIND_URL, such as $LOCKBENCH_REDIS_URL; several independent ones by commas."},
			{title: "lock", flags: []string{"client", "renew", "retry", "retry-max", "timeout"}},
		},
		more: `
The key is used as it stands, so that other programs can take the same one. The
server has to be one that the others see, so none is ever started. CMD finds its
fencing token in LOCKBENCH_TOKEN if the algorithm has one (redis-fenced).

CMD has a process group of its own, which gets every signal and, where standard input
and output are a terminal, the terminal. Stopped and continued it is together with
lockbench. What it leaves in its group ends with it; a daemon in a session of its own
goes on without the lock. If lockbench is killed, so is the group.

If the lease ends while CMD runs, the group gets SIGTERM and, 5 s later, SIGKILL.
redis-watchdog renews its lease; with one that nobody renews, such as
redis-token, let -ttl exceed the longest time that CMD can take.

exit status:
  that of CMD, or 128 + N if signal N ended it
  1    the lock could not be had: no server, wrong password, no answer within -wait, …
  2    misuse
  75   the key is held by others, and -wait is over
  76   the lease was lost while CMD ran
  126  CMD could not be started
  127  CMD was not found`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			var l locking
			l.from.urlFlags(fs)
			fs.StringVar(&l.algo, "algo", "redis-watchdog", "`name` of the algorithm; all that use the key must agree on it")
			fs.StringVar(&l.client, "client", "", "`name` of the client library (default the first that has the algorithm and runs on the server)")
			fs.StringVar(&l.key, "key", "", "the `key` to hold")
			fs.Var(bounded[time.Duration]{&l.wait, span}, "wait", "longest `time` to wait for the key; 0 tries once (default for ever)")
			fs.BoolVar(&l.shared, "shared", false, "hold the key as a reader, together with other readers, as flock -s does")
			fs.Var(bounded[time.Duration]{&l.config.TTL, lasting}, "ttl", "`lifetime` of the lease if nobody renews it (default "+lock.DefaultTTL.String()+")")
			fs.Var(bounded[time.Duration]{&l.config.Renew, span}, "renew", "`time` between renewals (default a third of -ttl)")
			fs.Var(bounded[time.Duration]{&l.config.Retry.Delay, lasting}, "retry", "first `delay` of polling (default "+lock.DefaultRetryDelay.String()+")")
			fs.Var(bounded[time.Duration]{&l.config.Retry.Max, span}, "retry-max", "longest `delay` of polling (default "+lock.DefaultRetryMax.String()+")")
			fs.Var(bounded[time.Duration]{&l.config.Timeout, span}, "timeout", "`time` for one command to the server (default "+lock.DefaultTimeout.String()+")")
			return func(ctx context.Context, std stdio) error {
				if guards() {
					return guard(std)
				}
				l.command = fs.Args()
				fs.Visit(func(f *flag.Flag) { l.once = l.once || f.Name == "wait" && l.wait == 0 })
				return l.do(ctx, std)
			}
		},
	}
}

// A locking is one call of lock.
type locking struct {
	from         sources
	algo, client string
	key          string
	wait         time.Duration // 0 is for ever
	once         bool          // tries, and does not wait
	shared       bool          // holds the key as a reader
	config       lock.Config
	command      []string
}

func (l *locking) do(ctx context.Context, std stdio) error {
	v, d, err := l.resolve()
	if err != nil {
		return err
	}
	// Before the key is taken: nobody has to wait for a misspelt command.
	path, err := exec.LookPath(l.command[0])
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return exit{127, err}
	case err != nil:
		return exit{126, err}
	}
	// Signals are for the command once it runs, so its part needs to see which
	// one came; ctx only tells that one came.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, ends()...)
	defer signal.Stop(signals)
	ctx, stop := signal.NotifyContext(ctx, ends()...)
	defer stop()
	// While the server is asked, the guard gets ready.
	g, err := newProcessGroup()
	if err != nil {
		return err
	}
	defer g.close()

	locker, err := v.Open(ctx, d, l.config)
	if err != nil {
		if ctx.Err() != nil {
			return stopped(signals)
		}
		return err
	}
	defer func() { _ = locker.Close() }() // the lease has been given back by then
	if v.Unsafe.Has(lock.Eviction) {
		warnOfEviction(ctx, std.err, "lockbench lock", d.Nodes)
	}
	lease, err := l.acquire(ctx, locker)
	if err != nil {
		if ctx.Err() != nil {
			return stopped(signals)
		}
		return err
	}
	// The command ends by the signals that reach it, not with ctx.
	return l.hold(ctx, std, lease, exec.CommandContext(context.WithoutCancel(ctx), path, l.command[1:]...), g, signals)
}

// resolve finds the variant and the server, and says what is missing.
func (l *locking) resolve() (lock.Variant, lock.Deployment, error) {
	var v lock.Variant
	var d lock.Deployment
	all := impls.All()
	same := slices.DeleteFunc(slices.Clone(all), func(v lock.Variant) bool { return v.Algo != l.algo })
	fits := slices.DeleteFunc(slices.Clone(same), func(v lock.Variant) bool { return l.client != "" && v.Client != l.client })
	switch {
	case l.key == "":
		return v, d, misuse("-key is missing: name the key to hold")
	case len(l.command) == 0:
		return v, d, misuse("the command is missing: write it after --")
	case len(same) == 0:
		return v, d, misuse("there is no algorithm %q%s; see lockbench list", l.algo, near(l.algo, algosOf(all)))
	case len(clientsOf(same)) == 0 && len(fits) == 0:
		return v, d, misuse("%s has one client only, which has no name: leave -client away", l.algo)
	case len(fits) == 0:
		return v, d, misuse("%s has no client %q; there are %s", l.algo, l.client, words(clientsOf(same), "and"))
	case l.once && l.shared:
		return v, d, misuse("no lock can try once to read: give -wait a time above 0, or leave -shared away")
	case l.shared && !fits[0].Caps.Has(lock.Shared):
		return v, d, misuse("%s has no readers, so it cannot be -shared; there are %s", l.algo, words(able(all, lock.Shared), "and"))
	case l.once && !fits[0].Caps.Has(lock.Try):
		return v, d, misuse("%s cannot try once, it can only wait: give -wait a time above 0", l.algo)
	case fits[0].Needs.Kind == "":
		return v, d, misuse("%s lives in the memory of one process and excludes nobody else: take one that needs a server", fits[0].Name())
	}
	o, err := l.from.options()
	if err != nil {
		return v, d, err
	}
	if v, err = l.pick(fits, o); err != nil {
		return v, d, err
	}
	d = lock.Deployment{Kind: v.Needs.Kind, Nodes: o.URLs[v.Needs.Kind]}
	if need, have := max(v.Needs.Nodes, 1), len(d.Nodes); need == 1 && have > 1 { // how many others take, they say themselves
		return v, d, misuse("%s takes 1 server, %d are named", v.Name(), have)
	}
	if why := v.Unsuited(d.Nodes[0].Topology()); why != "" {
		return v, d, misuse("%s cannot run there: %s", v.Name(), why)
	}
	return v, d, nil
}

// pick is the first of fits that runs on a server that is named, by a flag before one by
// the environment. Two kinds of servers do not exclude each other's holders, so it takes
// no guess where each could be meant.
func (l *locking) pick(fits []lock.Variant, o server.Options) (v lock.Variant, err error) {
	if err := l.from.used(fits); err != nil {
		return v, err
	}
	byFlag := l.from.given()
	var kinds, clients, ways []string
	for _, f := range fits {
		kind := f.Needs.Kind
		if way := "-" + kind + " URL"; !slices.Contains(ways, way) {
			ways = append(ways, way, "LOCKBENCH_"+strings.ToUpper(kind)+"_URL")
		}
		if len(o.URLs[kind]) == 0 || len(byFlag) > 0 && !slices.Contains(byFlag, kind) || slices.Contains(kinds, kind) {
			continue
		}
		if len(kinds) == 0 {
			v = f
		}
		kinds, clients = append(kinds, kind), append(clients, "-client "+f.Client)
	}
	switch len(kinds) {
	case 0:
		return v, misuse("no server named: a lock needs one that the others see too, by %s", words(ways, "or"))
	case 1:
		return v, nil
	}
	return v, misuse("servers of %s are named, which do not exclude each other's holders: name one, or say %s", words(kinds, "and"), words(clients, "or"))
}

// able are the algorithms on servers that can do what is asked.
func able(all []lock.Variant, what lock.Caps) []string {
	return algosOf(slices.DeleteFunc(slices.Clone(all), func(v lock.Variant) bool {
		return v.Needs.Kind == "" || !v.Caps.Has(what)
	}))
}

func (l *locking) acquire(ctx context.Context, locker lock.Locker) (lock.Lease, error) {
	tryer, _ := locker.(lock.Tryer)
	if l.once {
		lease, err := tryer.TryAcquire(ctx, l.key)
		if errors.Is(err, lock.ErrHeld) {
			err = exit{exitTimeout, fmt.Errorf("key %q is held by another owner", l.key)}
		}
		return lease, err
	}
	take := locker.Acquire
	if l.shared {
		take = locker.(lock.Sharer).AcquireShared
	}
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if l.wait > 0 {
		bounded, cancel = context.WithTimeout(ctx, l.wait)
	}
	defer cancel()
	lease, err := take(bounded, l.key)
	switch {
	case errors.Is(err, lock.ErrHeld):
		return nil, l.held()
	case err == nil || errors.Is(err, lock.ErrUncertain) || !errors.Is(bounded.Err(), context.DeadlineExceeded):
		return lease, err
	case tryer == nil:
		return nil, exit{exitTimeout, fmt.Errorf("key %q was not granted within %s", l.key, l.wait)}
	}
	return nil, l.unanswered(ctx, tryer)
}

func (l *locking) held() error {
	return exit{exitTimeout, fmt.Errorf("key %q is held by another owner; gave up after %s", l.key, l.wait)}
}

// unanswered says why the wait ended empty, which may be that the time was too short for
// an answer. What it is granted by asking, it gives back.
func (l *locking) unanswered(ctx context.Context, tryer lock.Tryer) error {
	ctx, cancel := context.WithTimeout(ctx, giveBack)
	defer cancel()
	lease, err := tryer.TryAcquire(ctx, l.key)
	switch {
	case errors.Is(err, lock.ErrHeld):
		return l.held()
	case err == nil:
		if err = l.release(ctx, lease); err == nil {
			return exit{exitFailure, fmt.Errorf("key %q was not granted within %s, but it is free: give -wait more time", l.key, l.wait)}
		}
	}
	return exit{exitFailure, fmt.Errorf("no answer for key %q within %s: %w", l.key, l.wait, err)}
}

// stopped is the error for a signal that came before the command was started.
func stopped(signals <-chan os.Signal) error {
	select {
	case s := <-signals:
		return exit{signalled(s), fmt.Errorf("%s before the key was held", s)}
	case <-time.After(time.Second): // ctx ended by itself
		return exit{exitInterrupted, errors.New("interrupted before the key was held")}
	}
}

// hold runs cmd under lease and gives the lease back.
func (l *locking) hold(ctx context.Context, std stdio, lease lock.Lease, cmd *exec.Cmd, g *processGroup, signals chan os.Signal) error {
	// From here on a signal ends the command and not us.
	ctx = context.WithoutCancel(ctx)
	guarded, stop := lock.Guard(ctx, lease)
	defer stop()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = std.in, std.out, std.err
	cmd.Env = environment(lease)
	moved, continued := make(chan os.Signal, 1), make(chan os.Signal, 1)
	notifyMoved(moved, continued)
	defer signal.Stop(moved)
	defer signal.Stop(continued)
	signal.Notify(signals, append(ends(), others()...)...)
	if gone(guarded, lease) { // we were stopped before we could start it
		stop()
		return errors.Join(exit{exitLost, fmt.Errorf("the lease on key %q was lost before the command was started", l.key)}, l.release(ctx, lease))
	}
	c, err := start(cmd, g)
	if err != nil {
		stop()
		return errors.Join(exit{126, err}, l.release(ctx, lease))
	}
	lost, ended, again := false, false, false
	for !ended && !lost {
		select {
		case <-c.ended:
			ended = true
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				c.signal(n)
				if again = s == stopping && !seesStops; again {
					c.pause(continued)
				}
			}
		case <-moved:
			again = c.rest(continued)
		case <-continued:
			again = true
		case <-guarded.Done():
			lost = true
		}
		// Nobody renewed the lease while we were stopped.
		if again && !lost {
			if lost = gone(guarded, lease); !lost {
				c.resume()
			}
			again = false
		}
	}
	if lost {
		complain(std.err, "lockbench lock", fmt.Errorf("the lease on key %q is lost: ending the command", l.key))
	}
	c.end() // with what it left in its group, which works without a lease from here on
	stop()  // before Release
	err = l.release(ctx, lease)
	switch {
	case lost:
		return exit{status: exitLost}
	case errors.Is(err, lock.ErrLost):
		return exit{exitLost, fmt.Errorf("the lease on key %q was lost while the command ran", l.key)}
	case err != nil:
		// The command did its work under the lock, so its status stands.
		complain(std.err, "lockbench lock", fmt.Errorf("key %q could not be given back, it ends with its -ttl: %w", l.key, err))
	}
	if status := c.status(); status != 0 {
		return exit{status: status}
	}
	return nil
}

// gone tells whether lease has ended by what is known now.
func gone(guarded context.Context, lease lock.Lease) bool {
	if d, ok := lease.(lock.Deadliner); ok {
		if end := d.Deadline(); !end.IsZero() && !time.Now().Before(end) {
			return true
		}
	}
	select {
	case <-lease.Lost():
		return true
	default:
		return guarded.Err() != nil
	}
}

func (l *locking) release(ctx context.Context, lease lock.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, giveBack)
	defer cancel()
	return lease.Release(ctx)
}

// environment is ours, with the token of this lease and no other: an outer
// lockbench lock may have left one.
func environment(lease lock.Lease) []string {
	list := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, tokenVariable+"=") })
	if f, ok := lease.(lock.Fenced); ok {
		list = append(list, tokenVariable+"="+strconv.FormatUint(f.Token(), 10))
	}
	return list
}
