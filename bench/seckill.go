package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// maxBuyers bounds a sale: a Redis takes 10 000 connections unless it is told otherwise.
const maxBuyers = 9000

// The connections of a sale, unless -conns says otherwise.
const (
	pooled = 16  // for each process, as in the pool of an application
	shared = 100 // of all processes, to a server that a URL names and others may use
)

func seckillCommand(commit string) command {
	return command{
		name: "seckill", args: "[flags]",
		does: "holds a flash sale, and counts the units that the stock has lost",
		examples: []example{
			{"lockbench seckill -algo redis-token,redis-handoff", "1000 buyers want two goods, whose stock one lock each protects"},
			{"lockbench seckill -algo redis-set-ex -ttl 1s -work 1500ms -buyers 100", "a lease that is shorter than the work under it"},
			{"lockbench seckill -repeat 20 -out sales.jsonl", "every lock twenty times, kept in a file"},
		},
		sections: []section{
			{title: "the sale", flags: []string{"buyers", "goods", "stock", "work", "wait", "tries", "procs", "repeat", "seed"}},
			{title: "lock", flags: []string{"algo", "client", "ttl", "conns"}},
			{title: "output", flags: []string{"out"}}, serverSection(),
		},
		more: `
All buyers begin at the same instant. Each takes the lock of its good, whose key is
derived from the good (lock.Do and lock.KeyOf), reads how many units are left, works,
and writes one less. The stock lies in memory that the processes share, with nothing
else to protect it: where two buyers are inside, both read the same number, and a unit
is lost. Who has not got the lock within -wait pauses for a random time of up to -wait and
tries again, and gives up after -tries.

Each round begins with a sale without any lock: it must lose units, or these terms show
nothing. The exit status is 1 if a lock lost a unit that promises to exclude others. One
that excludes nobody does not promise it, nor does one without renewal whose lease is
shorter than the work.`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			j := &seckillJob{commit: commit, repeat: 1, ttl: lock.DefaultTTL}
			j.grid = grid{algos: []string{"*"}}
			j.terms = results.Terms{Buyers: 1000, Goods: 2, Stock: 10_000, Procs: harness.DefaultProcs(), Wait: 2 * time.Second, Tries: 3, Work: time.Millisecond}
			t := &j.terms
			fs.Var(&list[string]{values: &j.grid.algos, parse: pattern}, "algo", "locks: names or `patterns`, as redis-*")
			fs.Var(&list[string]{values: &j.grid.clients, parse: pattern}, "client", "client libraries: `names`, or all (default the first of each lock)")
			fs.Var(bounded[int]{&t.Buyers, whole(1, maxBuyers)}, "buyers", "`number` of buyers, each of whom wants one unit of one good")
			fs.Var(bounded[int]{&t.Goods, whole(1, 1000)}, "goods", "`number` of goods, over which the buyers are spread evenly")
			fs.Var(bounded[int64]{&t.Stock, func(text string) (int64, error) {
				n, err := whole(1, 1_000_000_000)(text)
				return int64(n), err
			}}, "stock", "`units` of each good")
			fs.Var(bounded[time.Duration]{&t.Work, span}, "work", "`time` between reading the stock and writing it")
			fs.Var(bounded[time.Duration]{&t.Wait, lasting}, "wait", "`time` that one attempt waits for the lock at most")
			fs.Var(bounded[int]{&t.Tries, whole(1, 1000)}, "tries", "`number` of attempts after which a buyer gives up")
			fs.Var(bounded[int]{&t.Procs, whole(1, results.MaxProcs)}, "procs", "`number` of processes in which the buyers live; those of a lock in memory live in one")
			fs.Var(bounded[int]{&j.repeat, whole(1, 1000)}, "repeat", "hold the sale this `often` for each lock")
			fs.Var(bounded[time.Duration]{&j.ttl, lasting}, "ttl", "`time` that a lease lasts")
			fs.Var(bounded[int]{&j.conns, whole(1, maxBuyers)}, "conns", fmt.Sprintf("most `connections` of all buyers together (default %d for each process, and one for each buyer where a lock ends with its connection; %d to a server that a URL names)", pooled, shared))
			fs.Var(bounded[int]{&j.seed, whole(0, 1<<53)}, "seed", "`number` that the random pauses come from")
			fs.StringVar(&j.out, "out", "", "append the sales to this `file`, one line of JSON each")
			j.from.flags(fs)
			return func(ctx context.Context, std stdio) error {
				if err := noArguments(fs); err != nil {
					return err
				}
				return j.do(ctx, std)
			}
		},
	}
}

// A seckillJob is one call of seckill.
type seckillJob struct {
	commit              string
	grid                grid
	terms               results.Terms
	repeat, conns, seed int
	ttl                 time.Duration
	out                 string
	from                sources

	held []results.Sale
}

func (j *seckillJob) do(ctx context.Context, std stdio) error {
	t := j.terms
	switch {
	case t.Goods > t.Buyers:
		return misuse("-goods %d but -buyers %d: every good needs a buyer", t.Goods, t.Buyers)
	case j.conns > 0 && j.conns < 2*min(t.Procs, t.Buyers):
		return misuse("-conns %d is less than two for each of %d processes: give -conns %d or fewer -procs", j.conns, t.Procs, 2*t.Procs)
	}
	options, err := j.from.options()
	if err != nil {
		return err
	}
	j.grid.urls = options.URLs
	variants, err := j.grid.chosen(impls.All())
	if err != nil {
		return err
	}
	if err := j.from.used(variants); err != nil {
		return err
	}
	options.Conns = t.Buyers + 50 + 2*t.Procs // a process has one or two beside those of its buyers
	var file *results.Lines[results.Sale]
	if j.out != "" {
		if file, _, err = results.AppendSales(j.out); err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // each sale was synced when it was written
	}
	b := bank{options: options, session: harness.NewID(), rigs: make(map[lock.Needs]*harness.Rig), commit: j.commit, crew: &harness.Crew{Commit: j.commit}}
	defer func() {
		if err := b.close(); err != nil {
			complain(std.err, "lockbench seckill", err)
		}
	}()
	if variants, err = j.start(ctx, std, &b, variants); err != nil {
		return err
	}
	err = j.sell(ctx, std, &b, variants, file)
	if len(j.held) > 0 {
		err = errors.Join(err, saleTable(std.out, j.held))
	}
	if j.out != "" && len(j.held) > 0 {
		say(std.out, "stored: %d sales in %s\nnext: lockbench plot -in %s -out %s\n", len(j.held), j.out, shellWord(j.out), shellWord(gallery(j.out)))
	}
	if err != nil {
		return err
	}
	return judged(j.held)
}

// start starts the servers of the variants and returns those that can be played.
func (j *seckillJob) start(ctx context.Context, std stdio, b *bank, variants []lock.Variant) (left []lock.Variant, err error) {
	missing := map[lock.Needs]bool{}
	for _, v := range variants {
		if !missing[v.Needs] {
			_, err := b.rig(ctx, v.Needs)
			switch {
			case ctx.Err() != nil:
				return nil, exit{exitInterrupted, errors.New("interrupted before the first sale")}
			case errors.Is(err, server.ErrMissing):
				missing[v.Needs] = true
				complain(std.err, "lockbench seckill", fmt.Errorf("left out %s, and what needs the same: %w", v.Name(), err))
			case err != nil:
				return nil, err
			}
		}
		if missing[v.Needs] {
			continue
		}
		if why := v.Unsuited(b.topology(v.Needs)); why != "" {
			complain(std.err, "lockbench seckill", fmt.Errorf("left out %s: %s", v.Name(), why))
			continue
		}
		left = append(left, v)
	}
	for _, line := range b.describe() {
		say(std.err, "%s\n", line)
	}
	if len(left) == 0 {
		return nil, errors.New("nothing is left to play")
	}
	return left, nil
}

// sell holds all sales, in rounds: first the one without a lock, and then one for each
// variant. A sale that could not be held does not end the others.
func (j *seckillJob) sell(ctx context.Context, std stdio, b *bank, variants []lock.Variant, file *results.Lines[results.Sale]) error {
	sales := []harness.Sale{harness.Without(j.terms)}
	for _, v := range variants {
		sales = append(sales, harness.Sale{Variant: v, Terms: j.terms})
	}
	total, done, failed := j.repeat*len(sales), 0, 0
	var first error
	for round := range j.repeat {
		for _, s := range sales {
			done++
			rig, err := b.rig(ctx, s.Variant.Needs)
			if err != nil {
				return err
			}
			s.Seed = uint64(j.seed + round)
			s.Config = lock.Config{TTL: j.ttl, Conns: j.connsOf(s.Variant, rig)}
			sale, err := afterRest(ctx, rest, func() (results.Sale, error) { return rig.Sell(ctx, s) })
			if ctx.Err() != nil {
				return exit{exitInterrupted, fmt.Errorf("interrupted: %d of %d sales are finished", len(j.held), total)}
			}
			if err != nil {
				failed++
				if err = fmt.Errorf("%s: %w", s.Variant.Name(), err); first == nil {
					first = err
				}
				complain(std.err, "lockbench seckill", err)
				continue
			}
			sale.Repeat = round
			j.held = append(j.held, sale)
			say(std.err, "[%d/%d] %s\n", done, total, saleLine(&sale))
			if file != nil {
				if err := file.Write(sale); err != nil {
					return err
				}
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d sales could not be held, the first: %w", failed, total, first)
	}
	return nil
}

// rest is how long a server may go on with what buyers have given up waiting for, so that
// it takes nobody in.
const rest = 10 * time.Second

// afterRest is what sell returns, at the third attempt if need be, each after a rest.
func afterRest(ctx context.Context, rest time.Duration, sell func() (results.Sale, error)) (s results.Sale, err error) {
	for range 3 {
		if s, err = sell(); err == nil {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, err
		case <-time.After(rest):
		}
	}
	return s, err
}

// connsOf is how many connections the buyers of v have together to the server of rig. Where
// a lock ends with its connection, who waits for it has one, too.
func (j *seckillJob) connsOf(v lock.Variant, rig *harness.Rig) int {
	most := pooled * j.terms.Procs
	switch {
	case j.conns > 0:
		return j.conns
	case rig.Server != nil && rig.Server.Source == server.URL:
		most = shared
	case v.Frees == lock.ByConnection:
		most = j.terms.Buyers
	}
	return max(min(most, j.terms.Buyers), 2*j.terms.Procs)
}

// judged is an error if a lock lost units that promised to exclude, or if the sale
// without a lock lost none.
func judged(held []results.Sale) error {
	teeth := false
	var broken []string
	seen := map[string]bool{}
	for i := range held {
		s := &held[i]
		teeth = teeth || s.Algo == results.NoLock && s.Lost() > 0
		if s.Violated() && !seen[s.Name()] {
			seen[s.Name()] = true
			broken = append(broken, fmt.Sprintf("%s lost %d of %d units, and two buyers were inside %d times", s.Name(), s.Lost(), s.Bought(), s.Overlaps))
		}
	}
	switch {
	case len(broken) > 0:
		return errors.New("violation of mutual exclusion: " + strings.Join(broken, "; "))
	case !teeth:
		return errors.New("no unit was lost without a lock either, so that these terms show nothing: give more -buyers for each of the -goods, or more -work")
	}
	return nil
}
