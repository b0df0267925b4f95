package plots

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// A set is what may stand in one picture: the groups of one server on one
// machine under one load, but for the number of owners. Locks in memory have no
// server and stand beside every server that was measured under their load. Where
// there is one server of each kind, all kinds share a set, and what their locks
// promise stands beside them.
type set struct {
	suffix string // of file names: "" if there is only one set, else "-redis-7.0.15-binary"
	groups []results.Group
}

// A dimension is one thing in which two sets may differ.
type dimension struct{ results.Dimension }

// of is the value of g; equal values may share a picture.
func (d dimension) of(g *results.Group) string { return d.At(&g.Runs[0]) }

// slug is the part of a file name that tells the pictures of g apart.
func (d dimension) slug(g *results.Group) string {
	switch d.Name {
	case byServer:
		if g.Server.Kind == "" {
			return "memory"
		}
		where := g.Server.Source
		if where == "url" {
			where = strings.Join(addresses(g.Server), "-")
		}
		if g.Server.Topology != "" {
			where += "-" + g.Server.Topology
		}
		return strings.Join([]string{product(g.Server), g.Server.Version, where}, "-")
	case byMachine:
		return fmt.Sprintf("%s-%d-cores", g.Env.CPU, g.Env.Cores)
	}
	return d.Name + "-" + cmp.Or(strings.ReplaceAll(d.of(g), "µ", "u"), "unknown")
}

// The dimensions that pictures and tables know by name.
const (
	byServer  = "server"
	byMachine = "machine"
	byShared  = "shared" // the picture of readers and writers is drawn along it
	byRTT     = "rtt"    // likewise that of round trips
	byProcs   = "procs"  // the terminal's table has a column for it
	byHold    = "hold"
	byRate    = "rate" // the picture of response against offered load is drawn along it
	byStages  = "stages"
)

// parting are the dimensions that keep runs out of one picture.
func parting() (list []dimension) {
	for _, d := range results.Dimensions() {
		if d.Parts != results.Together {
			list = append(list, dimension{d})
		}
	}
	return list
}

// product names what answered, "redis" where it did not say.
func product(s results.Server) string { return cmp.Or(s.Product, s.Kind) }

// sets splits groups into what may be drawn together, in a fixed order. Nothing
// is refused: where a file holds several servers, machines or loads, each gets
// pictures of its own, told apart by the suffix.
func sets(groups []results.Group) []set { return setsAlong(groups) }

// setsAlong is sets for a picture or table that runs along some dimensions: groups that
// differ in these stay together.
func setsAlong(groups []results.Group, axes ...string) []set {
	all := parting()
	if oneOfEachKind(groups) {
		all = slices.DeleteFunc(all, func(d dimension) bool { return d.Name == byServer })
	}
	var along []dimension
	for _, axis := range axes {
		i := slices.IndexFunc(all, func(d dimension) bool { return d.Name == axis })
		along = append(along, all[i])
		all = slices.Delete(all, i, i+1)
	}
	place := func(g *results.Group) (at string) {
		for _, d := range along {
			at += d.of(g) + " "
		}
		return at
	}
	// Those that part only what is crowded join in turn, until no picture has two groups
	// for one place.
	var dims []dimension
	for _, d := range all {
		if d.Parts == results.Apart {
			dims = append(dims, d)
		}
	}
	parts := split(groups, dims)
	for _, d := range all {
		if d.Parts != results.Crowded {
			continue
		}
		if finer := split(groups, append(slices.Clone(dims), d)); crowded(finer, place) < crowded(parts, place) {
			dims = append(dims, d)
			parts = finer
		}
	}
	suffixes(parts, dims)
	return parts
}

// oneOfEachKind reports whether groups are of several kinds of servers, and of one
// server of each.
func oneOfEachKind(groups []results.Group) bool {
	d, _ := results.DimensionOf(byServer)
	kinds := make(map[string]string)
	for i := range groups {
		g := &groups[i]
		if g.Server.Kind == "" {
			continue
		}
		if one, ok := kinds[g.Server.Kind]; ok && one != d.At(&g.Runs[0]) {
			return false
		}
		kinds[g.Server.Kind] = d.At(&g.Runs[0])
	}
	return len(kinds) > 1
}

// split collects the groups that agree in all dims, in their order. Groups without a
// server are put beside every server that they agree with otherwise.
func split(groups []results.Group, dims []dimension) []set {
	const sep = "\x00"
	key := func(g *results.Group, served bool) string {
		var b strings.Builder
		for _, d := range dims {
			if d.Served == served {
				b.WriteString(d.of(g) + sep)
			}
		}
		return b.String()
	}
	byKey := make(map[string][]results.Group)
	served := make(map[string][]string) // load → keys of the sets with a server
	for i := range groups {
		g := &groups[i]
		if g.Server.Kind == "" {
			continue
		}
		load := key(g, false)
		k := load + sep + key(g, true)
		if byKey[k] == nil {
			served[load] = append(served[load], k)
		}
		byKey[k] = append(byKey[k], *g)
	}
	for i := range groups {
		g := &groups[i]
		if g.Server.Kind != "" {
			continue
		}
		load := key(g, false)
		if served[load] == nil {
			served[load] = []string{load}
		}
		for _, k := range served[load] {
			byKey[k] = append(byKey[k], *g)
		}
	}
	var list []set
	for _, part := range byKey {
		list = append(list, set{groups: part})
	}
	slices.SortFunc(list, func(a, b set) int {
		for _, d := range dims {
			if c := d.Compare(d.of(a.lead()), d.of(b.lead())); c != 0 {
				return c
			}
		}
		return 0
	})
	return list
}

// crowded counts the groups that another one of their set leaves no place for.
func crowded(parts []set, along func(*results.Group) string) int {
	n := 0
	for _, s := range parts {
		type place struct {
			name   string
			owners int
			along  string
		}
		seen := make(map[place]bool)
		for _, g := range s.groups {
			p := place{g.Name(), g.Load.Owners, along(&g)}
			if seen[p] {
				n++
			}
			seen[p] = true
		}
	}
	return n
}

// servers lists what served the groups of s, one of each kind, by kind.
func (s *set) servers() []results.Server {
	var all []*results.Group
	for i := range s.groups {
		all = append(all, &s.groups[i])
	}
	return serversOf(all)
}

// serversOf is the same of groups.
func serversOf(groups []*results.Group) (list []results.Server) {
	for _, g := range groups {
		has := func(other results.Server) bool { return other.Kind == g.Server.Kind }
		if g.Server.Kind != "" && !slices.ContainsFunc(list, has) {
			list = append(list, g.Server)
		}
	}
	slices.SortFunc(list, func(a, b results.Server) int { return cmp.Compare(a.Kind, b.Kind) })
	if len(list) == 0 && len(groups) > 0 {
		list = append(list, groups[0].Server)
	}
	return list
}

// lead is the group that speaks for the load of s: the first one with a server.
func (s *set) lead() *results.Group {
	for i := range s.groups {
		if s.groups[i].Server.Kind != "" {
			return &s.groups[i]
		}
	}
	return &s.groups[0]
}

// maxSuffix is the most bytes that a suffix takes, so that the name of a file, with its
// picture before it, takes no more than 100.
const maxSuffix = 72

// locks counts the locks of s that are no yardsticks.
func (s *set) locks() int {
	names := make(map[string]bool)
	for i := range s.groups {
		if g := &s.groups[i]; !results.IsYardstick(g.Algo) {
			names[g.Name()] = true
		}
	}
	return len(names)
}

// suffixes names the sets by what tells them apart.
func suffixes(parts []set, dims []dimension) {
	if len(parts) < 2 {
		return
	}
	used := make(map[string]int)
	for _, d := range dims {
		values := make(map[string]bool)
		for i := range parts {
			values[d.of(parts[i].lead())] = true
		}
		if len(values) < 2 {
			continue
		}
		for i := range parts {
			if s := slug(d.slug(parts[i].lead())); s != "" {
				parts[i].suffix += "-" + s
			}
		}
	}
	for i := range parts {
		if s := parts[i].suffix; len(s) > maxSuffix {
			hash := fnv.New32a()
			_, _ = hash.Write([]byte(s)) // it never fails
			parts[i].suffix = fmt.Sprintf("%s-%08x", strings.TrimRight(s[:maxSuffix-9], "-."), hash.Sum32())
		}
		used[parts[i].suffix]++
		if n := used[parts[i].suffix]; n > 1 {
			parts[i].suffix += "-" + strconv.Itoa(n)
		}
	}
}

// slug keeps letters, digits and dots of s, in lower case, with single dashes
// between.
func slug(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.'
	})
	return strings.Trim(strings.Join(words, "-"), ".")
}

// A series is one variant of a set: its groups by rising number of owners.
type series struct {
	name         string
	algo, client string
	groups       []*results.Group
	look         look
}

// series lists the variants of s that are locks, by name, and the names of those
// that are not: a variant that declares that it excludes nobody is a control of
// the safety check, and the rate at which it grants what it does not protect
// would only squeeze the locks together. Tables have it.
func (s *set) series() (list []series, controls []string) {
	byName := make(map[string]int)
	for i := range s.groups {
		g := &s.groups[i]
		name := g.Name()
		if slices.Contains(g.Runs[0].Unsafe, noExclusion) {
			if !slices.Contains(controls, name) {
				controls = append(controls, name)
			}
			continue
		}
		k, ok := byName[name]
		if !ok {
			k = len(list)
			byName[name] = k
			list = append(list, series{name: name, algo: g.Algo, client: g.Client, look: lookOf(g.Algo, g.Client)})
		}
		list[k].groups = append(list[k].groups, g)
	}
	for _, v := range list {
		slices.SortStableFunc(v.groups, func(a, b *results.Group) int { return cmp.Compare(a.Load.Owners, b.Load.Owners) })
	}
	slices.SortFunc(list, func(a, b series) int { return cmp.Compare(a.name, b.name) })
	for i := range list {
		list[i].name, list[i].algo = short(list[i].name), short(list[i].algo)
	}
	withoutClients(list)
	slices.Sort(controls)
	return list, controls
}

// withoutClients takes the clients out of list where each lock ran on one: then their
// names tell nothing apart.
func withoutClients(list []series) {
	for i, v := range list {
		if slices.ContainsFunc(list[:i], func(u series) bool { return u.algo == v.algo }) {
			return
		}
	}
	for i := range list {
		v := &list[i]
		v.name, v.client, v.look = v.algo, "", lookOf(v.algo, "")
	}
}

// swept are those of list that were measured at several numbers of owners, where list is
// too long for one picture, and a note on the others; else all of list.
func (s *set) swept(list []series) ([]series, string) {
	if len(list) <= tooMany {
		return list, ""
	}
	var some []series
	locks, left := 0, 0
	for _, v := range list {
		if len(v.groups) == 1 {
			left++
			continue
		}
		some = append(some, v)
		if !results.IsYardstick(v.algo) {
			locks++
		}
	}
	if left == 0 || locks < 2 {
		return list, ""
	}
	withoutClients(some)
	return some, fmt.Sprintf("%s more at one number of owners only: see the landscape and %s.", plural(left, "lock"), SummaryFile)
}

// short keeps a name from taking the room of the data.
func short(name string) string {
	const most = 32
	if list := []rune(name); len(list) > most {
		return string(list[:most-1]) + "…"
	}
	return name
}

// noExclusion is the hazard that a negative control declares, as it is stored.
const noExclusion = "no-exclusion"

// at returns the group of v with that many owners, or nil.
func (v *series) at(owners int) *results.Group {
	for _, g := range v.groups {
		if g.Load.Owners == owners {
			return g
		}
	}
	return nil
}

// owners lists the measured numbers of owners, rising.
func (s *set) owners() []int {
	var list []int
	for _, g := range s.groups {
		list = append(list, g.Load.Owners)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// clients lists the client libraries of list, the one with the plain look first.
func clients(list []series) []string {
	var names []string
	for _, v := range list {
		if v.client != "" && !slices.Contains(names, v.client) {
			names = append(names, v.client)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		dotted := func(client string) int { return len(lookOf("", client).dash) }
		return cmp.Or(cmp.Compare(dotted(a), dotted(b)), cmp.Compare(a, b))
	})
	return names
}

// tooMany is the number of lines up to which one panel stays readable.
const tooMany = 14

// mostLines is the number of lines up to which a picture with a panel for each client does.
const mostLines = 2 * tooMany

// facets splits list by client where it is too long for one panel: every panel
// then has the lines of one client and those that have none. Otherwise it is one
// facet without a title.
func facets(list []series) (parts [][]series, titles []string) {
	names := clients(list)
	if len(list) <= tooMany || len(names) < 2 {
		return [][]series{list}, []string{""}
	}
	for _, client := range names {
		var part []series
		for _, v := range list {
			if v.client == "" || v.client == client {
				v.name = v.algo
				part = append(part, v)
			}
		}
		parts = append(parts, part)
		titles = append(titles, client)
	}
	return parts, titles
}
