package bench

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// noneValid is an error if no run of the chosen variants is valid, with what most of them
// have against them. A yardstick that nobody asked for decides nothing.
func noneValid(done []results.Run, chosen []lock.Variant) error {
	digits := regexp.MustCompile(`[0-9.]+`)
	count, first := make(map[string]int), make(map[string]string) // by what the reason says beside its numbers
	of, worst := 0, ""
	for _, r := range done {
		if !slices.ContainsFunc(chosen, func(v lock.Variant) bool { return v.Algo == r.Algo && v.Client == r.Client }) {
			continue
		}
		if r.Valid.OK {
			return nil
		}
		of++
		for _, reason := range r.Valid.Reasons {
			kind := digits.ReplaceAllString(reason, "0")
			if count[kind]++; count[kind] == 1 {
				first[kind] = reason
			}
			if count[kind] > count[worst] {
				worst = kind
			}
		}
	}
	switch {
	case of == 0:
		return nil
	case of == 1:
		return fmt.Errorf("the run is not valid: %s", first[worst])
	case count[worst] == of:
		return fmt.Errorf("none of the %d runs is valid, all for one reason: %s", of, first[worst])
	}
	return fmt.Errorf("none of the %d runs is valid, %d of them for one reason: %s", of, count[worst], first[worst])
}
