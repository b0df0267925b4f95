package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockbench/lockbench/results"
)

// preface says what the table shows. It has a place for the window.
const preface = `Does what the harness measures agree with queueing theory? Poisson arrivals ask for one key in an
open loop, so it is a queue with one server, which serves for as long as the key is held.

  ρ          share of the time in which the server is busy: rate × mean service time, as planned
  arrivals   those due in a window of %v; the rest of the row is about them
  measured   their mean wait, from the instant at which an owner asks for the key until it has it
  planned    mean wait by Lindley's recursion over the same plan (same seed), with the planned
             instants and holds: what should be seen if no timer were late and no thread slow
  hand-off   from a release to the grant of the next, where one waited: the mean of the run
  achieved   the recursion again, each arrival at the instant at which its owner asked, with the
             hold that it achieved and the mean hand-off for its service, from the first grant in
             the window: what should be seen with timers and threads as they were. Of this one the
             bound is kept or broken: 3 %% or 30 µs, whichever is more, for local-mutex; 8 %% for
             redis-handoff
  formula    mean wait over an endless time by Pollaczek and Khinchine, λE[S²]/(2(1−ρ)): M/D/1 for a
             fixed hold, M/M/1 for an exponential one (exp). A window strays from it by chance,
             the further the higher ρ is, so no bound is set
  valid      whether the harness believes the run
`

// overRedis says what a round trip has to do with it. It has places for the server and
// for the round trip.
const overRedis = `
redis-handoff ran on %s, its owners in a process of their own. The
median acquire of one owner, who finds the key free, took %v. That round trip is added to the
waits of all three theories, as an acquire waits for its answer. It is also in the services of
planned and formula, where nothing is known of the hand-off yet: a release has to reach the server,
and the grant an owner.
`

// print writes the table, with what has to be known to read it, and what is wrong.
func (c *check) print(w io.Writer) error {
	if len(c.rows) == 0 {
		return nil
	}
	var text strings.Builder
	say(&text, preface, c.window)
	if c.server != "" {
		say(&text, overRedis, c.server, c.free.Round(time.Microsecond))
	}
	say(&text, "\n")
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	say(t, "lock\thold\tρ\tarrivals\tmeasured\tplanned\tvs planned\thand-off\tachieved\tvs achieved\tin µs\tbound\twithin\tformula\tvalid\n")
	for _, r := range c.rows {
		say(t, "%s\t%v\t%g\t%d\t%s\t%s\t%s\t%.0f µs\t%s\t%s\t%+.0f µs\t%.0f µs\t%s\t%s\t%s\n",
			r.run.Algo, r.run.Load.Hold, r.rho, r.run.Exact[results.Wait].Count,
			ms(r.measured), ms(r.planned), share(r.measured, r.planned), r.handoff/1e3, ms(r.achieved), share(r.measured, r.achieved),
			(r.measured-r.achieved)/1e3, r.bound/1e3, yes(r.within()), ms(r.formula), yes(len(r.reasons) == 0))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if c.leftOut != "" {
		say(&text, "redis-handoff was left out: %s\n", c.leftOut)
	}
	say(&text, "\n")
	for _, r := range c.rows {
		who := fmt.Sprintf("%s, hold %v, ρ %g", r.run.Algo, r.run.Load.Hold, r.rho)
		if !r.within() {
			say(&text, "OUT OF BOUND: %s: %s measured, %s by theory; its longest hand-off took %s\n",
				who, ms(r.measured), ms(r.achieved), ms(float64(r.run.Exact[results.Handoff].Max)))
		}
		for _, reason := range r.reasons {
			say(&text, "NOT VALID: %s: %s\n", who, reason)
		}
	}
	for _, reason := range c.doubts {
		say(&text, "NOT VALID: redis-handoff, one owner: %s\n", reason)
	}
	say(&text, "%d of %d loads are within their bounds, and their runs valid\n", len(c.rows)-c.failures(), len(c.rows))
	_, err := io.WriteString(w, text.String())
	return err
}

// failures is how many loads are out of their bounds or not valid.
func (c *check) failures() (n int) {
	for _, r := range c.rows {
		if !r.within() || len(r.reasons) > 0 {
			n++
		}
	}
	return n
}

func ms(ns float64) string { return fmt.Sprintf("%.3f ms", ns/1e6) }

// share is how far what was measured is off theory, in percent of that.
func share(measured, theory float64) string {
	if theory <= 0 {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100*(measured/theory-1))
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "NO"
}
