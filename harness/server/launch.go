package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// readyWithin bounds the start of one server that we start ourselves.
const readyWithin = 20 * time.Second

// errTaken says that somebody else got a port between our choice and the
// server's bind, where the system cannot keep it for us, see reserve.
var errTaken = errors.New("address already in use")

// locate finds the program of a kind that o names, or the first of names on PATH
// or at one of these paths. One that was named and is not there is an error, never
// replaced by another. Get is the command that installs it.
func (o Options) locate(kind string, names []string, get string) (string, error) {
	if program := o.Programs[kind]; program != "" {
		path, err := exec.LookPath(program)
		if err != nil {
			k, _ := kindOf(kind)
			return "", fmt.Errorf("there is no program %s, which %s names: %w", program, k.Env("SERVER"), errors.Unwrap(err))
		}
		return filepath.Abs(path)
	}
	var bases []string
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		if base := filepath.Base(name); !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
	}
	if len(bases) == 1 {
		return "", missing(bases[0] + " is not on PATH; get it with: " + get)
	}
	return "", missing("neither " + strings.Join(bases, " nor ") + " is on PATH; get one with: " + get)
}

// A program is a server program to be started on free ports of the loopback.
type program struct {
	path  string
	ports int // how many it needs; 0 means 1
	env   []string
	// role asks what listens at addr which part it has in its group; see Server.Roles.
	// Nil is a server by itself.
	role func(ctx context.Context, addr string) (string, error)
	// clock asks what listens at addr for its wall clock. Nil is a server whose clock cannot
	// be set: it asks the system itself, past the C library, or does not tell.
	clock func(ctx context.Context, addr string) (time.Time, error)
	// syncs says that it has on disk what it has told the C library to sync.
	syncs bool
	// keeps are the names of files in its directory that tell it who it is in its group,
	// and hold no data: they outlive that a server is started empty.
	keeps []string
	// tree says that its children serve the clients, and are its processes as well.
	tree bool
	// unprivileged starts it as nobody if we are root, because it refuses root.
	unprivileged bool
	// args are its arguments. It may write files into dir, which is the server's
	// own, and run other programs first.
	args func(ctx context.Context, ports []int, dir string) ([]string, error)
	// ready asks once whether what listens at addr, the first port, can serve.
	ready func(ctx context.Context, addr string) error
	// join connects to what listens at addr, once it is ready. It returns errTaken if
	// that is not the process pid, where it can tell.
	join func(ctx context.Context, addr string, pid int) error
}

// launch starts p in a directory of its own under d and returns when it has
// joined.
func launch(ctx context.Context, d *tempDir, p program) (*running, error) {
	for try := 1; ; try++ {
		r, err := launchOnce(ctx, d, p)
		// Where reserve cannot keep a port the choice of one is a race by nature:
		// most servers cannot be asked to choose one themselves.
		if errors.Is(err, errTaken) && try < 5 && ctx.Err() == nil {
			continue
		}
		return r, err
	}
}

func launchOnce(ctx context.Context, d *tempDir, p program) (*running, error) {
	dir, err := os.MkdirTemp(d.path, "node-")
	if err != nil {
		return nil, err
	}
	var ports []int
	for range max(p.ports, 1) {
		port, err := d.port(ctx)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	if p.unprivileged {
		if err := d.giveAway(dir); err != nil {
			return nil, err
		}
	}
	args, err := p.args(ctx, ports, dir)
	if err != nil {
		return nil, err
	}
	r := &running{program: p, argv: args, dir: dir, ports: ports, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])), mind: d.j.mind}
	if d.shim != "" && d.clocks && p.clock != nil {
		if r.wall, err = newWall(d); err != nil {
			return nil, err
		}
	}
	if d.shim != "" && d.disks && p.syncs {
		if r.disk, err = newDisk(d); err != nil {
			return nil, err
		}
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	if err := p.join(ctx, r.addr, r.pid()); err != nil {
		_ = r.stop() // it only ever kills and waits
		return nil, err
	}
	return r, nil
}

// ready waits until try has nothing to complain of, or ended is closed.
func ready(ctx context.Context, within time.Duration, try func(context.Context) error, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return errors.New("ended at once")
		case <-ctx.Done():
			return fmt.Errorf("was not ready: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if s := strings.TrimSpace(lines[len(lines)-1]); s != "" {
		return s
	}
	return "it said nothing"
}
