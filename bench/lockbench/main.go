// Command lockbench measures distributed locks, shows and draws what it measured, and
// lends one of them to a shell command.
package main

import (
	"os"

	"github.com/lockbench/lockbench/bench"
)

// commit is set by the Makefile: -ldflags "-X main.commit=…".
var commit string

func main() { os.Exit(bench.Main(commit)) }
