// Command tests runs go test and prints what go test prints. At the end it tells
// what nobody sees otherwise without -v: where the time went, which cases were
// carried out more than once, and which tests this machine could not run.
//
//	go run ./bench/tests [-fail FILE] [-again LIST] [flags and packages of go test]
//
// With -fail, FILE gets one JSON object for each package and each test that failed,
// with its whole output (type failure). With -again, the tests that failed are run once more, each
// alone, if all of them are on the LIST of those that may fail by chance; the flags
// must be written as -name=value then. Nothing excuses two owners inside, a race, a
// panic, or a package that did not come to its end. The exit status is that of go test,
// as far as go run passes it on. Benchmarks are none of its business.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process.
func run(args []string, stdout, stderr io.Writer) int {
	status, err := tests(args, stdout, stderr)
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "tests: %v\n", err)
		return max(status, 1)
	}
	return status
}

// tests runs go test with args and reports. An error says what is wrong beside the
// tests.
func tests(args []string, stdout, stderr io.Writer) (status int, err error) {
	r := newReport(stdout)
	var pardons []pardon
	again := false
	for len(args) > 0 {
		name := strings.TrimLeft(args[0], "-")
		if name != "fail" && name != "again" || name == args[0] {
			break
		}
		if len(args) < 2 {
			return 2, fmt.Errorf("-%s wants a file", name)
		}
		if name == "again" {
			again = true
			if pardons, err = readPardons(args[1]); err != nil {
				return 2, err
			}
		} else {
			if err := os.MkdirAll(filepath.Dir(args[1]), 0o777); err != nil {
				return 1, err
			}
			file, cannot := os.Create(args[1])
			if cannot != nil {
				return 1, cannot
			}
			defer func() { err = errors.Join(err, file.Close()) }()
			r.failures = json.NewEncoder(file)
		}
		args = args[2:]
	}
	for _, a := range args {
		if a == "-args" || a == "--args" {
			break
		}
		r.verbose = r.verbose || slices.Contains([]string{"-v", "--v", "-v=true", "--v=true"}, a)
	}

	// A terminal interrupts go test as well, which ends; the report is wanted then too.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)

	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	readErr := r.read(out)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, out)
	}
	waitErr := cmd.Wait()
	failed := r.finish()
	var ended *exec.ExitError
	switch {
	case errors.As(waitErr, &ended):
		if again && readErr == nil && secondChance(r.all, pardons, args, stdout, stderr) {
			return 0, nil
		}
		status = max(ended.ExitCode(), 1)
	case waitErr != nil:
		return 1, errors.Join(readErr, waitErr)
	case failed:
		return 1, errors.Join(readErr, errors.New("go test ended well, though tests failed or never ended"))
	}
	return status, readErr
}

// read takes the events that go test prints, one a line, until there are no more.
// Lines that are none are passed on.
func (r *report) read(from io.Reader) error {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		var e event
		if len(line) > 0 && (line[0] != '{' || json.Unmarshal(line, &e) != nil) {
			if _, err := r.out.Write(line); err != nil {
				return err
			}
		} else if len(line) > 0 {
			r.take(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
