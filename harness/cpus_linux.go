package harness

import "golang.org/x/sys/unix"

// cpusOf lists the CPUs on which the first thread of the process pid may run, in
// rising order; none if that is not known.
func cpusOf(pid int) (cpus []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(pid, &set) != nil {
		return nil
	}
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
			left--
		}
	}
	return cpus
}
