package plots

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockbench/lockbench/results"
)

// caption says under a picture, in about three lines, how to read it, what was measured
// and where, and whether it may be believed. Extra explains the drawing itself. Invalid
// tells how the picture treats runs that are not valid. Promises, settings of servers
// and the rest of the machine stand in the summary.
func (s *set) caption(groups []*results.Group, invalid string, extra ...string) (lines []remark) {
	how := strings.Join(slices.DeleteFunc(slices.Clone(extra), func(e string) bool { return e == "" }), " ")
	if how != "" {
		lines = append(lines, remark{text: strings.Join(strings.Split(how, "  "), " ")})
	}
	e := s.lead().Env
	servers := serversOf(groups)
	where := []string{served(servers), cmp.Or(e.CPU, "unknown CPU") + ", " + plural(e.Cores, "core"), load(groups) + "; " + repeats(groups)}
	text := strings.Join(where, "; ") + "."
	if kindsOf(groups) > 1 {
		text += " The locks do not promise the same: see " + SummaryFile + "."
	}
	lines = append(lines, remark{text: text})
	for _, one := range servers {
		if r := server(one); r.loud {
			lines = append(lines, r)
		}
	}
	if v := violations(groups); v != "" {
		lines = append(lines, remark{text: v, loud: true})
	}
	if v := validity(groups, invalid); v.loud {
		lines = append(lines, v)
	}
	return lines
}

// served names the servers of list in a few words.
func served(list []results.Server) string {
	var names []string
	for _, one := range list {
		name := product(one)
		if name == "" {
			name = "no server"
		}
		if one.Version != "" {
			name += " " + one.Version
		}
		if one.Topology != "" {
			name += " (" + one.Topology + ")"
		}
		if one.Source == "url" {
			name += " at " + strings.Join(addresses(one), ", ")
		}
		names = append(names, name)
	}
	return cmp.Or(strings.Join(names, ", "), "no server")
}

// kindsOf counts the kinds of servers of groups.
func kindsOf(groups []*results.Group) int {
	seen := make(map[string]bool)
	for _, g := range groups {
		if g.Server.Kind != "" {
			seen[g.Server.Kind] = true
		}
	}
	return len(seen)
}

// server says what served the runs and how it came about.
func server(s results.Server) remark {
	name := product(s)
	if s.Version != "" {
		name += " " + s.Version
	}
	if s.Topology != "" {
		name += ", " + s.Topology
	}
	switch {
	case s.Source == "embedded" && s.Product == s.Kind: // and no imitation
		name += " (in a child process of lockbench)"
	case s.Source == "embedded":
		return remark{text: "Server: EMBEDDED " + name + " – not a real " + capital(cmp.Or(s.Kind, "server")) + ": it shares this process, and its times and costs say little about one.", loud: true}
	case s.Source == "binary":
		name += " (binary started by lockbench)"
	case s.Source == "docker":
		name += " (container started by lockbench)"
	case s.Source == "url":
		name += " (at " + strings.Join(addresses(s), ", ") + ")"
	default:
		if s.Kind == "" {
			return remark{text: "Server: none, locks in memory."}
		}
	}
	if s.Options != "" {
		name += ", " + s.Options
	}
	return remark{text: "Server: " + name + "."}
}

// addresses lists the nodes of s. They are stored without a password, but a file
// from elsewhere may not keep to that.
func addresses(s results.Server) []string {
	var list []string
	for _, n := range s.Nodes {
		list = append(list, n[strings.LastIndexByte(n, '@')+1:])
	}
	return list
}

// capital writes the first letter of an ASCII word large.
func capital(word string) string {
	first, n := utf8.DecodeRuneInString(word)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + word[n:]
}

// host describes the machine.
func host(e results.Env) string {
	parts := []string{cmp.Or(e.CPU, "unknown CPU")}
	if e.Cores > 0 {
		parts = append(parts, plural(e.Cores, "core"))
	}
	if e.CgroupCPUs > 0 {
		parts = append(parts, "quota "+digits3(e.CgroupCPUs)+space+"CPUs")
	}
	if os := strings.TrimSpace(e.OS + " " + e.Kernel); os != "" {
		parts = append(parts, os)
	}
	if e.Go != "" {
		parts = append(parts, e.Go)
	}
	if e.GOMAXPROCS > 0 {
		parts = append(parts, fmt.Sprintf("GOMAXPROCS %d", e.GOMAXPROCS))
	}
	if e.Commit != "" {
		parts = append(parts, "lockbench "+e.Commit[:min(len(e.Commit), 12)])
	}
	return strings.Join(parts, ", ")
}

// load describes what groups have in common.
func load(groups []*results.Group) string {
	if len(groups) == 0 {
		return "none"
	}
	all := results.Dimensions()
	slices.SortStableFunc(all, func(a, b results.Dimension) int { // lines run along the last ones
		switch {
		case a.Last == b.Last:
			return 0
		case b.Last:
			return -1
		}
		return 1
	})
	var parts []string
	for _, d := range all {
		switch d.Name {
		case byProcs: // those that there were
			if in := inProcesses(groups); in != "" {
				parts = append(parts, in)
			}
			continue
		case byRate: // stages say it in its place
			if groups[0].Load.Stages != "" {
				continue
			}
		case byHold:
			parts = append(parts, captioned(d, groups)+achieved(groups))
			continue
		}
		if part := captioned(d, groups); part != "" {
			parts = append(parts, part)
		}
	}
	if groups[0].Load.Ops == 0 {
		parts = append(parts, windows(groups)+" a run")
	}
	return strings.Join(parts, ", ")
}

// captioned is what a caption says of d, or "" if it leaves d out: its value, or the
// least and the greatest of the groups that it means something to.
func captioned(d results.Dimension, groups []*results.Group) string {
	var values []string
	for _, g := range groups {
		if !d.Served || g.Server.Kind != "" {
			values = append(values, d.At(&g.Runs[0]))
		}
	}
	if len(values) == 0 || d.Caption == "" {
		return ""
	}
	low, high := slices.MinFunc(values, d.Compare), slices.MaxFunc(values, d.Compare)
	if low == high && !d.Named(low) {
		return d.Otherwise
	}
	text := human(d, high)
	switch {
	case low == high:
	case d.Number(low) == 0:
		text = "up to " + text
	default:
		text = human(d, low) + "–" + text
	}
	plurals, caption := "$1", d.Caption
	if high == "1" {
		plurals = ""
	}
	if d.Kind == results.Whole {
		caption = strings.ReplaceAll(caption, "{} ", "{}"+space)
	}
	return optional.ReplaceAllString(strings.ReplaceAll(caption, "{}", text), plurals)
}

// optional is the ending of a word that may be one or many.
var optional = regexp.MustCompile(`\(([a-z]+)\)`)

// human is a value of d for a reader.
func human(d results.Dimension, value string) string {
	switch d.Kind {
	case results.Whole, results.Real:
		return count(d.Number(value))
	case results.Share:
		return percent(d.Number(value))
	case results.Span:
		return nanos(d.Number(value))
	case results.Times:
		text := nanos(d.Number(value))
		if kind, _, other := strings.Cut(value, ":"); other {
			text = kind + " " + text
		}
		return text
	}
	return value
}

// achieved is the median of the holds of groups, behind what was asked.
func achieved(groups []*results.Group) string {
	var list []float64
	for _, g := range groups {
		if p, ok := g.Points[results.Hold+"-p50-ns"]; ok {
			list = append(list, p.Median)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return ", " + nanos(results.PointOf(list).Median) + " achieved (median)"
}

// windows says how long the runs of groups were.
func windows(groups []*results.Group) string {
	least, most := groups[0].Load.For, groups[0].Load.For
	for _, g := range groups {
		least, most = min(least, g.Load.For), max(most, g.Load.For)
	}
	if least == most {
		return span(most).String()
	}
	return span(least).String() + " to " + span(most).String()
}

// inProcesses says "8 processes", or "1–32 processes", of those in which owners lived; ""
// if all lived in the one that measured.
func inProcesses(groups []*results.Group) string {
	var lo, hi int
	for _, g := range groups {
		if n := g.Env.Processes; n > 0 {
			if lo == 0 {
				lo = n
			}
			lo, hi = min(lo, n), max(hi, n)
		}
	}
	switch {
	case hi == 0:
		return ""
	case hi == 1:
		return "1 process"
	case lo == hi:
		return strconv.Itoa(hi) + " processes"
	}
	return strconv.Itoa(lo) + "–" + strconv.Itoa(hi) + " processes"
}

// ranged says "4 clients", or "1–32 clients" where of differs.
func ranged(groups []*results.Group, thing string, of func(*results.Group) int) string {
	lo, hi := of(groups[0]), of(groups[0])
	for _, g := range groups {
		lo, hi = min(lo, of(g)), max(hi, of(g))
	}
	if lo == hi {
		return plural(lo, thing)
	}
	return strconv.Itoa(lo) + "–" + plural(hi, thing)
}

func repeats(groups []*results.Group) string {
	if len(groups) == 0 {
		return "no runs"
	}
	return ranged(groups, "run", func(g *results.Group) int { return len(g.Runs) }) + " per point"
}

// maxReasons is how many causes of invalid runs a caption lists.
const maxReasons = 3

// How pictures treat runs that are not valid.
const (
	hollow  = "hollow markers"
	leftOut = "left out; markers are hollow where no valid run is left"
)

// validity says how many runs may not be believed, what became of them, and why.
func validity(groups []*results.Group, treatment string) remark {
	total, invalid := 0, 0
	for _, g := range groups {
		total += len(g.Runs)
		invalid += g.Invalid
	}
	if invalid == 0 {
		return remark{text: fmt.Sprintf("Validity: all %s are valid.", plural(total, "run"))}
	}
	list := causes(groups)
	more := ""
	if len(list) > maxReasons {
		more = "; " + plural(len(list)-maxReasons, "more cause") + ", see summary.md"
		list = list[:maxReasons]
	}
	return remark{text: fmt.Sprintf("Validity: %d of %s not valid (%s): %s%s.", invalid, plural(total, "run"), treatment, strings.Join(list, "; "), more), loud: true}
}

// causes lists why runs of groups are not valid, the most frequent first. Causes
// that differ only in their numbers count as one and are quoted once.
func causes(groups []*results.Group) []string {
	type cause struct {
		text string
		runs int
	}
	var list []cause
	index := make(map[string]int)
	for _, g := range groups {
		for _, r := range g.Reasons {
			kind := strings.Map(func(c rune) rune {
				if c >= '0' && c <= '9' || c == '.' {
					return -1
				}
				return c
			}, r.Text)
			if _, ok := index[kind]; !ok {
				index[kind] = len(list)
				list = append(list, cause{text: r.Text})
			}
			list[index[kind]].runs += r.Runs
		}
	}
	slices.SortStableFunc(list, func(a, b cause) int { return cmp.Compare(b.runs, a.runs) })
	var texts []string
	for _, c := range list {
		if c.runs > 1 {
			c.text += fmt.Sprintf(" (%d×)", c.runs)
		}
		texts = append(texts, c.text)
	}
	return texts
}

// violations names the variants of groups that let two owners in.
func violations(groups []*results.Group) string {
	sum := make(map[string]float64)
	var names []string
	for _, g := range groups {
		for _, r := range g.Runs {
			if v := r.Metrics[results.Violations]; v > 0 {
				if sum[g.Name()] == 0 {
					names = append(names, g.Name())
				}
				sum[g.Name()] += v
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%s (%s)", name, count(sum[name]))
	}
	return "Two owners were inside at once (overlaps seen): " + strings.Join(names, ", ") + "."
}

// controlsNote says which variants a picture leaves out, and why.
func controlsNote(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "Left out: " + strings.Join(names, ", ") + ", which by design excludes nobody."
}

// looks parts the client libraries of list into those that are drawn plain and
// those with a white centre.
func looks(list []series) (plain, dotted []string) {
	for _, name := range clients(list) {
		if lookOf("", name).dotted {
			dotted = append(dotted, name)
		} else {
			plain = append(plain, name)
		}
	}
	return plain, dotted
}

// clientsNote explains the looks of clients, where there are several.
func clientsNote(list []series) string {
	plain, dotted := looks(list)
	switch {
	case len(plain)+len(dotted) < 2:
		return ""
	case len(plain) == 0:
		return "Dashes tell the clients apart: " + strings.Join(dotted, ", ") + "."
	case len(dotted) == 0:
		return "Solid lines: " + strings.Join(plain, ", ") + "."
	}
	return "Solid lines: " + strings.Join(plain, ", ") + "; dashed lines and markers with a white centre: " +
		strings.Join(dotted, ", ") + "."
}

// place says in a few words which load s shows, so that titles differ where pictures do:
// "1 key, 32 owners in 8 processes, hold 1 ms".
func (s *set) place(owners int) string {
	var groups []*results.Group
	for i := range s.groups {
		if owners == 0 || s.groups[i].Load.Owners == owners {
			groups = append(groups, &s.groups[i])
		}
	}
	l := s.lead().Load
	parts := []string{plural(l.Keys, "key")}
	if owners == 1 {
		parts = append(parts, "1"+space+"owner, no contention")
	} else if owners > 1 {
		parts = append(parts, plural(owners, "owner"))
	}
	if in := inProcesses(groups); in != "" && owners > 1 {
		parts[len(parts)-1] += " in " + in
	}
	hold, _ := results.DimensionOf(byHold)
	text := strings.Join(append(parts, "hold "+human(hold, l.Hold.String())), ", ")
	if list := s.servers(); len(list) == 1 && list[0].Kind != "" {
		text = product(list[0]) + ", " + text
	}
	return text
}

// oneLoad is why a picture along the number of owners is left out, or "".
func (s *set) oneLoad() string {
	if list := s.owners(); len(list) == 1 {
		return fmt.Sprintf("all runs have %s, and a line takes two points", plural(list[0], "owner"))
	}
	return ""
}
