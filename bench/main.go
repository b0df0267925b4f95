// Package bench is the command lockbench, whose main package is bench/lockbench.
//
// The same grid of trials feeds `lockbench run` and `go test -bench`: see
// plan.go.
package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls"
)

// The exit statuses, of which 75 and 76 belong to lock, as do the command's own
// status, 126 and 127 (it could not be started, it was not found), and 128 plus
// the number of a signal.
const (
	exitFailure     = 1
	exitMisuse      = 2
	exitTimeout     = 75 // EX_TEMPFAIL of sysexits.h: try again later
	exitLost        = 76
	exitInterrupted = 130 // a run that was stopped by Ctrl-C or SIGTERM
)

// Main carries out the call of the command that os.Args holds, and returns the exit
// status of the program. Commit is that of the program's source; "" is the one that the go
// command recorded. See [Program].
func Main(commit string) int {
	commit = revision(commit)
	return Program(commit, func(ctx context.Context) int {
		return run(ctx, commands(commit), os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr})
	})
}

// Program carries out work with a context that Ctrl-C and SIGTERM end, and returns its exit
// status. It is the first thing that a program does which measures: in the processes that
// the program starts from itself, which are servers or measure, it never returns.
func Program(commit string, work func(ctx context.Context) int) int {
	builtin.Main() // for the servers that are started where none is installed
	// go-redis would write remarks on its connections to stderr, which is for one
	// clear line. Its switch is process-wide, so it belongs here.
	logging.Disable()
	harness.Work(impls.All(), commit) // for the processes in which the owners of a run live
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once, also where nothing looks at ctx. Not the
	// one that timeout(1) sends to the group of the process right after the first.
	context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, stop) })
	defer stop()
	return work(ctx)
}

// stdio is where a subcommand reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// An exit is an error that knows its exit status. Err is nil if everything has
// been said already.
type exit struct {
	status int
	err    error
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// misuse is the error for a call that makes no sense.
func misuse(format string, args ...any) error {
	return exit{exitMisuse, fmt.Errorf(format, args...)}
}

// A command is one subcommand.
type command struct {
	name string
	args string // what follows the name, for the usage
	does string // one line
	// The rest is for -h alone.
	examples []example
	more     string    // in paragraphs
	sections []section // of the flags; without them all are one
	// setup declares the flags on fs and returns what to do when they have been
	// parsed; fs.Args() holds the rest of the line.
	setup func(fs *flag.FlagSet) func(ctx context.Context, std stdio) error
}

// commands are all subcommands, of a program built from commit.
func commands(commit string) []command {
	return []command{
		listCommand(), serversCommand(), runCommand(commit), showCommand(), plotCommand(), reportCommand(commit), compareCommand(), lockCommand(),
		versionCommand(commit), safetyCommand(commit), seckillCommand(commit), planCommand(commit),
	}
}

// run carries out one call of the command and returns its exit status.
func run(ctx context.Context, all []command, args []string, std stdio) int {
	if len(args) == 0 {
		usage(std.err, all)
		return exitMisuse
	}
	name, args := args[0], args[1:]
	if name == "help" || name == "-h" || name == "-help" || name == "--help" {
		if len(args) == 0 {
			usage(std.out, all)
			return 0
		}
		name, args = args[0], []string{"-h"}
	}
	if name == "-version" || name == "--version" {
		name = "version"
	}
	for _, c := range all {
		if c.name == name {
			return c.run(ctx, args, std)
		}
	}
	if name == "claims" { // as it was called
		complain(std.err, "lockbench", errors.New("claims are judged by lockbench compare -claims FILE RUNS…"))
		return exitMisuse
	}
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	complain(std.err, "lockbench", fmt.Errorf("there is no command %q; %s", name, guess(name, names, "", "lockbench help lists them")))
	return exitMisuse
}

func (c command) run(ctx context.Context, args []string, std stdio) int {
	fs := flag.NewFlagSet("lockbench "+c.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // it would print the whole usage with every error
	do := c.setup(fs)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		c.usage(std.out, fs)
		return 0
	case err != nil:
		err = badFlag(fs, err)
	default:
		err = do(ctx, std)
	}
	if err == nil {
		return 0
	}
	var e exit
	if !errors.As(err, &e) {
		e = exit{exitFailure, err}
	}
	if e.err != nil {
		complain(std.err, fs.Name(), err)
	}
	return e.status
}

// complain prints err as one line.
func complain(w io.Writer, who string, err error) {
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	say(w, "%s: %s\n", who, withoutSecrets(text))
}

// say prints for a person. If nobody can read it, the work goes on.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// table prints rows with their columns aligned.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if _, err := io.WriteString(t, strings.Join(row, "\t")+"\n"); err != nil {
			return err
		}
	}
	return t.Flush()
}

var (
	quoted    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)                // as %q writes it
	secretive = regexp.MustCompile(`(?i)://.*@|:[^@/]*@|passw(or)?d=`) // a URL, the DSN of a driver, an option
)

// withoutSecrets hides the user part of every URL in text. Errors about servers
// never hold one; this is for what was typed in the wrong place. How a URL is written
// is left as it stands. What is quoted is hidden whole where it may hold a password
// in another form.
func withoutSecrets(text string) string {
	text = quoted.ReplaceAllStringFunc(text, func(value string) string {
		if secretive.MatchString(value) {
			return `"(not shown, as it may hold a password)"`
		}
		return value
	})
	return regexp.MustCompile(`://[^\s"']*@`).ReplaceAllStringFunc(text, func(user string) string {
		if strings.EqualFold(strings.Trim(user, ":/[@"), "USER:PASSWORD") {
			return user
		}
		return "://xxxxx@"
	})
}

// badFlag is the error for a flag that fs could not read.
func badFlag(fs *flag.FlagSet, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return misuse("%w (%s -h explains)", err, fs.Name())
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return misuse("there is no flag -%s; %s", name, guess(name, names, "-", fs.Name()+" -h lists them"))
}

// noArguments refuses what follows the flags. It does not repeat it: it may be
// a URL with a password whose flag was forgotten.
func noArguments(fs *flag.FlagSet) error {
	switch n := fs.NArg(); n {
	case 0:
		return nil
	case 1:
		return misuse("1 word too many after the flags (%s -h explains)", fs.Name())
	default:
		return misuse("%d words too many after the flags (%s -h explains)", n, fs.Name())
	}
}
