package server

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a thread has used counts when it has ended.
func TestCPUOfEndedThreads(t *testing.T) {
	self, ok := FindProcess(os.Getpid())
	if !ok {
		t.Fatal("this process is not to be seen")
	}
	read := func() float64 {
		ns, ok := cpu([]Process{self})
		if !ok {
			t.Fatal("the system does not tell")
		}
		return ns
	}
	before := read()
	for range 3 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // it ends with its goroutine, which does not unlock it
			for begun := read(); read() < begun+50e6; {
			}
		}()
		<-done
	}
	for range 1000 { // until the threads have gone
		runtime.Gosched()
	}
	if spent := read() - before; spent < 3*50e6 {
		t.Errorf("three threads have used 50 ms each, of which %.0f ms in all are told", spent/1e6)
	}
}

// Of two threads that want the same CPU one stands ready while the other runs.
func TestReadyThreads(t *testing.T) {
	self, _ := FindProcess(os.Getpid())
	before, ok := self.Ready()
	if !ok {
		t.Fatal("the system does not tell")
	}
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			runtime.LockOSThread() // it ends with its goroutine, and its place with it
			if err := unix.SchedSetaffinity(0, &one); err != nil {
				t.Error(err)
				return
			}
			for { // the test's own time-out ends it where nothing is counted
				if now, ok := self.Ready(); !ok || now >= before+20*time.Millisecond {
					return
				}
			}
		})
	}
	both.Wait()
}
