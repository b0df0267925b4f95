package bench

import (
	"flag"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// replays makes j play the one cell of its schedule and show it. Flags that choose cells
// make no sense beside it.
func (j *safetyJob) replays(fs *flag.FlagSet) (err error) {
	fs.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "algo", "client", "fault", "short", "soak", "seed", "out":
			err = misuse("-replay names its cell itself: leave -%s away", f.Name)
		}
	})
	if err != nil {
		return err
	}
	name, fault, steps, err := results.ParseSchedule(j.replay)
	if err != nil {
		return misuse("%v", err)
	}
	algo, client, _ := strings.Cut(name, "/")
	j.grid.algos, j.faults, j.steps, j.verbose = []string{algo}, []string{fault}, steps, true
	if client != "" {
		j.grid.clients = []string{client}
	}
	return nil
}

// again tells whether c came in the order of the schedule, and prints where it did not.
func (j *safetyJob) again(std stdio, c results.Cell) bool {
	_, got, _ := strings.Cut(c.Schedule(), "@")
	if got == j.steps {
		say(std.out, "    the steps came in the order of the schedule\n")
		return true
	}
	want, have := strings.Split(j.steps, ","), strings.Split(got, ",")
	n := 0
	for n < min(len(want), len(have)) && want[n] == have[n] {
		n++
	}
	at := func(list []string) string {
		if n < len(list) && list[n] != "" {
			return list[n]
		}
		return "the end"
	}
	say(std.out, "    ANOTHER ORDER than the schedule: step %d was %s, not %s\n", n+1, at(have), at(want))
	return false
}
