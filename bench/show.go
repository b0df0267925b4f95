package bench

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/plots"
	"github.com/lockbench/lockbench/results"
)

func showCommand() command {
	return command{
		name: "show", args: "[-algo A] [-client C] [-in F.jsonl…] [F.jsonl…]",
		does: "prints stored runs as the table that run ends with",
		more: `
Repetitions of a trial are one row, also where they are in several files. What a search
has found stands below. A line
that is no run is reported with its file and number and passed over; what remains
is shown, and the exit status is 1.`,
		setup: func(fs *flag.FlagSet) func(context.Context, stdio) error {
			var in []string
			algos, clients := []string{"*"}, []string(nil)
			fs.Var(&list[string]{values: &in, parse: filename}, "in", "results `files` of run; also the words after the flags")
			fs.Var(&list[string]{values: &algos, parse: pattern}, "algo", "`patterns` of the algorithms to show, such as redis-*,local-mutex")
			fs.Var(&list[string]{values: &clients, parse: pattern}, "client", "`patterns` of client libraries to show (default all)")
			return func(ctx context.Context, std stdio) error {
				return showFiles(ctx, std, append(in, fs.Args()...), algos, clients)
			}
		},
	}
}

func showFiles(ctx context.Context, std stdio, files, algos, clients []string) error {
	all, damaged, err := readAll(ctx, std, "lockbench show", files)
	if err != nil {
		return err
	}
	runs := all.Runs
	if len(all.Cells) > 0 {
		damaged = true
		complain(std.err, "lockbench show", errors.New("cells of the safety matrix are no runs: draw them with lockbench plot"))
		if len(runs) == 0 {
			return exit{status: exitFailure}
		}
	}
	// What is not shown may still be the yardstick of what is.
	if runs, err = ofVariants(results.Relate(runs), algos, clients); err != nil {
		return err
	}
	if err := plots.Table(std.out, runs); err != nil {
		return err
	}
	found := slices.DeleteFunc(all.Searches, func(s results.Search) bool {
		return !slices.ContainsFunc(runs, func(r results.Run) bool { return r.Algo == s.Algo && r.Client == s.Client })
	})
	if len(found) > 0 {
		say(std.out, "\n")
		if err := searchTable(std.out, found); err != nil {
			return err
		}
	}
	say(std.out, "%s\n", next(files))
	if damaged {
		return exit{status: exitFailure}
	}
	return nil
}

// ofVariants are the runs of variants that match, of which each pattern has to match
// some; see choose.
func ofVariants(runs []results.Run, algos, clients []string) ([]results.Run, error) {
	var all []lock.Variant
	for _, r := range runs {
		v := lock.Variant{Algo: r.Algo, Client: r.Client}
		if !slices.ContainsFunc(all, func(have lock.Variant) bool { return have.Name() == v.Name() }) {
			all = append(all, v)
		}
	}
	chosen, err := chooseOf(all, algos, clients, "these runs are of "+strings.Join(algosOf(all), ", "))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(runs), func(r results.Run) bool {
		return !slices.ContainsFunc(chosen, func(v lock.Variant) bool { return v.Algo == r.Algo && v.Client == r.Client })
	}), nil
}

// next is the line that says how to draw the runs in files, ready to be pasted.
func next(files []string) string {
	words := []string{"next: lockbench plot"}
	if slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, ",") }) {
		// -in takes several names, separated by commas.
		return strings.Join(slices.Concat(words, []string{"-out", shellWord(gallery(files[0])), "--"}, shellWords(files)), " ")
	}
	for _, f := range shellWords(files) {
		words = append(words, "-in", f)
	}
	return strings.Join(append(words, "-out", shellWord(gallery(files[0]))), " ")
}

// gallery is a directory for the pictures of a results file, named after it.
func gallery(file string) string {
	if dir := strings.TrimSuffix(file, filepath.Ext(file)); dir != file && filepath.Base(dir) != "." && !strings.HasSuffix(dir, "/") {
		return dir
	}
	return file + "-plots"
}

func shellWords(words []string) (quoted []string) {
	for _, w := range words {
		quoted = append(quoted, shellWord(w))
	}
	return quoted
}

// shellWord is word as a shell has to be given it.
func shellWord(word string) string {
	if regexp.MustCompile(`^[\w@%+=:,./-]+$`).MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
