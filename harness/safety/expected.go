package safety

import (
	_ "embed"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// expectedTable is what every lock is expected to do under every fault, as data: a line
// that names the faults, then one line for each lock. The letters stand in outcomes.
//
//go:embed expected.tsv
var expectedTable string

// outcomes are the letters of the table. What cannot strike a lock is "-".
func outcomes() map[string]results.Outcome {
	return map[string]results.Outcome{
		"+": results.Held, "B": results.Blocked, "X": results.Stuck, "U": results.Violated, "T": results.Careless, "-": "",
	}
}

// Expected is what v is expected to do under the named fault: "" if the fault cannot
// strike it, and NotExercised if the table does not say.
func Expected(v lock.Variant, fault string) results.Outcome {
	column := -1
	for line := range strings.Lines(expectedTable) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if column < 0 {
			for i, name := range fields {
				if name == fault {
					column = i
				}
			}
			if column < 0 {
				return results.NotExercised
			}
			continue
		}
		if (fields[0] == v.Algo || fields[0] == v.Algo+"/"+v.Needs.Kind) && column < len(fields) {
			if o, ok := outcomes()[fields[column]]; ok {
				return o
			}
		}
	}
	return results.NotExercised
}
