package harness

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// recordCPUs stores where this process and the servers of v may run. On loopback a
// message that wakes another CPU takes several times as long as one that does not, so
// runs compare only where this is the same; taskset says where that is.
func (r *Rig) recordCPUs(v lock.Variant, env *results.Env) {
	env.CPUs = cpuList(cpusOf(os.Getpid()))
	if r.Server == nil || v.Needs.Kind == "" {
		return
	}
	if list := r.Server.Processes(); len(list) > 0 {
		env.ServerCPUs = cpuList(cpusOf(list[0].PID))
	}
}

// cpuList writes CPUs as Linux lists them, such as "0-3,8"; "" for none. Cpus is
// unchanged.
func cpuList(cpus []int) string {
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
