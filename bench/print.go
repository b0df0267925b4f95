package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// planned is a trial as -print -format json writes it.
type planned struct {
	Block  int          `json:"block"`
	Trial  string       `json:"trial"`
	Algo   string       `json:"algo"`
	Client string       `json:"client"`
	Needs  lock.Needs   `json:"needs"`
	Load   results.Load `json:"load"`
	Config lock.Config  `json:"config"`
	Faults []string     `json:"faults"`
	Seed   uint64       `json:"seed,string"`
}

func printTrials(w io.Writer, trials []harness.Trial, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		for _, t := range trials {
			faults := []string{}
			for _, f := range t.Faults {
				faults = append(faults, f.String())
			}
			if err := e.Encode(planned{t.Block, t.Name(), t.Variant.Algo, t.Variant.Client, t.Variant.Needs,
				t.Load, t.Config.Filled(), faults, t.Seed}); err != nil {
				return err
			}
		}
		return nil
	}
	rows := [][]string{{"BLOCK", "TRIAL", "WARM-UP", "WINDOW", "SEED", "NEEDS"}}
	var least time.Duration
	for _, t := range trials {
		window := t.Load.For.String()
		if t.Load.Ops > 0 {
			window = fmt.Sprintf("%d grants", t.Load.Ops)
		}
		least += t.Load.Warmup + t.Load.For
		rows = append(rows, []string{strconv.Itoa(t.Block + 1), t.Name(), t.Load.Warmup.String(), window,
			strconv.FormatUint(t.Seed, 10), t.Variant.Needs.String()})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d trials, at least %s\n", len(trials), least)
	return err
}
