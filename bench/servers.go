package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"slices"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls"
	"github.com/lockbench/lockbench/impls/lock"
)

func serversCommand() command {
	return command{
		name: "servers", args: "[-json] [-KIND URL] [-KIND-topology T] [-KIND-image IMAGE] [-server SOURCE]",
		does:     "shows the servers found on this machine, and how to get those that are missing",
		sections: []section{serverSection()},
		more: `
The sources are listed in the order in which run tries them; it would use the
one marked with *. Nothing is started. The exit status is 1 if run would find no
server at all, or not one that was named.`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			asJSON := fs.Bool("json", false, "print a JSON array with one object for each source")
			var from sources
			from.flags(fs)
			return func(ctx context.Context, std stdio) error {
				if err := noArguments(fs); err != nil {
					return err
				}
				o, err := from.options()
				if err != nil {
					return err
				}
				list, complete := survey(ctx, impls.All(), o)
				if *asJSON {
					e := json.NewEncoder(std.out)
					e.SetEscapeHTML(false)
					e.SetIndent("", "  ")
					err = e.Encode(list)
				} else {
					err = printSurvey(std.out, list)
				}
				if err == nil && !complete {
					err = errors.New("run would find no server; the lines above say how to get one")
				}
				return err
			}
		},
	}
}

// sight is one source of servers as it was found.
type sight struct {
	server.Found
	Used bool `json:"used"` // run would take it
}

// survey looks at the sources of every kind of server that all needs. It is
// complete if run would find some kind, and each of which an address is given.
func survey(ctx context.Context, all []lock.Variant, o server.Options) (list []sight, complete bool) {
	list, complete = []sight{}, true
	some := false
	var kinds []string
	for _, v := range all {
		if k := v.Needs.Kind; k != "" && !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	for _, kind := range kinds {
		chosen := false
		for _, f := range server.Find(ctx, kind, o) {
			s := sight{Found: f, Used: !chosen && f.OK && allowed(f.Source, kind, o)}
			chosen = chosen || s.Used
			list = append(list, s)
		}
		some = some || chosen
		complete = complete && (chosen || len(o.URLs[kind]) == 0)
	}
	return list, complete && some
}

// allowed tells whether o lets run take a server from this source.
func allowed(s server.Source, kind string, o server.Options) bool {
	switch {
	case o.Source != "":
		return s == o.Source
	case len(o.URLs[kind]) > 0: // a server that was named is never replaced
		return s == server.URL
	}
	return s != server.URL
}

func printSurvey(w io.Writer, list []sight) error {
	rows := [][]string{{"  KIND", "SOURCE", "SERVER", "WHERE, OR HOW TO GET IT"}}
	for _, s := range list {
		mark, what, where := " ", "–", s.Hint
		if s.OK {
			what, where = s.Product+" "+s.Version, s.Where
		}
		if s.Used {
			mark = "*"
		}
		rows = append(rows, []string{mark + " " + s.Kind, string(s.Source), what, or(where, "–")})
	}
	return table(w, rows)
}
