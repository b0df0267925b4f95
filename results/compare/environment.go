package compare

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/results"
)

// environment lists the fields of Env and Server that differ between the sides, with the
// values of each. What varies from run to run by nature, such as a probe, a seed or the
// port of a server that was started for the run, is none.
func environment(old, new []results.Run) (list []string) {
	a, b := facts(old), facts(new)
	for _, name := range factNames() {
		x, y := strings.Join(a[name], ", "), strings.Join(b[name], ", ")
		if x != y {
			list = append(list, fmt.Sprintf("%s: %s → %s", name, orNone(x), orNone(y)))
		}
	}
	return list
}

// probed are the fields of Env that are measured anew before each run, and those that are
// drawn.
func probed(name string) bool {
	return name == "seed" || strings.HasSuffix(name, "_ns")
}

func factNames() (names []string) {
	for _, t := range []reflect.Type{reflect.TypeFor[results.Env](), reflect.TypeFor[results.Server]()} {
		for i := range t.NumField() {
			names = append(names, factName(t, i))
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "" })
}

// factName is how field i of t is called, "" if it is no fact.
func factName(t reflect.Type, i int) string {
	name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
	if probed(name) || name == "nodes" {
		return ""
	}
	if t == reflect.TypeFor[results.Server]() {
		return "server " + name
	}
	return name
}

// facts are the distinct values of each field, sorted. A lock in memory has no server.
func facts(runs []results.Run) map[string][]string {
	found := make(map[string][]string)
	for i := range runs {
		for _, v := range []any{runs[i].Env, runs[i].Server} {
			s := reflect.ValueOf(v)
			for k := range s.NumField() {
				name := factName(s.Type(), k)
				text := fmt.Sprint(s.Field(k))
				if name == "" || text == "" || text == "0" || runs[i].Server.Kind == "" && strings.HasPrefix(name, "server") {
					continue
				}
				if !slices.Contains(found[name], text) {
					found[name] = append(found[name], text)
				}
			}
		}
	}
	for _, list := range found {
		slices.Sort(list)
	}
	return found
}
