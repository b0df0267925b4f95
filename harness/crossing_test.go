package harness

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockbench/lockbench/harness/affinity"
)

// Both ways are timed where there are two CPUs, and all threads may run
// where they could before.
func TestCrossing(t *testing.T) {
	all, err := affinity.Of(os.Getpid())
	if errors.Is(err, affinity.ErrUnsupported) {
		t.Skip("NOT TESTED: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	leaks := goleak.IgnoreCurrent()
	procs := runtime.GOMAXPROCS(2)
	same, other := crossing()
	if same <= 0 {
		t.Errorf("on one CPU it took %v", same)
	}
	if (len(all) > 1) != (other > 0) {
		t.Errorf("on CPUs %v it took %v from one to another", all, other)
	}
	runtime.GOMAXPROCS(1)
	if same, other := crossing(); same != 0 || other != 0 {
		t.Errorf("with one thread at a time it took %v and %v, which tells of Go and not of the machine", same, other)
	}
	runtime.GOMAXPROCS(procs)
	goleak.VerifyNone(t, leaks)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		if cpus, err := affinity.Of(id); err == nil && !slices.Equal(cpus, all) {
			t.Errorf("thread %d may still run on CPUs %s only", id, affinity.Text(cpus))
		}
	}
}
