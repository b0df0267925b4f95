package harness

import (
	"os"
	"runtime"
	"testing"
)

func TestCPUList(t *testing.T) {
	for want, cpus := range map[string][]int{
		"": nil, "0": {0}, "0-1": {0, 1}, "0-3,8": {8, 3, 2, 1, 0, 0}, "1,3,5-6": {6, 5, 3, 1},
	} {
		if got := cpuList(cpus); got != want {
			t.Errorf("cpuList(%v) = %q, want %q", cpus, got, want)
		}
	}
}

// Linux tells of as many CPUs as Go may use.
func TestCPUsOf(t *testing.T) {
	want := 0
	if runtime.GOOS == "linux" {
		want = runtime.NumCPU()
	}
	if got := cpusOf(os.Getpid()); len(got) != want {
		t.Errorf("this process may run on %v, want %d CPUs", got, want)
	}
}
