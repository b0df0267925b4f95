package harness

import (
	"os"
	"strconv"
	"strings"
)

// tick is the unit of /proc's CPU times in ns: USER_HZ is 100 on every architecture that
// Go has.
const tick = 1e7

// kernelThreads is the process of which all threads of the kernel are children. What
// they do is done for others, for us as well, so that it is nobody's disturbance.
const kernelThreads = 2

// readMachine reads what every process has used, and what was stolen from all CPUs.
func readMachine() (machineUse, bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return machineUse{}, false
	}
	u := machineUse{used: make(map[int]processUse)}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold anything; what follows it does not.
		_, rest, _ := strings.Cut(string(b)[strings.LastIndexByte(string(b), ')')+1:], " ")
		f := strings.Fields(rest)
		if len(f) < 20 {
			continue
		}
		number := func(i int) float64 { // i as proc_pid_stat(5) counts, from 1
			n, _ := strconv.ParseFloat(f[i-3], 64)
			return n
		}
		u.used[pid] = processUse{parent: int(number(4)), cpu: (number(14) + number(15)) * tick, began: number(22)}
	}
	// cpu user nice system idle iowait irq softirq steal …
	if f := strings.Fields(firstLine("/proc/stat")); len(f) > 8 && f[0] == "cpu" {
		steal, _ := strconv.ParseFloat(f[8], 64)
		u.stolen = steal * tick
	}
	return u, len(u.used) > 0
}
