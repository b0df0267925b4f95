// Package builtin makes servers of the program that it is built into: a child process
// that runs the same program serves etcd or NATS and does nothing else.
//
// It is a process of its own, and not a goroutine, so that its CPU time and memory
// are not the harness's, and so that it can be stopped and killed as a server can.
// It is a package of its own because the servers are large: only programs that start
// one carry them.
package builtin

import (
	"fmt"
	"os"
	"strings"
)

// envName is the setting of the environment that makes a server of the program: which
// kind.
const envName = "LOCKBENCH_SERVE"

// serving is how a server of each kind is served: it returns when the server has ended,
// and why.
func serving() map[string]func(args []string) error {
	return map[string]func(args []string) error{"etcd": serveEtcd, "nats": serveNATS}
}

// Embeds is what server.Options says of a program that calls Main.
func Embeds() map[string]string {
	settings := map[string]string{}
	for kind := range serving() {
		settings[kind] = envName + "=" + kind
	}
	return settings
}

// Main returns at once, unless this process was started to be a server; then it serves
// until it is killed, and does not return. The first statement of main, or of TestMain,
// calls it, before anything reads the arguments, which are the server's then.
func Main() {
	serve := serving()[os.Getenv(envName)]
	if serve == nil {
		return
	}
	// One line: whoever started us shows the last one.
	fmt.Fprintln(os.Stderr, strings.Join(strings.Fields(serve(os.Args[1:]).Error()), " "))
	os.Exit(1)
}
