// Package affinity tells and sets on which CPUs a process may run. On a machine
// with two CPUs, or with hundreds, the same round trip takes several times as long
// where it wakes another CPU as where it does not, and the scheduler changes its
// mind about that from run to run.
package affinity

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// ErrUnsupported says that this system does not let a process be bound to CPUs.
var ErrUnsupported = errors.New("this system does not let processes be bound to CPUs; Linux does")

// Text writes CPUs as Linux lists them, such as "0-3,8"; "" for none. Cpus is
// unchanged.
func Text(cpus []int) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(cpus)))
	var parts []string
	for i := 0; i < len(sorted); {
		last := i
		for last+1 < len(sorted) && sorted[last+1] == sorted[last]+1 {
			last++
		}
		part := strconv.Itoa(sorted[i])
		if last > i {
			part += "-" + strconv.Itoa(sorted[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ",")
}
