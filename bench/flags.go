package bench

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls"
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
func (*list[T]) many() bool { return true }

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

// A setting is the flag of a dimension: a value, or several by commas or by repeating the
// flag, where the name of a trial tells them apart.
type setting struct {
	g     *grid
	d     results.Dimension
	given bool
}

func (f *setting) Set(text string) error {
	parts := strings.Split(text, ",")
	if f.d.Kind == results.Course {
		parts = []string{text}
	}
	var all []string
	for _, part := range parts {
		part = strings.TrimSpace(part)
		if err := f.d.Set(new(results.Settings), part); err != nil {
			return err
		}
		all = append(all, part)
	}
	if f.given && !f.d.Quiet {
		all = slices.Concat(f.g.values[f.d.Name], all)
	}
	if f.d.Quiet && len(all) > 1 {
		return errors.New("want one value")
	}
	f.g.values, f.given = maps.Clone(f.g.values), true // another grid may have the same
	if f.g.values == nil {
		f.g.values = make(map[string][]string)
	}
	f.g.values[f.d.Name] = all
	return nil
}

// many tells flags that take several values from those that take one.
func (f *setting) many() bool { return !f.d.Quiet }

func (f *setting) String() string {
	if f.g == nil { // the flag package asks a zero value
		return ""
	}
	return strings.Join(f.g.valuesOf(f.d), ",")
}

// IsBoolFlag tells the flag package that no value needs to follow.
func (f *setting) IsBoolFlag() bool { return f.d.Kind == results.Flag }

// flags declares the flags of a grid on fs, with what is in g as defaults.
func (g *grid) flags(fs *flag.FlagSet) {
	fs.Var(&list[string]{values: &g.algos, parse: pattern}, "algo", "`patterns` of the algorithms to measure, such as redis-*,local-mutex; see lockbench list")
	fs.Var(&list[string]{values: &g.clients, parse: pattern}, "client", "`patterns` of client libraries; all is each that has the lock (default the first on each kind of server)")
	for _, d := range results.Dimensions() {
		if d.Help == "" {
			continue
		}
		help := d.Help
		if d.Name == procs {
			help += fmt.Sprintf(" (default %d, or 1 where -clients is given)", harness.DefaultProcs())
		}
		fs.Var(&setting{g: g, d: d}, d.Name, help)
	}
	fs.Var(&list[fault.Fault]{values: &g.faults, parse: fault.Parse}, "fault", "`faults` of every run: "+fault.Help()+" (at 2 s after measuring began, for 500 ms, the first one only). What is struck: "+fault.Targets())

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

// span reads a duration that may be 0.
func span(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errors.New("want a time with its unit, such as 500ms or 2s")
	}
	if d > lock.MaxTTL {
		return 0, fmt.Errorf("want at most %v", lock.MaxTTL)
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

func (addresses) many() bool { return true }

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
	natsSync   string // "" leaves it to the environment
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
	fs.Var(bounded[string]{&s.natsSync, func(text string) (string, error) {
		_, err := server.ParseSync(text)
		return text, err
	}}, "nats-sync", "`when` a NATS that is started syncs its disk: always, before it confirms a write, or default, every 2 minutes (default $LOCKBENCH_NATS_SYNC)")
	s.topologies, s.images = map[string]*string{}, map[string]*string{}
	for _, k := range server.Kinds() {
		s.topologies[k.Name], s.images[k.Name] = new(string), new(string)
		if len(k.Topologies) > 0 {
			names := []string{"single"}
			for _, t := range k.Topologies {
				names = append(names, string(t))
			}
			fs.Var(bounded[string]{s.topologies[k.Name], func(text string) (string, error) {
				_, err := server.ParseTopology(k.Name, text)
				return text, err
			}}, k.Name+"-topology", "`topology` of the servers that are started: "+words(names, "or")+" (default single)")
		}
		fs.StringVar(s.images[k.Name], k.Name+"-image", "", "container `image` of the server (default one of this module's or a public one)")
	}
}

// urlFlags declares the flags of sources that lock has too.
func (s *sources) urlFlags(fs *flag.FlagSet) {
	s.urls = map[string]*[]lock.Endpoint{}
	for _, k := range server.Kinds() {
		s.urls[k.Name] = new([]lock.Endpoint)
		fs.Var(addresses{k, s.urls[k.Name]}, k.Name, "`URL` of one that runs: "+strings.Join(k.Addresses, ", "))
	}
}

// given are the kinds of the servers that a flag names.
func (s *sources) given() (kinds []string) {
	for _, k := range server.Kinds() {
		if len(*s.urls[k.Name]) > 0 {
			kinds = append(kinds, k.Name)
		}
	}
	return kinds
}

// used is an error if a flag names a server on which none of chosen runs.
func (s *sources) used(chosen []lock.Variant) error {
	for _, kind := range s.given() {
		needs := func(v lock.Variant) bool { return v.Needs.Kind == kind }
		if slices.ContainsFunc(chosen, needs) {
			continue
		}
		who := "none of the chosen locks runs"
		if len(chosen) == 1 {
			who = chosen[0].Name() + " does not run"
		} else if algos := algosOf(chosen); len(algos) == 1 {
			who = algos[0] + " does not run"
		}
		all := impls.All()
		such := slices.IndexFunc(all, func(v lock.Variant) bool {
			return needs(v) && v.Unsafe&(lock.Crash|lock.CrashMidway|lock.LateRelease) == 0
		})
		return misuse("-%s names a server, but %s on %s: leave it away, or choose a lock that does, such as %s",
			kind, who, kind, all[max(such, 0)].Algo)
	}
	return nil
}

// options are the flags, each over its environment variable.
func (s *sources) options() (server.Options, error) {
	o, err := server.FromEnv()
	if err != nil {
		return o, misuse("%w", err)
	}
	o.Embeds = builtin.Embeds() // as main sees to
	if s.from != "" {
		o.Source = s.from
	}
	if s.natsSync != "" {
		o.SyncAlways, _ = server.ParseSync(s.natsSync) // checked when it was read
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
