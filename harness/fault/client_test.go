package fault

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/server"
)

// A sleeping is a client process that does nothing.
type sleeping struct {
	cmd   *exec.Cmd
	p     server.Process
	holds func() bool // nil never does

	ahead   *time.Duration
	parks   chan string // the owner that stops, see Worker.Park
	proceed func() ([]string, error)
}

func (s sleeping) Jump(_ context.Context, d time.Duration) (before, after time.Duration, err error) {
	before = *s.ahead
	if s.holds == nil { // or it is a clock that stands
		*s.ahead += d
	}
	return before, *s.ahead, nil
}

func (s sleeping) Park(context.Context, string) (<-chan string, error) { return s.parks, nil }

func (s sleeping) Proceed(context.Context) ([]string, error) { return s.proceed() }

func (s sleeping) Process() server.Process { return s.p }

func (s sleeping) Holds() (string, bool) { return "owner 1 has key 0", s.holds != nil && s.holds() }

func (s sleeping) Kill() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = s.cmd.Wait() // killed is how it is to end
	return nil
}

// workers starts two client processes.
func workers(t *testing.T) (list []Worker) {
	t.Helper()
	for range 2 {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, ok := server.FindProcess(cmd.Process.Pid)
		w := sleeping{cmd: cmd, p: p, ahead: new(time.Duration), parks: make(chan string, 1), proceed: func() ([]string, error) { return nil, nil }}
		t.Cleanup(func() { _ = w.Kill() })
		if !ok && runtime.GOOS == "linux" {
			t.Fatal("a process that has just been started is not found")
		}
		if !ok {
			t.Skip("NOT TESTED, because this system does not show its processes")
		}
		list = append(list, w)
	}
	return list
}

func TestKillClient(t *testing.T) {
	e := &Env{Workers: workers(t)}
	i := inject(t, KillClient{}, e)
	one, other := e.Workers[0].Process(), e.Workers[1].Process()
	if one.Alive() || !other.Alive() {
		t.Errorf("alive: %v and %v, want the first to be killed", one.Alive(), other.Alive())
	}
	heal(t, i)
	if want := "SIGKILL, and client " + pids([]server.Process{one}) + " ended"; !strings.HasSuffix(i.Evidence(), want) {
		t.Errorf("evidence %q, want %q", i.Evidence(), want)
	}
	for _, f := range []Fault{KillClient{}, StallClient{}} {
		if _, err := f.Inject(t.Context(), e); err == nil || err.Error() != "client process 1 of 2 has ended already" {
			t.Errorf("%s on a dead client: %v", f.Name(), err)
		}
	}
	if _, err := (KillClient{Clients: Target{First: 3}}).Inject(t.Context(), e); err == nil || err.Error() != "there are 2 client processes, and 3 should be struck" {
		t.Errorf("three of two: %v", err)
	}
	if !other.Alive() {
		t.Error("a refused fault has killed the second")
	}
}

func TestStallClient(t *testing.T) {
	e := &Env{Workers: workers(t)}
	i := inject(t, StallClient{}, e)
	one, other := e.Workers[0].Process(), e.Workers[1].Process()
	if !one.Stopped() || other.Stopped() {
		t.Errorf("stopped: %v and %v, want the first alone", one.Stopped(), other.Stopped())
	}
	heal(t, i)
	if one.Stopped() || !one.Alive() {
		t.Error("the first does not go on")
	}
}

// A holder that is stopped, or killed, holds its key then: who has released it meanwhile
// goes on.
func TestHolder(t *testing.T) {
	for _, f := range []Fault{StallClient{Clients: Target{Role: Holder}}, KillClient{Clients: Target{Role: Holder}}} {
		e := &Env{Workers: workers(t)}
		second := e.Workers[1].(sleeping)
		asked := 0
		stopped := make(map[int]bool)
		second.holds = func() bool { // not yet, then at the choice, not when it has stopped, and from then on
			asked++
			stopped[asked] = second.p.Stopped()
			return asked != 1 && asked != 3
		}
		e.Workers[1] = second
		i := inject(t, f, e)
		if !stopped[3] || stopped[4] || !stopped[5] || asked != 5 {
			t.Errorf("%s: stopped %v when it was asked", f, stopped)
		}
		if first := e.Workers[0].Process(); first.Stopped() || !first.Alive() {
			t.Errorf("%s struck the first client, which holds nothing", f)
		}
		if want := "client 2 of 2 holds: owner 1 has key 0"; !strings.Contains(i.Evidence(), want) {
			t.Errorf("%s: evidence %q, want %q", f, i.Evidence(), want)
		}
		_, stall := f.(StallClient)
		if second.p.Alive() != stall || second.p.Stopped() != stall {
			t.Errorf("%s: alive %v, stopped %v", f, second.p.Alive(), second.p.Stopped())
		}
		heal(t, i)
	}
}

// A clock of a client is ahead until it is healed, and one that does not move is an error.
func TestJumpClient(t *testing.T) {
	e := &Env{Workers: workers(t)}
	i := inject(t, JumpClient{By: -time.Minute, Clients: Target{First: 2}}, e)
	ahead := func() (list []time.Duration) {
		for _, w := range e.Workers {
			list = append(list, *w.(sleeping).ahead)
		}
		return list
	}
	if got := ahead(); !slices.Equal(got, []time.Duration{-time.Minute, -time.Minute}) {
		t.Errorf("they are %v ahead", got)
	}
	heal(t, i)
	if got := ahead(); !slices.Equal(got, []time.Duration{0, 0}) {
		t.Errorf("healed, they are %v ahead", got)
	}
	stands := e.Workers[1].(sleeping)
	stands.holds = func() bool { return false }
	e.Workers[1] = stands
	if _, err := (JumpClient{By: time.Minute, Clients: Target{First: 2}}).Inject(t.Context(), e); err == nil || !strings.Contains(err.Error(), "the clock of client 2 moved by 0s, and not by 1m0s") {
		t.Errorf("a clock that stands: %v", err)
	}
	if got := ahead(); got[0] != 0 {
		t.Errorf("a jump that failed leaves %v", got)
	}
}

// An owner of each client stops, and goes on when the fault is healed. What went wrong
// leaves nobody parked.
func TestParkClient(t *testing.T) {
	e := &Env{Workers: workers(t)}
	went := make(map[int]int)
	for n, w := range e.Workers {
		s := w.(sleeping)
		s.proceed = func() ([]string, error) {
			went[n]++
			return []string{"a", "b"}, nil
		}
		s.parks <- "owner 5"
		e.Workers[n] = s
	}
	park := ParkClient{Step: "s", Clients: Target{First: 2}}
	i := inject(t, park, e)
	if len(went) > 0 {
		t.Errorf("%v went on before it was healed", went)
	}
	heal(t, i)
	if went[0] != 1 || went[1] != 1 || !strings.Contains(i.Evidence(), "owner 5 of client 2 of 2 has stopped at s; ") {
		t.Errorf("%v went on; %s", went, i.Evidence())
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.Workers[0].(sleeping).parks <- "owner 5"
	cancel()
	if _, err := park.Inject(ctx, e); !errors.Is(err, context.Canceled) {
		t.Errorf("with a ctx that has ended: %v", err)
	}
	if err := e.Workers[1].Kill(); err != nil {
		t.Fatal(err)
	}
	one := e.Workers[0].(sleeping)
	<-one.parks
	one.proceed = func() ([]string, error) {
		went[0]++
		return []string{"a", "b"}, nil
	}
	dying := &Env{Workers: []Worker{one}}
	go func() {
		time.Sleep(20 * time.Millisecond) // before or after Inject begins to wait: it has to notice both
		_ = one.Kill()
	}()
	if _, err := (ParkClient{Step: "s"}).Inject(t.Context(), dying); err == nil || !strings.Contains(err.Error(), "its process has ended") && !strings.Contains(err.Error(), "has ended already") {
		t.Errorf("a client that dies: %v", err)
	}
}
