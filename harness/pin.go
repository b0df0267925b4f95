package harness

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/lockbench/lockbench/harness/affinity"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// The CPUs of a run, Load.Pin. On loopback a message that wakes another CPU takes
// several times as long as one that does not, and left to itself the scheduler
// does now this and now that: what differs between two locks by less than that
// shows only where it may not choose.
const (
	PinNone     = ""         // wherever the scheduler likes
	PinTogether = "together" // all on one CPU: no message wakes another, and what counts is the work for it
	PinApart    = "apart"    // servers on the lower half of the CPUs, this process on the upper: each message wakes another
)

// pinnable says what is wrong with the mode for t on every machine, or nil.
func (t Trial) pinnable() error {
	switch mode := t.Load.Pin; mode {
	case PinNone:
		return nil
	case PinTogether, PinApart:
	default:
		return fmt.Errorf("pin=%s: want %s or %s", mode, PinTogether, PinApart)
	}
	for _, f := range t.Faults {
		if _, ok := f.(fault.Kill); ok {
			return fmt.Errorf("pin=%s: a server that is killed would start again on other CPUs", t.Load.Pin)
		}
	}
	return nil
}

// Unbindable says why this process or the servers of t cannot be bound to CPUs here
// as its load asks, "" if they can be or need not.
func (r *Rig) Unbindable(t Trial) string {
	if t.Load.Pin == PinNone {
		return ""
	}
	cpus, err := affinity.Of(os.Getpid())
	switch {
	case err != nil:
		return err.Error()
	case t.Load.Pin == PinApart && len(cpus) < 2:
		return "this process may use one CPU only"
	case t.Variant.Needs.Kind != "" && r.Server != nil && len(r.Server.Processes()) == 0:
		return fmt.Sprintf("only a server that lockbench starts as a process can be bound to CPUs, and this one is of the source %s: "+
			"leave out -pin, or take -server binary", r.Server.Source)
	}
	return ""
}

// divide says on which of cpus, in rising order, servers and clients run.
func divide(mode string, cpus []int) (servers, clients []int) {
	if mode == PinTogether {
		one := cpus[len(cpus)-1:]
		return one, one
	}
	return cpus[:len(cpus)/2], cpus[len(cpus)/2:]
}

// pin binds this process and the servers of t as its load asks. Undo, which is
// never nil, gives them back the CPUs that they had.
func (r *Rig) pin(t Trial) (undo func(), err error) {
	var back []func()
	undo = func() {
		for _, f := range back {
			f()
		}
	}
	if t.Load.Pin == PinNone {
		return undo, nil
	}
	if why := r.Unbindable(t); why != "" {
		return undo, errors.New(why)
	}
	self := os.Getpid()
	cpus, err := affinity.Of(self)
	if err != nil {
		return undo, err
	}
	onServers, onClients := divide(t.Load.Pin, cpus)
	if t.Variant.Needs.Kind != "" && r.Server != nil {
		list := r.Server.Processes() // one at least
		were, err := affinity.Of(list[0].PID)
		if err != nil {
			return undo, err
		}
		// Those that a server has started meanwhile come back too.
		back = append(back, func() { _ = bind(r.Server.Processes(), were) }) // they could be bound once
		if err := bind(list, onServers); err != nil {
			return undo, err
		}
	}
	procs := runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), len(onClients)))
	back = append(back, func() {
		_ = affinity.Set(self, cpus) // as they were
		runtime.GOMAXPROCS(procs)
	})
	return undo, affinity.Set(self, onClients)
}

// bind binds processes to cpus; those that have ended meanwhile do not count.
func bind(list []server.Process, cpus []int) error {
	for _, p := range list {
		if err := affinity.Set(p.PID, cpus); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	return nil
}

// cpusOf reads where this process and the servers of v may run, for the record; ""
// where that is not known.
func (r *Rig) cpusOf(v lock.Variant, env *results.Env) {
	text := func(pid int) string {
		cpus, err := affinity.Of(pid)
		if err != nil {
			return ""
		}
		return affinity.Text(cpus)
	}
	env.CPUs = text(os.Getpid())
	if r.Server == nil || v.Needs.Kind == "" {
		return
	}
	if list := r.Server.Processes(); len(list) > 0 {
		env.ServerCPUs = text(list[0].PID)
	}
}
