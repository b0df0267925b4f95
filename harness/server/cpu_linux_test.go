package server

import (
	"os"
	"runtime"
	"testing"
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
