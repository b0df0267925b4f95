package fault

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/server"
)

// A sleeping is a client process that does nothing.
type sleeping struct {
	cmd *exec.Cmd
	p   server.Process
}

func (s sleeping) Process() server.Process { return s.p }

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
		w := sleeping{cmd, p}
		t.Cleanup(func() { _ = w.Kill() })
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
	if _, err := (KillClient{Clients: 3}).Inject(t.Context(), e); err == nil || err.Error() != "there are 2 client processes, and 3 should be struck" {
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
