package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// identity is what two runs must share to be repetitions of each other: the
// variant, the load, the configuration, the faults asked for, what served them
// the machine, the CPUs and the window, also where it was made longer than asked.
// Addresses are part of it where the user gave them; a server that the harness starts
// gets a new port each time. The seed is not.
type identity struct {
	Algo, Client                            string
	Kind, Product, Version, Source, Options string
	Topology                                string
	Nodes                                   int
	Addresses                               string
	Load                                    Load
	Config, Faults                          string
	OS, Arch, CPU                           string
	Cores, GOMAXPROCS                       int
	CgroupCPUs                              float64
	CPUs, ServerCPUs                        string
}

func identify(r *Run) identity {
	return identity{
		Algo: r.Algo, Client: r.Client,
		Kind: r.Server.Kind, Product: r.Server.Product, Version: r.Server.Version,
		Source: r.Server.Source, Options: r.Server.Options, Topology: r.Server.Topology, Nodes: len(r.Server.Nodes), Addresses: r.Server.given(),
		Load: used(r.Load), Config: canonical(r.Config), Faults: r.AskedFaults(),
		OS: r.Env.OS, Arch: r.Env.Arch, CPU: r.Env.CPU,
		Cores: r.Env.Cores, GOMAXPROCS: r.Env.GOMAXPROCS, CgroupCPUs: r.Env.CgroupCPUs,
		CPUs: r.Env.CPUs, ServerCPUs: r.Env.ServerCPUs,
	}
}

// used returns l without what a stored run holds as achieved, which differs between
// repetitions by the jitter of timers.
func used(l Load) Load {
	l = l.Filled()
	l.Warmup = 0
	if l.Ops > 0 {
		l.For = 0
	}
	return l
}

// asked is used with the window that was asked for: the yardstick of a block is that of
// a run whose window was made longer, too.
func asked(l Load) Load {
	l = used(l)
	l.For, l.Grown = l.AskedFor(), 0
	return l
}

// canonical returns JSON with its object keys sorted and its white space
// removed, so that equal configurations are equal strings. What is no JSON
// stays as it is.
func canonical(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // a float64 would merge two durations above 2⁵³ ns
	var v any
	if d.Decode(&v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}

// AskedFaults is what the trial of r asked for, such as "kill@100ms:2", with blanks
// between several; where its name tells of none, the kinds of those that struck,
// whose instants vary from run to run. "" is none.
func (r *Run) AskedFaults() string {
	var asked, struck []string
	for part := range strings.SplitSeq(r.Trial, "/") {
		if f, ok := strings.CutPrefix(part, "fault="); ok {
			asked = append(asked, f)
		}
	}
	for _, f := range r.Faults {
		struck = append(struck, f.Kind)
	}
	if len(asked) == 0 {
		asked = struck
	}
	slices.Sort(asked)
	return strings.Join(asked, " ")
}

// server is the part of id that tells what served a run, in words.
func (id identity) server() string {
	return fmt.Sprintf("%q", []string{id.Kind, id.Product, id.Version, id.Source, id.Options, fmt.Sprint(id.Nodes, " nodes"), id.Addresses})
}

// machine is the part of id that tells where a run took place.
func (id identity) machine() string {
	return fmt.Sprintf("%q", []string{id.OS, id.Arch, id.CPU, fmt.Sprint(id.Cores, id.CgroupCPUs, id.GOMAXPROCS), id.CPUs, id.ServerCPUs})
}
