package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A form is how one fault is written: NAME@AT, then +FOR if it lasts, then :ARG, then
// :TARGET.
type form struct {
	example string // with the name of the fault
	does    string // for people
	lasts   bool   // it wants +FOR
	arg     arg
	noun    string // of what its target counts; "" has no target
	make    func(w written) Fault
}

// An arg is what stands behind the first colon, and cannot be left out.
type arg int

const (
	none   arg = iota
	length     // a length of time
	signed     // one that may be negative
	step       // the name of a step
)

// written is what was read of a fault.
type written struct {
	at, lasts, by time.Duration
	step          string
	target        Target
}

// forms are all faults that Parse reads, in the order in which people are told of them.
func forms() []form {
	return []form{
		{
			"pause@2s+300ms:1", "stops servers, which keep their connections and do not answer", true, none, ofServers,
			func(w written) Fault { return Pause{At: w.at, For: w.lasts, Servers: w.target} },
		},
		{
			"kill@2s:1", "ends servers until measuring ends", false, none, ofServers,
			func(w written) Fault { return Kill{At: w.at, Servers: w.target} },
		},
		{
			"restart@2s+500ms:1", "ends servers and starts them again with their data", true, none, ofServers,
			func(w written) Fault { return Restart{At: w.at, For: w.lasts, Servers: w.target} },
		},
		{
			"restart-empty@2s+500ms:1", "ends servers and starts them again without their data", true, none, ofServers,
			func(w written) Fault { return Restart{At: w.at, For: w.lasts, Servers: w.target, Empty: true} },
		},
		{
			"cut@2s+500ms:1", "drops what clients and servers send each other", true, none, ofServers,
			func(w written) Fault { return Cut{At: w.at, For: w.lasts, Servers: w.target} },
		},
		{
			"rtt@2s+1s:50ms", "adds to each round trip", true, length, "",
			func(w written) Fault { return RTT{At: w.at, For: w.lasts, Add: w.by} },
		},
		{
			"jump@2s+1s:1m0s:node=2", "moves the wall clocks of servers, ahead or back", true, signed, ofServers,
			func(w written) Fault { return Jump{At: w.at, For: w.lasts, By: w.by, Servers: w.target} },
		},
		{
			"kill-client@2s:1", "ends client processes for the rest of the run", false, none, ofClients,
			func(w written) Fault { return KillClient{At: w.at, Clients: w.target} },
		},
		{
			"stall-client@2s+1s:1", "stops client processes, which keep their connections", true, none, ofClients,
			func(w written) Fault { return StallClient{At: w.at, For: w.lasts, Clients: w.target} },
		},
		{
			"jump-client@2s+1s:-1h0m0s:client=2", "moves the wall clocks of client processes, ahead or back", true, signed, ofClients,
			func(w written) Fault { return JumpClient{At: w.at, For: w.lasts, By: w.by, Clients: w.target} },
		},
		{
			"park-client@2s+1s:before-release:holder", "stops one owner of client processes at a step of its lock", true, step, ofClients,
			func(w written) Fault { return ParkClient{At: w.at, For: w.lasts, Step: w.step, Clients: w.target} },
		},
	}
}

// name is that of the fault.
func (f form) name() string {
	name, _, _ := strings.Cut(f.example, "@")
	return name
}

// Help says in one line how each fault is written and what it does.
func Help() string {
	var list []string
	for _, f := range forms() {
		list = append(list, f.example+" "+f.does)
	}
	return strings.Join(list, "; ")
}

// Targets says in one line what may stand for the TARGET of a fault.
func Targets() string {
	return "2 is the first two, node=2 or client=2 the second alone; or the first that is now " +
		strings.Join(rolesOf(ofServers), ", ") + " among servers, or " + Holder + " among clients"
}

// Parse reads one fault, NAME@AT[+FOR][:ARG][:TARGET]: AT is when it strikes since the
// measured window began, FOR how long it lasts, TARGET which are struck, as Targets says.
// Without it all servers are struck, or the first client process. ARG is what rtt adds, how
// far a clock jumps, or a step. Help lists the names.
func Parse(text string) (Fault, error) {
	name, rest, ok := strings.Cut(text, "@")
	var names []string
	for _, f := range forms() {
		if f.name() != name {
			names = append(names, f.name())
			continue
		}
		err := errors.New("want " + f.example)
		if ok {
			var w written
			if w, err = f.read(rest); err == nil {
				return f.make(w), nil
			}
		}
		return nil, fmt.Errorf("%q is no fault: %w", text, err)
	}
	return nil, fmt.Errorf("%q is no fault: there is no %q; want NAME@AT[+FOR][:TARGET], such as pause@2s+300ms, with the NAME %s",
		text, name, strings.Join(names, ", "))
}

// read reads what stands behind the @. Times of more than lock.MaxTTL are none, so that
// two of them can be added.
func (f form) read(text string) (w written, err error) {
	text, more, some := strings.Cut(text, ":")
	at, lasts, long := strings.Cut(text, "+")
	if w.at, err = time.ParseDuration(at); err != nil || w.at < 0 || w.at > lock.MaxTTL {
		return w, fmt.Errorf("%q is no time after the start: want %s", at, f.example)
	}
	if long != f.lasts {
		if long {
			return w, fmt.Errorf("%s ends with the run and takes no +%s: want %s", f.name(), lasts, f.example)
		}
		return w, fmt.Errorf("it does not say for how long: want %s", f.example)
	}
	if w.lasts, err = time.ParseDuration(lasts); long && (err != nil || w.lasts <= 0 || w.lasts > lock.MaxTTL) {
		return w, fmt.Errorf("%q is no length of time: want %s", lasts, f.example)
	}
	if f.arg != none {
		var arg string
		arg, more, some = strings.Cut(more, ":")
		if err := f.readArg(arg, &w); err != nil {
			return w, err
		}
	}
	switch {
	case !some:
		return w, nil
	case f.noun == "":
		return w, fmt.Errorf("%q is too much: want %s", more, f.example)
	}
	if w.target, err = parseTarget(more, f.noun); err != nil {
		return w, fmt.Errorf("%w: want %s", err, f.example)
	}
	return w, nil
}

// readArg reads what stands behind the first colon.
func (f form) readArg(text string, w *written) (err error) {
	if f.arg == step {
		if w.step = text; text == "" {
			return fmt.Errorf("it does not name a step: want %s", f.example)
		}
		return nil
	}
	if w.by, err = time.ParseDuration(text); err != nil || w.by == 0 || w.by < 0 && f.arg != signed || w.by.Abs() > lock.MaxTTL {
		return fmt.Errorf("%q is no length of time: want %s", text, f.example)
	}
	return nil
}

// write is the form that Parse reads; a length of 0 and an empty text are left out.
func write(name string, at, lasts time.Duration, behind ...string) string {
	text := name + "@" + at.String()
	if lasts > 0 {
		text += "+" + lasts.String()
	}
	for _, one := range behind {
		if one != "" {
			text += ":" + one
		}
	}
	return text
}
