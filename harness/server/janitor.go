package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// dirScript makes the directory of our servers and removes it once the
// pipe on its standard input closes, which the kernel does for us however we
// end. The script makes the directory itself: so there is no moment at which a
// directory exists and nobody minds it, and nothing that it did not make can
// ever be removed. It is persistent because a server that is being killed at
// the same time may still write.
//
// On the pipe a number is the id of a child to kill at the end, and "-" takes
// all of them back; only systems whose kernel does not kill them use that.
const dirScript = `trap '' HUP INT QUIT TERM PIPE
d=$(mktemp -d "$1/lockbench-XXXXXXXXXX") || exit 1
echo "$d"
pids=
while read -r p; do
	case $p in
	-) pids= ;;
	*) pids="$pids $p" ;;
	esac
done
[ -z "$pids" ] || kill -9 $pids
i=0
while rm -rf -- "$d"; [ -e "$d" ] && [ "$i" -lt 100 ]; do
	i=$((i + 1))
	sleep 0.1 || sleep 1
done
`

// boxScript removes the containers of the engine at $2 whose label is $1, the
// same way. A container
// ends with its input, see guardScript; what is left for this script are those
// that had been created and not yet started. The engine may still be creating
// one when we die, so it looks more than once. "-" says that all is done.
const boxScript = `trap '' HUP INT QUIT TERM PIPE
export DOCKER_HOST="$2"
echo ready
while read -r p; do
	[ "$p" != - ] || exit 0
done
for i in 1 2 3 4; do
	docker ps -aq --no-trunc --filter "label=$1" | while read -r id; do
		docker rm -f -v "$id"
	done
	sleep 1
done >/dev/null 2>&1
`

// A janitor is a small shell beside us that tidies up when we end, however we
// end.
type janitor struct {
	said string // its first line
	cmd  *exec.Cmd
	pipe io.WriteCloser // closed on exec: no server inherits it
}

func hire(script string, args ...string) (*janitor, error) {
	// No ctx: it has to outlive every one of ours.
	cmd := exec.CommandContext(context.Background(), "sh", append([]string{"-c", script, "lockbench-janitor"}, args...)...)
	cmd.SysProcAttr = sessionAttr() // Ctrl-C must not reach it
	cmd.Dir = "/"
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start a shell: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = in.Close()
		_ = cmd.Wait()
		return nil, errors.New("the shell that tidies up after us ended at once")
	}
	return &janitor{said: strings.TrimSuffix(line, "\n"), cmd: cmd, pipe: in}, nil
}

// mind makes the janitor kill the child at our end where the kernel does not.
func (j *janitor) mind(pid int) {
	if !diesWithUs {
		_, _ = io.WriteString(j.pipe, strconv.Itoa(pid)+"\n")
	}
}

// dismiss ends the janitor and waits for that. What it was to kill or to
// remove by force must be gone.
func (j *janitor) dismiss() {
	_, _ = io.WriteString(j.pipe, "-\n")
	_ = j.pipe.Close()
	_ = j.cmd.Wait()
}

// A tempDir is a directory that is removed when we end, however we end, and the
// ports of the servers in it.
type tempDir struct {
	path          string
	shim          string // see buildShim; "" gives no server a clock or a disk of its own
	clocks, disks bool   // which of the two
	j             *janitor

	mu    sync.Mutex // servers of one group start at once
	ports []func()   // give them up
}

func makeTemp() (*tempDir, error) {
	base, err := filepath.Abs(os.TempDir()) // the shell works in /
	if err != nil {
		return nil, err
	}
	j, err := hire(dirScript, base)
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory in %s: %w", base, err)
	}
	return &tempDir{path: j.said, j: j}, nil
}

// port is a free port of the loopback, which stays reserved until the end of d: a
// server takes a second to bind its ports, and one of a group may need a further one
// much later. Where somebody else had the port for its votes, a ZooKeeper served
// until it had tried to get it three times, and ended then.
func (d *tempDir) port(ctx context.Context) (int, error) {
	port, free, err := reserve(ctx)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	d.ports = append(d.ports, free)
	d.mu.Unlock()
	return port, nil
}

// remove returns when the directory is gone. The servers in it must have ended.
func (d *tempDir) remove() error {
	d.j.dismiss()
	for _, free := range d.ports {
		free()
	}
	d.ports = nil
	if _, err := os.Lstat(d.path); err == nil {
		return fmt.Errorf("%s could not be removed", d.path)
	}
	return nil
}
