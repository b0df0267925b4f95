package builtin

import (
	"errors"
	"flag"
	"fmt"
	"os"

	nats "github.com/nats-io/nats-server/v2/server"
)

// serveNATS is what the command nats-server does, from the same arguments. It returns
// when the server has ended, and why.
func serveNATS(args []string) error {
	fs := flag.NewFlagSet("nats-server", flag.ContinueOnError)
	fs.SetOutput(os.Stderr)
	fs.Usage = func() {} // the error is enough
	none := func() {}
	o, err := nats.ConfigureOptions(fs, args, nats.PrintServerAndExit, none, none)
	if err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q is no flag of nats-server", fs.Arg(0))
	}
	s, err := nats.NewServer(o)
	if err != nil {
		return err
	}
	s.ConfigureLogger() // a fatal error, such as a port that is taken, ends the process
	if err := nats.Run(s); err != nil {
		return err
	}
	s.WaitForShutdown()
	return errors.New("nats-server has stopped")
}
