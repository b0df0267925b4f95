package bench

import (
	"path"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// choose returns the variants that match an algo and a client pattern, in their
// own order. Patterns are those of path.Match. An algo pattern with a slash is
// compared with "algo/client", one without with the algo alone. A client
// pattern lets through the variants that have only one client and hence no name
// for it; no client patterns let everything through.
//
// A pattern that matches nothing is an error, so that a misspelt one is not
// taken for a lock that was measured.
func choose(all []lock.Variant, algos, clients []string) ([]lock.Variant, error) {
	return chooseOf(all, algos, clients, "see lockbench list")
}

// chosen are the variants that g asks for. If it says nothing of clients it asks for one
// of each lock, see firsts, and for those that a pattern with a slash names.
func (g grid) chosen(all []lock.Variant) ([]lock.Variant, error) {
	if slices.Contains(g.clients, everyClient) {
		return choose(all, g.algos, nil)
	}
	list, err := choose(all, g.algos, g.clients)
	if err != nil || len(g.clients) > 0 {
		return list, err
	}
	first := g.firsts(list)
	return slices.DeleteFunc(list, func(v lock.Variant) bool {
		return !slices.ContainsFunc(first, func(f lock.Variant) bool { return f.Name() == v.Name() }) &&
			!slices.ContainsFunc(g.algos, func(p string) bool {
				ok, _ := path.Match(p, v.Name()) // choose has checked it
				return ok && strings.Contains(p, "/")
			})
	}), nil
}

// firsts keeps the first client of each lock on each kind of server. Of a lock on several
// kinds, of which some have a server that is named, it keeps those.
func (g grid) firsts(list []lock.Variant) (first []lock.Variant) {
	for _, same := range byAlgo(list) {
		named := slices.ContainsFunc(same, func(v lock.Variant) bool { return len(g.urls[v.Needs.Kind]) > 0 })
		kept := make(map[string]bool)
		for _, v := range same {
			if kind := v.Needs.Kind; !kept[kind] && (!named || len(g.urls[kind]) > 0) {
				kept[kind] = true
				first = append(first, v)
			}
		}
	}
	return first
}

// chooseOf is choose, whose errors end with what there is to choose from.
func chooseOf(all []lock.Variant, algos, clients []string, there string) ([]lock.Variant, error) {
	matched := make(map[string]bool) // pattern → it matched something
	hit := func(pattern, name string) (bool, error) {
		ok, err := path.Match(pattern, name)
		if err != nil {
			return false, misuse("%q is no pattern: want names with * and ? and [a-z]", pattern)
		}
		matched[pattern] = matched[pattern] || ok
		return ok, nil
	}
	var list []lock.Variant
	for _, v := range all {
		wanted, served := false, len(clients) == 0 || v.Client == ""
		for _, p := range algos {
			name := v.Algo
			if strings.Contains(p, "/") {
				name = v.Name()
			}
			ok, err := hit(p, name)
			if err != nil {
				return nil, err
			}
			wanted = wanted || ok
		}
		for _, p := range clients {
			ok, err := hit(p, v.Client)
			if err != nil {
				return nil, err
			}
			served = served || ok
		}
		if wanted && served {
			list = append(list, v)
		}
	}
	for _, p := range algos {
		if !matched[p] {
			return nil, misuse("no variant matches %q%s; %s", p, near(p, algosOf(all)), there)
		}
	}
	for _, p := range clients {
		if !matched[p] {
			return nil, misuse("no client matches %q; there are %s", p, or(strings.Join(clientsOf(all), " and "), "none"))
		}
	}
	if len(list) == 0 {
		return nil, misuse("no variant matches both %q and client %q; %s",
			strings.Join(algos, ","), strings.Join(clients, ","), there)
	}
	return list, nil
}

func algosOf(all []lock.Variant) []string {
	var names []string
	for _, v := range all {
		if !slices.Contains(names, v.Algo) {
			names = append(names, v.Algo)
		}
	}
	return names
}

func clientsOf(all []lock.Variant) []string {
	var names []string
	for _, v := range all {
		if v.Client != "" && !slices.Contains(names, v.Client) {
			names = append(names, v.Client)
		}
	}
	return names
}

// near names what was probably meant by an algorithm or a pattern of some.
func near(word string, names []string) string {
	word, _, _ = strings.Cut(word, "/")
	list := similar(strings.Trim(word, "*"), names)
	if len(list) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(list, " or ") + "?)"
}

// guess asks for what was probably meant by word, each with a prefix, or is otherwise.
func guess(word string, names []string, prefix, otherwise string) string {
	list := similar(word, names)
	if len(list) == 0 {
		return otherwise
	}
	return "did you mean " + prefix + strings.Join(list, " or "+prefix) + "?"
}

// similar are the names that contain the word, or are a few letters away from it; none if
// there are many.
func similar(word string, names []string) (list []string) {
	for _, name := range names {
		if len(word) >= 3 && strings.Contains(name, word) || distance(word, name) <= max(1, len(word)/4) {
			list = append(list, name)
		}
	}
	if len(list) > 5 {
		return nil
	}
	return list
}

// distance is the number of letters to insert, remove or replace, and of neighbours to
// swap, to make b of a (V. Levenshtein, 1966; F. Damerau, 1964).
func distance(a, b string) int {
	d := make([][]int, len(a)+1) // of the first i letters of a and the first j of b
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			d[i][j] = min(replace, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
