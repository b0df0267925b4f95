package main

import (
	"errors"
	"flag"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/etcdchild"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// A list is a flag with one or more values, separated by commas or given by
// repeating the flag. The first use replaces the default.
type list[T any] struct {
	values *[]T
	parse  func(string) (T, error)
	given  bool
}

func (l *list[T]) Set(text string) error {
	var all []T
	for part := range strings.SplitSeq(text, ",") {
		v, err := l.parse(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		all = append(all, v)
	}
	if l.given {
		all = slices.Concat(*l.values, all)
	}
	*l.values, l.given = all, true
	return nil
}

// many tells flags that take several values from those that take one.
func (*list[T]) many() {}

func (l *list[T]) String() string {
	if l == nil || l.values == nil { // the flag package asks a zero value
		return ""
	}
	var parts []string
	for _, v := range *l.values {
		parts = append(parts, fmt.Sprint(v))
	}
	return strings.Join(parts, ",")
}

// A bounded is a flag with one value that has to pass a check.
type bounded[T any] struct {
	value *T
	parse func(string) (T, error)
}

func (b bounded[T]) Set(text string) (err error) {
	v, err := b.parse(text)
	if err == nil {
		*b.value = v
	}
	return err
}

func (b bounded[T]) String() string {
	if b.value == nil {
		return ""
	}
	return fmt.Sprint(*b.value)
}

// A choices is a list of yes or no; the flag alone is yes.
type choices struct{ list[bool] }

// IsBoolFlag tells the flag package that no value needs to follow.
func (*choices) IsBoolFlag() bool { return true }

// flags declares the flags of a grid on fs, with what is in g as defaults.
func (g *grid) flags(fs *flag.FlagSet) {
	fs.Var(&list[string]{values: &g.algos, parse: pattern}, "algo", "`patterns` of the algorithms to measure, such as redis-*,local-mutex; see lockbench list")
	fs.Var(&list[string]{values: &g.clients, parse: pattern}, "client", "`patterns` of client libraries (default all)")
	fs.Var(&list[int]{values: &g.owners, parse: whole(1, harness.MaxOwners)}, "owners", "`numbers` of concurrent acquirers; here and below a list makes a grid")
	fs.Var(&list[int]{values: &g.procs, parse: whole(0, harness.MaxProcs)}, "procs", fmt.Sprintf("`numbers` of processes that share the owners, though each has one at least; 0 is this one alone (default %d, or 1 where -clients is given)", harness.DefaultProcs()))
	fs.Var(&list[int]{values: &g.lockers, parse: whole(1, harness.MaxOwners)}, "clients", "`numbers` of clients of a process, each with connections of its own, that share its owners (default 1)")
	fs.Var(&list[int]{values: &g.keys, parse: whole(1, harness.MaxKeys)}, "keys", "`numbers` of keys")
	fs.Var(&list[float64]{values: &g.skews, parse: positive}, "skew", "Zipf `exponents` of the choice among the keys, 0 for an even one")
	fs.Var(&list[results.Dist]{values: &g.holds, parse: results.ParseDist}, "hold", "`times` inside the lock: 1ms, exp:1ms, lognormal:1ms:0.5")
	fs.Var(&list[results.Dist]{values: &g.thinks, parse: results.ParseDist}, "think", "`times` between a release and the next acquire, as for -hold")
	fs.Var(&list[float64]{values: &g.rates, parse: positive}, "rate", "open loop: `arrivals` a second; 0 is a closed loop")
	fs.Var(&list[time.Duration]{values: &g.waits, parse: span}, "wait", "`bounds` of one acquire; 0s waits to the end")
	fs.Var(&list[time.Duration]{values: &g.ttls, parse: lasting}, "ttl", "`lifetimes` of a lease that nobody renews")
	fs.Var(&list[time.Duration]{values: &g.retries, parse: lasting}, "retry", "first `delays` of the polling variants")
	fs.Var(&list[int]{values: &g.nodes, parse: whole(1, maxNodes)}, "nodes", "`numbers` of independent servers, for the variants that need several (default what each needs)")

	fs.Var(&list[time.Duration]{values: &g.rtts, parse: span}, "rtt", "`times` that a proxy adds to each round trip to the servers, such as 0,0.2ms,1ms; 0 is no proxy")

	fs.Var(&list[float64]{values: &g.shared, parse: share}, "shared", "`shares` of the acquires that are readers', from 0 to 1")
	fs.Var(&choices{list[bool]{values: &g.writers, parse: yes}}, "writer-preference", "let no new reader in while a writer waits, where the variant leaves the choice; =false,true measures both")
	fs.Var(&list[int]{values: &g.depths, parse: whole(0, harness.MaxDepth)}, "depth", "`numbers` of re-entries inside each hold")
	fs.Var(&list[int]{values: &g.togethers, parse: whole(1, harness.MaxTogether)}, "together", "`numbers` of keys taken at once as one lock")
	fs.BoolVar(&g.try, "try", g.try, "try to acquire once and count refusals instead of waiting")

	fs.BoolVar(&g.ownKeys, "own-keys", g.ownKeys, "give every owner a key of its own, as far as -keys goes, instead of a choice")
	fs.Var(bounded[time.Duration]{&g.warmup, span}, "warmup", "least `time` before measuring")
	fs.Var(bounded[time.Duration]{&g.window, lasting}, "for", "measured `time` of each run (default 1s, unless -ops is given)")
	fs.Var(bounded[int64]{&g.ops, grants}, "ops", "measure this `number` of attempts, granted or not, instead of a time")
	fs.Var(bounded[time.Duration]{&g.renew, span}, "renew", "`time` between renewals, for the variants that renew (default a third of -ttl)")
	fs.Var(bounded[time.Duration]{&g.retryMax, span}, "retry-max", "longest `delay` of the polling variants (default "+lock.DefaultRetryMax.String()+")")
	fs.Var(bounded[time.Duration]{&g.timeout, span}, "timeout", "`time` for one command to the server (default "+lock.DefaultTimeout.String()+")")
	fs.Var(bounded[time.Duration]{&g.nodeTimeout, span}, "node-timeout", "`time` for one command to one of several servers, of which most are enough (default a twentieth of -ttl, at most "+lock.MaxNodeTimeout.String()+")")
	fs.Var(bounded[int]{&g.conns, whole(0, harness.MaxOwners)}, "conns", "most `connections` of one client (default one for each of its owners)")
	fs.Var(bounded[int]{&g.cohort.Passes, whole(1, 1<<30)}, "cohort-passes", "most `passes` of a lease inside a client while another waits, for redis-cohort (default "+strconv.Itoa(lock.DefaultCohortPasses)+")")
	fs.Var(bounded[time.Duration]{&g.cohort.Time, lasting}, "cohort-time", "longest `time` of the same (default "+lock.DefaultCohortTime.String()+")")
	fs.Var(&list[fault.Fault]{values: &g.faults, parse: fault.Parse}, "fault", "`faults` of every run: "+fault.Help()+" (at 2 s after measuring began, for 500 ms, the first one only)")

	fs.Var(bounded[int]{&g.repeat, whole(1, 1000)}, "repeat", "`number` of interleaved repetitions of the whole grid")
	fs.Var(bounded[uint64]{&g.seed, func(s string) (uint64, error) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			err = errors.New("want a whole number from 0")
		}
		return n, err
	}}, "seed", "`number` that all random choices come from; the same seed replays the same plan")
	fs.BoolVar(&g.yardstick, "yardstick", g.yardstick, "measure "+results.Yardstick+", or "+results.SharedYardstick+" where there are readers, beside every load; handoff-efficiency needs it")
}

// maxNodes bounds -nodes: each is a server process of its own.
const maxNodes = 15

func pattern(text string) (string, error) {
	if _, err := path.Match(text, ""); err != nil || text == "" {
		return "", errors.New("want names with * and ? and [a-z], separated by commas")
	}
	return text, nil
}

func whole(from, to int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < from || n > to {
			return 0, fmt.Errorf("want whole numbers from %d to %d, such as %d", from, to, max(from, 8))
		}
		return n, nil
	}
}

// grants reads a number of operations.
func grants(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, errors.New("want a whole number from 1, such as 1000")
	}
	return n, nil
}

func positive(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= 1e9) {
		return 0, errors.New("want numbers from 0, such as 0.99 or 500")
	}
	return x, nil
}

// share reads a part of 1.
func share(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0 && x <= 1) {
		return 0, errors.New("want numbers from 0 to 1, such as 0.95")
	}
	return x, nil
}

func yes(text string) (bool, error) {
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, errors.New("want true or false, or both")
	}
	return v, nil
}

// span reads a duration that may be 0.
func span(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("want a time with its unit, such as 500ms or 2s")
	}
	return d, nil
}

// lasting reads a duration above 0.
func lasting(text string) (time.Duration, error) {
	d, err := span(text)
	if err == nil && d == 0 {
		err = errors.New("want a time above 0, such as 500ms or 2s")
	}
	return d, err
}

// addresses is the flag that names servers of a kind. Its commas separate
// addresses, and the hosts of one that has several.
type addresses struct {
	kind   server.Kind
	values *[]lock.Endpoint
}

func (a addresses) Set(text string) error {
	list := server.Addresses(text)
	if len(list) == 0 {
		return errors.New("want " + strings.Join(a.kind.Addresses, " or "))
	}
	*a.values = append(*a.values, list...)
	return nil
}

func (addresses) many() {}

func (a addresses) String() string {
	if a.values == nil || len(*a.values) == 0 { // the flag package asks a zero value
		return ""
	}
	return fmt.Sprint(*a.values)
}

// sources are the flags that say where servers come from, by kind.
type sources struct {
	urls       map[string]*[]lock.Endpoint
	topologies map[string]*string
	images     map[string]*string
	from       server.Source
}

func (s *sources) flags(fs *flag.FlagSet) {
	s.urlFlags(fs)
	fs.Var(bounded[server.Source]{&s.from, func(text string) (server.Source, error) {
		switch from := server.Source(text); from {
		case server.URL, server.Binary, server.Docker, server.Embedded:
			return from, nil
		}
		return "", errors.New("want url, binary, docker or embedded")
	}}, "server", "allow only this `source` of servers: url, binary, docker or embedded (default the first that works, or $LOCKBENCH_SERVER)")
	s.topologies, s.images = map[string]*string{}, map[string]*string{}
	for _, k := range server.Kinds() {
		s.topologies[k.Name], s.images[k.Name] = new(string), new(string)
		if len(k.Topologies) > 0 {
			fs.Var(bounded[string]{s.topologies[k.Name], func(text string) (string, error) {
				_, err := server.ParseTopology(k.Name, text)
				return text, err
			}}, k.Name+"-topology", fmt.Sprintf("`topology` of the %s servers that are started: single or %s (default single, or $%s)",
				k.Name, joined(k.Topologies), k.Env("TOPOLOGY")))
		}
		fs.StringVar(s.images[k.Name], k.Name+"-image", "", fmt.Sprintf("container `image` of %s (default $%s, or one of this module's or a public one)", k.Name, k.Env("IMAGE")))
	}
}

// joined is a list for a sentence.
func joined(list []lock.Topology) string {
	var names []string
	for _, t := range list {
		names = append(names, string(t))
	}
	return strings.Join(names, " or ")
}

// urlFlags declares the flags of sources that lock has too.
func (s *sources) urlFlags(fs *flag.FlagSet) {
	s.urls = map[string]*[]lock.Endpoint{}
	for _, k := range server.Kinds() {
		s.urls[k.Name] = new([]lock.Endpoint)
		fs.Var(addresses{k, s.urls[k.Name]}, k.Name, fmt.Sprintf("`URL` of %s that runs already: %s; several independent ones by commas (default $%s)",
			k.Name, strings.Join(k.Addresses, ", "), k.Env("URL")))
	}
}

// options are the flags, each over its environment variable.
func (s *sources) options() (server.Options, error) {
	o, err := server.FromEnv()
	if err != nil {
		return o, misuse("%w", err)
	}
	o.Embeds = etcdchild.Embeds() // as main sees to
	if s.from != "" {
		o.Source = s.from
	}
	for _, k := range server.Kinds() {
		from := k.Env("URL")
		if list := *s.urls[k.Name]; len(list) > 0 {
			from = "-" + k.Name
			if s.from != "" && s.from != server.URL {
				return o, misuse("-%s names a server and -server %s wants another: give one of them", k.Name, s.from)
			}
			o.URLs[k.Name] = list
			if s.from == "" {
				o.Source = "" // of the environment, which a flag goes before
			}
		}
		for _, e := range o.URLs[k.Name] { // not by the flag: its error would repeat the address
			if err := k.Check(e); err != nil {
				return o, misuse("%s: %w", from, err)
			}
		}
		if t := s.topologies[k.Name]; t != nil && *t != "" {
			o.Topologies[k.Name], _ = server.ParseTopology(k.Name, *t) // checked when it was read
		}
		if i := s.images[k.Name]; i != nil && *i != "" {
			o.Images[k.Name] = *i
		}
	}
	return o, nil
}
