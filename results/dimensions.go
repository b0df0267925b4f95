package results

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limits of a trial, which bound the memory that a run takes.
const (
	MaxProcs    = 256
	MaxOwners   = 100_000
	MaxKeys     = 1_000_000
	MaxNodes    = 15 // each is a server process of its own
	MaxDepth    = 16
	MaxTogether = 64
	MaxRTT      = 10 * time.Second
	MaxTime     = 24 * time.Hour // of a phase of the run, and the mean of a hold or a pause

	// MaxTTL bounds the durations of a lock's configuration. Locks take no longer ones.
	MaxTTL = 100 * 365 * 24 * time.Hour

	maxRate = 1e9 // arrivals a second
)

// Dimensions lists every dimension, in the order of the names of trials. A new one is an
// entry here, and the code that acts on it.
func Dimensions() []Dimension {
	const longest, lasting = float64(MaxTime / time.Second), float64(MaxTTL / time.Second)
	return []Dimension{
		{Name: "algo", of: func(r *Run) string { return r.Algo }},
		{Name: "client", of: func(r *Run) string { return r.Client }},
		{Name: "server", Quiet: true, Parts: Apart, Served: true, of: serverOf},
		{Name: "machine", Quiet: true, Parts: Apart, of: machineOf},
		{Name: "server-cpus", Quiet: true, Parts: Crowded, Served: true, of: func(r *Run) string { return r.Env.ServerCPUs }},
		{Name: "nodes", Kind: Whole, Min: 1, Max: MaxNodes, Parts: Crowded, Served: true,
			Help: "`numbers` of independent servers, for the variants that need several (default what each needs)",
			of:   nodesOf},

		{Name: "procs", Kind: Whole, Max: MaxProcs, Parts: Crowded, Last: true, Caption: "{} process(es)",
			Help: "`numbers` of processes that share the owners, though each has one at least; 0 is this one alone",
			load: func(l *Load) any { return &l.Procs }},
		{Name: "clients", Kind: Whole, Default: "1", Min: 1, Max: MaxOwners, Parts: Crowded, Last: true, Caption: "{} client(s)",
			Help: "`numbers` of clients of a process, each with connections of its own, that share its owners",
			load: func(l *Load) any { return &l.Clients }},
		{Name: "owners", Kind: Whole, Default: "1,8,32", Always: true, Min: 1, Max: MaxOwners, Last: true,
			Help: "`numbers` of concurrent acquirers; a list such as 1,8,32 measures each",
			load: func(l *Load) any { return &l.Owners }},
		{Name: "keys", Kind: Whole, Default: "1", Always: true, Min: 1, Max: MaxKeys, Parts: Apart, Caption: "{} key(s)",
			Help: "`numbers` of keys",
			load: func(l *Load) any { return &l.Keys }},
		{Name: "skew", Kind: Real, Default: "0", Max: 1e9, Parts: Apart, Caption: "Zipf {}",
			Help: "Zipf `exponents` of the choice among the keys, 0 for an even one",
			load: func(l *Load) any { return &l.Skew }},
		{Name: "own-keys", Kind: Flag, Default: "false", Parts: Apart, Caption: "each owner takes its own",
			Help: "give every owner a key of its own, as far as -keys goes, instead of a choice",
			load: func(l *Load) any { return &l.OwnKeys }},
		{Name: "shared", Kind: Share, Default: "0", Max: 1, Parts: Apart, Caption: "{} readers",
			Help: "`shares` of the acquires that are readers', from 0 to 1",
			load: func(l *Load) any { return &l.Shared }},
		{Name: "depth", Kind: Whole, Default: "0", Max: MaxDepth, Parts: Apart, Caption: "re-entered {} time(s)",
			Help: "`numbers` of re-entries inside each hold",
			load: func(l *Load) any { return &l.Depth }},
		{Name: "try", Kind: Flag, Default: "false", Parts: Apart, Caption: "one try each",
			Help: "try to acquire once and count refusals instead of waiting",
			load: func(l *Load) any { return &l.Try }},
		{Name: "together", Kind: Whole, Default: "1", Min: 1, Max: MaxTogether, Parts: Apart, Caption: "{} key(s) at once",
			Help: "`numbers` of keys taken at once as one lock",
			load: func(l *Load) any { return &l.Together }},
		{Name: "hold", Kind: Times, Default: "1ms", Always: true, Max: longest, Parts: Apart, Caption: "hold {} asked",
			Help: "`times` inside the lock: 1ms, exp:1ms, lognormal:1ms:0.5",
			load: func(l *Load) any { return &l.Hold }},
		{Name: "think", Kind: Times, Default: "0s", Max: longest, Parts: Apart, Caption: "think {}",
			Help: "`times` between a release and the next acquire, as for -hold",
			load: func(l *Load) any { return &l.Think }},
		{Name: "rate", Kind: Real, Default: "0", Max: maxRate, Parts: Apart, Caption: "open loop, {}/s offered", Otherwise: "closed loop",
			Help: "open loop: `arrivals` a second; 0 is a closed loop",
			load: func(l *Load) any { return &l.Rate }},
		{Name: "stages", Kind: Course, Parts: Apart, Caption: "open loop in stages of {}/s",
			Help: "`stages` of an open loop whose rate changes, each a time and a rate, such as 10s:100,30s:500 for a burst; in the place of -rate and -for",
			load: func(l *Load) any { return &l.Stages }},
		{Name: "wait", Kind: Span, Default: "0s", Max: longest, Parts: Apart, Caption: "waits bounded by {}",
			Help: "`bounds` of one acquire; 0s waits to the end",
			load: func(l *Load) any { return &l.Wait }},
		{Name: "rtt", Kind: Span, Default: "0s", Max: MaxRTT.Seconds(), Parts: Apart, Served: true, Caption: "each round trip {} longer by a proxy",
			Help: "`times` that a proxy adds to each round trip to the servers, such as 0,0.2ms,1ms; 0 is no proxy",
			load: func(l *Load) any { return &l.RTT }},

		{Name: "ttl", Kind: Span, Default: "10s", Min: 1e-9, Max: lasting, Parts: Crowded, Served: true, Caption: "lease {}",
			Help:   "`lifetimes` of a lease that nobody renews",
			config: "ttl_ns"},
		{Name: "renew", Kind: Span, Max: lasting, Parts: Crowded, Served: true,
			Help:   "`times` between renewals, for the variants that renew (default a third of -ttl)",
			config: "renew_ns"},
		{Name: "retry", Kind: Span, Default: "2ms", Min: 1e-9, Max: lasting, Parts: Crowded, Served: true, Caption: "first retry within {}",
			Help:   "first `delays` of the polling variants",
			config: "retry.delay_ns"},
		{Name: "retry-max", Kind: Span, Default: "32ms", Max: lasting, Parts: Crowded, Served: true, Caption: "retries at most {} apart",
			Help:   "longest `delays` of the polling variants",
			config: "retry.max_ns"},
		{Name: "retry-fixed", Kind: Flag, Default: "false", Parts: Crowded, Served: true, config: "retry.fixed"},
		{Name: "retry-limit", Kind: Whole, Default: "0", Parts: Crowded, Served: true, config: "retry.limit"},
		{Name: "timeout", Kind: Span, Default: "3s", Max: lasting, Parts: Crowded, Served: true, Caption: "commands bounded by {}",
			Help:   "`times` for one command to the server",
			config: "timeout_ns"},
		{Name: "node-timeout", Kind: Span, Default: "50ms", Max: lasting, Parts: Crowded, Served: true,
			Help:   "`times` for one command to one of several servers, of which most are enough (default a twentieth of -ttl, at most 50ms)",
			config: "node_timeout_ns"},
		{Name: "conns", Kind: Whole, Max: MaxOwners, Parts: Crowded, Served: true,
			Help:   "most `connections` of one client (default one for each of its owners)",
			config: "conns"},
		{Name: "cohort-passes", Kind: Whole, Default: "256", Min: 1, Max: 1 << 30, Parts: Crowded, Served: true,
			Help:   "most `passes` of a lease inside a client while another waits, for redis-cohort",
			config: "cohort.passes"},
		{Name: "cohort-time", Kind: Span, Default: "100ms", Min: 1e-9, Max: lasting, Parts: Crowded, Served: true,
			Help:   "longest `times` that owners of one client go on passing a lease while another waits, for redis-cohort",
			config: "cohort.time_ns"},
		{Name: "writer-preference", Key: "prefer-writers", Kind: Flag, Default: "false", Parts: Crowded, Served: true, Caption: "writers go first",
			Help:   "let no new reader in while a writer waits, where the variant leaves the choice; =false,true measures both",
			config: "writer_preference"},
		{Name: "fault", Parts: Apart, Served: true, Caption: "faults: {}", of: func(r *Run) string { return strings.Join(r.Asked, " ") }},

		{Name: "for", Kind: Span, Quiet: true, Min: 1e-9, Max: longest, Parts: Crowded,
			Help: "measured `time` of each run (default 1s, unless -ops is given)",
			load: func(l *Load) any { return &l.For }, of: func(r *Run) string { return r.Load.AskedFor().String() }},
		{Name: "ops", Kind: Whole, Quiet: true, Min: 1, Parts: Apart, Caption: "{} attempts a run",
			Help: "measure this `number` of attempts, granted or not, instead of a time",
			load: func(l *Load) any { return &l.Ops }},
		{Name: "warmup", Kind: Span, Quiet: true, Default: "200ms", Max: longest, Parts: Crowded,
			Help: "least `time` before measuring",
			load: func(l *Load) any { return &l.Warmup }},
		{Name: grown, Kind: Whole, Quiet: true, load: func(l *Load) any { return &l.Grown }},
	}
}

// grown is the dimension of windows that were made longer than asked.
const grown = "grown"

// serverOf is what served r, with its address where the user gave it: a server that the
// harness starts has another port each time.
func serverOf(r *Run) string {
	s := r.Server
	return fmt.Sprintf("%q", []string{s.Kind, s.Product, s.Version, s.Source, s.Options, s.Topology, s.given()})
}

// nodesOf is the number of independent servers of r, "" where there is none.
func nodesOf(r *Run) string {
	if len(r.Server.Nodes) == 0 {
		return ""
	}
	return strconv.Itoa(len(r.Server.Nodes))
}

// machineOf is where r took place.
func machineOf(r *Run) string {
	e := r.Env
	return fmt.Sprintf("%q %d %d %g", []string{e.OS, e.Arch, e.CPU, e.CPUs}, e.Cores, e.GOMAXPROCS, e.CgroupCPUs)
}
