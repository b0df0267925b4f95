package harness

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An answer that nobody waited for any more is not taken for that to the next request.
func TestLateAnswer(t *testing.T) {
	crew := new(Crew)
	defer func() { _ = crew.Close() }()
	list, _, err := crew.muster(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	p := list[0]
	if _, err := p.receive(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "of CPU time") || !strings.Contains(err.Error(), "stood ready") {
		t.Errorf("a process of which nothing was asked: %v", err)
	}
	if err := p.is.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for !p.is.Stopped() { // a signal reaches each thread in its own time
		time.Sleep(time.Millisecond)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.ask(short, request{Do: doPrepare}, patience); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped process answered: %v", err)
	}
	if _, err := p.ask(t.Context(), request{Do: doPrepare}, 20*time.Millisecond); err == nil || !strings.Contains(err.Error(), "it is stopped") {
		t.Errorf("a stopped process that is asked: %v", err)
	}
	if err := p.is.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, do := range []string{doCost, doGo} {
		if _, err := p.ask(t.Context(), request{Do: do}, patience); err == nil || err.Error() != "it was told to "+do+" at the wrong time" {
			t.Errorf("to %s it answers %v", do, err)
		}
	}
}

// A worker that cannot write its answer says why, or who asks would wait for it.
func TestAnswerThatCannotBeWritten(t *testing.T) {
	var said strings.Builder
	s := &service{out: json.NewEncoder(&said)}
	s.say(answer{Counts: &Counts{CPU: math.NaN()}})
	var a answer
	if err := json.Unmarshal([]byte(said.String()), &a); err != nil || !strings.Contains(a.Error, "NaN") {
		t.Errorf("%v, %q", err, said.String())
	}
}
