package bench

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
)

func versionCommand(commit string) command {
	return command{
		name: "version",
		does: "says which lockbench this is, and which servers are built in",
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			return func(ctx context.Context, std stdio) error {
				if err := noArguments(fs); err != nil {
					return err
				}
				var kinds []string
				for _, k := range server.Kinds() {
					kinds = append(kinds, k.Name)
				}
				return table(std.out, [][]string{
					{"lockbench", release()},
					{"commit", or(commit, "unknown")},
					{"go", runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
					{"engines", strings.Join(kinds, ", ")},
					{"built in", or(strings.Join(builtIn(ctx), ", "), "none")},
				})
			}
		},
	}
}

// release is the version of this module that the program was built from, or "devel" if it
// was built from a working tree without one.
func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// builtIn names the servers that the program has in itself, for where none is installed.
func builtIn(ctx context.Context) (list []string) {
	o := server.Options{Source: server.Embedded, Embeds: builtin.Embeds()}
	for _, k := range server.Kinds() {
		for _, f := range server.Find(ctx, k.Name, o) {
			if f.OK && f.Source == server.Embedded {
				list = append(list, fmt.Sprintf("%s (%s)", k.Name, strings.TrimSpace(f.Product+" "+f.Version)))
			}
		}
	}
	return list
}
