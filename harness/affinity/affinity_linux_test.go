package affinity

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// All threads move, those that come into being meanwhile too, and come back.
func TestSetBindsEveryThread(t *testing.T) {
	self := os.Getpid()
	all, err := Of(self)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		if slices.Contains(strings.Fields(os.Getenv("LOCKBENCH_REQUIRE")), "cpus") {
			t.Fatal("LOCKBENCH_REQUIRE lists cpus, but this machine has one only")
		}
		t.Skip("NOT TESTED: this machine has one CPU, so nothing can be seen to move")
	}
	defer func() {
		if err := Set(self, all); err != nil {
			t.Error(err)
		}
	}()
	stop := make(chan struct{})
	var making sync.WaitGroup
	making.Go(func() { // threads that come and go while Set looks
		for {
			select {
			case <-stop:
				return
			default:
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				runtime.LockOSThread() // it ends with its goroutine, which does not unlock it
			}()
			<-done
		}
	})
	var held sync.WaitGroup
	ids := make(chan int, 8)
	for range cap(ids) { // threads that stay
		held.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ids <- unix.Gettid()
			<-stop
		})
	}
	one := all[len(all)-1:]
	var threads []int
	for range cap(ids) {
		threads = append(threads, <-ids)
	}
	err = Set(self, one)
	close(stop)
	making.Wait()
	held.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range append(threads, self) {
		if got, err := Of(thread); errors.Is(err, os.ErrProcessDone) {
			continue
		} else if err != nil || !slices.Equal(got, one) {
			t.Errorf("thread %d runs on %v, %v, want %v", thread, got, err, one)
		}
	}
	if err := Set(self, all); err != nil {
		t.Fatal(err)
	}
	if got, err := Of(self); err != nil || !slices.Equal(got, all) {
		t.Errorf("back on %v, %v, want %v", got, err, all)
	}
}

func TestOfNobody(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	for name, err := range map[string]error{"Set": Set(pid, []int{0}), "Of": second(Of(pid))} {
		if !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s of a process that has ended: %v", name, err)
		}
	}
	all, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := Set(os.Getpid(), []int{1000}); err == nil {
		_ = Set(os.Getpid(), all)
		t.Error("bound to a CPU that there is not")
	}
	if got, _ := Of(os.Getpid()); !slices.Equal(got, all) {
		t.Errorf("after a refusal it runs on %v, before on %v", got, all)
	}
}

func second(_ []int, err error) error { return err }
