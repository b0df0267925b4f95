package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// A form is how one fault is written: NAME@AT, then +FOR if it lasts, then what arg says.
type form struct {
	example string // with the name of the fault
	does    string // for people
	lasts   bool   // it wants +FOR
	arg     arg
	make    func(w written) Fault
}

// An arg is what stands behind the colon.
type arg int

const (
	number arg = iota // how many, from 1; left out is 0
	length            // a length of time, which cannot be left out
)

// written is what was read of a fault.
type written struct {
	at, lasts, by time.Duration
	n             int
}

// forms are all faults that Parse reads, in the order in which people are told of them.
func forms() []form {
	return []form{
		{
			"pause@2s+300ms:1", "stops servers, which keep their connections and do not answer", true, number,
			func(w written) Fault { return Pause{At: w.at, For: w.lasts, Servers: w.n} },
		},
		{
			"kill@2s:1", "ends servers until measuring ends", false, number,
			func(w written) Fault { return Kill{At: w.at, Servers: w.n} },
		},
		{
			"restart@2s+500ms:1", "ends servers and starts them again with their data", true, number,
			func(w written) Fault { return Restart{At: w.at, For: w.lasts, Servers: w.n} },
		},
		{
			"restart-empty@2s+500ms:1", "ends servers and starts them again without their data", true, number,
			func(w written) Fault { return Restart{At: w.at, For: w.lasts, Servers: w.n, Empty: true} },
		},
		{
			"cut@2s+500ms:1", "drops what clients and servers send each other", true, number,
			func(w written) Fault { return Cut{At: w.at, For: w.lasts, Servers: w.n} },
		},
		{
			"rtt@2s+1s:50ms", "adds to each round trip", true, length,
			func(w written) Fault { return RTT{At: w.at, For: w.lasts, Add: w.by} },
		},
		{
			"kill-client@2s:1", "ends client processes for the rest of the run", false, number,
			func(w written) Fault { return KillClient{At: w.at, Clients: w.n} },
		},
		{
			"stall-client@2s+1s:1", "stops client processes, which keep their connections", true, number,
			func(w written) Fault { return StallClient{At: w.at, For: w.lasts, Clients: w.n} },
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

// Parse reads one fault, NAME@AT[+FOR][:N]: AT is when it strikes since the measured
// window began, FOR how long it lasts, N how many it strikes, the first ones. Without N
// all servers are struck, or one client process. Behind the colon of rtt stands what it
// adds. Help lists the names.
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
	return nil, fmt.Errorf("%q is no fault: there is no %q; want NAME@AT[+FOR][:N], such as pause@2s+300ms, with the NAME %s",
		text, name, strings.Join(names, ", "))
}

// read reads what stands behind the @. Times of more than lock.MaxTTL are none, so that
// two of them can be added.
func (f form) read(text string) (w written, err error) {
	text, arg, some := strings.Cut(text, ":")
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
	switch {
	case f.arg == length:
		if w.by, err = time.ParseDuration(arg); err != nil || w.by <= 0 || w.by > lock.MaxTTL {
			return w, fmt.Errorf("%q is no length of time: want %s", arg, f.example)
		}
	case some:
		if w.n, err = strconv.Atoi(arg); err != nil || w.n < 1 {
			return w, fmt.Errorf("%q is no number: want %s", arg, f.example)
		}
	}
	return w, nil
}

// write is the form that Parse reads; a length or a number of 0 is left out.
func write(name string, at, lasts time.Duration, n int) string {
	text := name + "@" + at.String()
	if lasts > 0 {
		text += "+" + lasts.String()
	}
	if n > 0 {
		text += ":" + strconv.Itoa(n)
	}
	return text
}
