package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

func TestChoose(t *testing.T) {
	all := []lock.Variant{{Algo: "mem"}, {Algo: "red-a", Client: "x"}, {Algo: "red-b", Client: "x"}, {Algo: "red-a", Client: "y"}}
	for _, c := range []struct {
		algos, clients string
		want           string // or the error
	}{
		{"*", "", "mem red-a/x red-b/x red-a/y"},
		{"red-*", "", "red-a/x red-b/x red-a/y"},
		{"red-a", "", "red-a/x red-a/y"},
		{"red-a/y", "", "red-a/y"},
		{"*/x", "", "red-a/x red-b/x"},
		{"red-b,mem", "", "mem red-b/x"},
		{"*", "y", "mem red-a/y"}, // what has one client is not deselected by naming another
		{"red-?", "[xy]", "red-a/x red-b/x red-a/y"},
		{"red-c", "", `no variant matches "red-c" (did you mean red-a or red-b?); see lockbench list`},
		{"zzz", "", `no variant matches "zzz"; see lockbench list`},
		{"red-a,zzz", "", `no variant matches "zzz"; see lockbench list`},
		{"*", "z", `no client matches "z"; there are x and y`},
		{"red-b", "y", `no variant matches both "red-b" and client "y"; see lockbench list`},
		{"[", "", `"[" is no pattern: want names with * and ? and [a-z]`},
	} {
		t.Run(c.algos+" "+c.clients, func(t *testing.T) {
			var clients []string
			if c.clients != "" {
				clients = strings.Split(c.clients, ",")
			}
			list, err := choose(all, strings.Split(c.algos, ","), clients)
			var names []string
			for _, v := range list {
				names = append(names, v.Name())
			}
			got := strings.Join(names, " ")
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestEveryVariantCanBeChosenByItsName(t *testing.T) {
	all := impls.All()
	for _, v := range all {
		list, err := choose(all, []string{v.Name()}, nil)
		if err != nil || len(list) != 1 || list[0].Name() != v.Name() {
			t.Errorf("%s chooses %d variants (%v)", v.Name(), len(list), err)
		}
	}
}

func TestNear(t *testing.T) {
	names := []string{"redis-token", "redis-setnx", "redis-setnx-lua", "local-mutex"}
	for word, want := range map[string]string{
		"redis-tokn": "redis-token", "token": "redis-token", "setnx": "redis-setnx or redis-setnx-lua",
		"mutex*": "local-mutex", "x": "", "nosuch": "", "redis-token/x": "redis-token",
	} {
		got := near(word, names)
		if want != "" {
			want = " (did you mean " + want + "?)"
		}
		if got != want {
			t.Errorf("near(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"lsit", "list", 1}, {"ca", "abc", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
	if !slices.IsSorted([]int{distance("a", "a"), distance("a", "b"), distance("a", "bc")}) {
		t.Error("a longer way is not farther")
	}
}

// A lock is measured with its first client on each kind of server, unless more is said.
func TestChosenClients(t *testing.T) {
	on := func(algo, client, kind string) lock.Variant {
		return lock.Variant{Algo: algo, Client: client, Needs: lock.Needs{Kind: kind}}
	}
	all := []lock.Variant{
		{Algo: "mem"}, on("red-a", "x", "redis"), on("red-a", "y", "redis"), on("red-b", "y", "redis"),
		on("sql", "m", "mysql"), on("sql", "n", "mysql"), on("sql", "p", "postgresql"),
	}
	for _, c := range []struct{ algos, clients, urls, want string }{
		{"*", "", "", "mem red-a/x red-b/y sql/m sql/p"},
		{"*", "all", "", "mem red-a/x red-a/y red-b/y sql/m sql/n sql/p"},
		{"red-*", "y", "", "red-a/y red-b/y"},
		{"red-a,sql/*", "", "", "red-a/x sql/m sql/n sql/p"},
		{"red-a/y", "", "", "red-a/y"},
		{"sql", "", "postgresql", "sql/p"},
		{"sql", "", "mysql,postgresql", "sql/m sql/p"},
		{"sql,red-a", "", "redis", "red-a/x sql/m sql/p"},
		{"sql/*", "", "postgresql", "sql/m sql/n sql/p"},
		{"sql", "all", "postgresql", "sql/m sql/n sql/p"},
		{"sql,red-c", "", "", `no variant matches "red-c" (did you mean red-a or red-b?); see lockbench list`},
	} {
		g := grid{algos: strings.Split(c.algos, ","), urls: make(map[string][]lock.Endpoint)}
		if c.clients != "" {
			g.clients = []string{c.clients}
		}
		for kind := range strings.SplitSeq(c.urls, ",") {
			g.urls[kind] = []lock.Endpoint{"somewhere"}
		}
		list, err := g.chosen(all)
		var names []string
		for _, v := range list {
			names = append(names, v.Name())
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("-algo %s -client %s, servers %s:\ngot  %s\nwant %s", c.algos, c.clients, c.urls, got, c.want)
		}
	}
}
