package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// guardScript runs the commands $2 and then the first program of the list $1 that
// there is, until it ends or standard input does. We hold the other end of that
// input; the kernel closes it when we die, however we die, and the engine removes
// a container that has ended, with all that runs in it. The explicit copy of the
// input is needed because a shell gives its background jobs /dev/null.
const guardScript = `exec 3<&0
for s in $1; do command -v "$s" >/dev/null && break; done
{
	first=$2
	shift 2
	set -e
	eval "$first"
	exec "$s" "$@"
} </dev/null 3<&- &
p=$!
{ cat <&3 >/dev/null; kill -9 $p; } &
wait $p`

// box is one container that we started.
type box struct {
	e    *engine
	id   string
	addr string                  // host:port at which it is published
	line client.HijackedResponse // its standard input, and what it says
	last tail                    // the end of that, to be read once said is closed
	said chan struct{}
	proc []Process
	tree bool // see imaged
}

// An imaged is a server program in a container image, to be started with its port
// published on a free port of the loopback.
type imaged struct {
	kind     string
	image    string
	user     string   // who runs it; "" is whom the image names
	programs []string // the first of them that the image has on its PATH
	args     []string
	// first are commands of the shell that runs the program next, if they succeed: what
	// they set is there for the program. "" are none.
	first string
	port  string // inside, such as "6379/tcp"
	// tree says that the server's children serve the clients, and are its processes as
	// well.
	tree  bool
	ready func(ctx context.Context, addr string) error
}

// boxReadyWithin bounds the start of one server in a container, with all that its
// directory is made of.
const boxReadyWithin = 60 * time.Second

// launch starts one container and returns when its server is ready.
func (e *engine) launch(ctx context.Context, p imaged) (_ *box, err error) {
	e.sweepStale(ctx)
	port := network.MustParsePort(p.port)
	req := testcontainers.ContainerRequest{
		Image:        p.image,
		ExposedPorts: []string{port.String()},
		Labels:       map[string]string{ourLabel: e.run},
		Entrypoint:   []string{"sh", "-c", guardScript, "lockbench-guard"},
		Cmd:          append([]string{strings.Join(p.programs, " "), cmp.Or(p.first, ":")}, p.args...),
		ConfigModifier: func(c *container.Config) {
			c.OpenStdin, c.StdinOnce, c.AttachStdin = true, true, true
			c.User = p.user
		},
		HostConfigModifier: func(c *container.HostConfig) {
			c.AutoRemove = true
			c.PortBindings = network.PortMap{port: {{HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1})}}}
		},
	}
	c, err := e.provider.CreateContainer(ctx, req)
	if err != nil {
		if c != nil {
			err = errors.Join(err, e.remove(c.GetContainerID()))
		}
		return nil, e.imageError(ctx, p, err)
	}
	b := &box{e: e, id: c.GetContainerID(), tree: p.tree}
	defer func() {
		if err != nil {
			_ = b.stop()
		}
	}()
	// Attached before the start, so that it never runs without us.
	att, err := e.cli.ContainerAttach(ctx, b.id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	b.line, b.said = att.HijackedResponse, make(chan struct{})
	go func() {
		_, _ = stdcopy.StdCopy(&b.last, &b.last, b.line.Reader) // it ends with the container, or with stop
		close(b.said)
	}()
	if err := c.Start(ctx); err != nil {
		return nil, e.imageError(ctx, p, err)
	}
	in, err := e.cli.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("image %s ended at once: %s", p.image, b.lastWords())
	} else if err != nil {
		return nil, err
	}
	if s := in.Container.NetworkSettings; s != nil && len(s.Ports[port]) > 0 {
		b.addr = net.JoinHostPort("127.0.0.1", s.Ports[port][0].HostPort)
	}
	if b.addr == "" {
		return nil, fmt.Errorf("image %s ended at once, or the engine cannot publish its port: %s", p.image, b.lastWords())
	}
	if err := e.readyBox(ctx, b.id, func(ctx context.Context) error { return p.ready(ctx, b.addr) }); err != nil {
		return nil, fmt.Errorf("image %s at %s %w: %s", p.image, b.addr, err, b.lastWords())
	}
	if in.Container.State != nil {
		b.proc = insideOf(in.Container.State.Pid, b.id)
	}
	return b, nil
}

// readyBox waits until try has nothing to complain of or the container ends.
func (e *engine) readyBox(ctx context.Context, id string, try func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		w := e.cli.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case <-w.Result:
			close(ended)
		case err := <-w.Error:
			if err != nil && ctx.Err() == nil {
				close(ended)
			}
		}
	}()
	return ready(ctx, boxReadyWithin, try, ended)
}

// A tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	const most = 4 << 10
	*t = append(*t, b...)
	if over := len(*t) - most; over > 0 {
		*t = append((*t)[:0], (*t)[over:]...)
	}
	return len(b), nil
}

// lastWords ends the container, and is the last line of what it said.
func (b *box) lastWords() string {
	select {
	case <-b.said: // it has ended by itself
	case <-time.After(time.Second):
	}
	_ = b.stop() // launch does it again, and nobody minds
	return lastLine(b.last)
}

// imageError says in one line why a container of p did not start.
func (e *engine) imageError(ctx context.Context, p imaged, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, _, err := e.inspectImage(ctx, p.kind, p.image); errors.Is(err, ErrMissing) {
		return err // and it could not be fetched
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if strings.Contains(text, "executable file not found") {
		return fmt.Errorf("image %s has no shell, which is needed to end it with us", p.image)
	}
	return fmt.Errorf("image %s: %s", p.image, text)
}

func (b *box) processes() []Process {
	var list []Process
	for _, p := range b.proc {
		if p.Alive() {
			list = append(list, p)
		}
	}
	if b.tree && len(list) > 0 {
		list = append(list, children(list[0].PID)...)
	}
	return list
}

// stopWithin bounds the end of a container: of each of the two ways to it.
const stopWithin = 10 * time.Second

// stop closes the container's input, which ends it, and waits until the engine
// has removed it; if that does not happen, or it never ran, it is removed by
// force.
func (b *box) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if b.line.Conn != nil {
		w := b.e.cli.ContainerWait(ctx, b.id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
		b.line.Close()
		<-b.said
		select {
		case <-w.Result:
		case err := <-w.Error:
			_ = err // remove will say it again if it matters
		}
	}
	return b.e.remove(b.id)
}

// remove takes the container away if it is still there.
func (e *engine) remove(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	_, err := e.cli.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && !gone(err) {
		return fmt.Errorf("container %.12s: %w", id, err)
	}
	return nil
}

// sweepStale removes containers of ours that were created and never started: a
// process that is killed between the two leaves one, and the engine removes
// only what has run. One minute is far more than a start takes.
func (e *engine) sweepStale(ctx context.Context) {
	list, err := e.cli.ContainerList(ctx, client.ContainerListOptions{
		All:     true,
		Filters: make(client.Filters).Add("label", ourLabel).Add("status", "created"),
	})
	if err != nil {
		return // the start that follows will say what is wrong
	}
	for _, c := range list.Items {
		if time.Since(time.Unix(c.Created, 0)) > time.Minute {
			_ = e.remove(c.ID)
		}
	}
}

// insideOf lists the children of a container's first process, which are the
// server and the guard's other shell, without the latter. It is empty where
// the engine's processes are not visible, as on another machine or in a
// virtual one: their control group must name the container.
func insideOf(pid int, id string) []Process {
	group, err := os.ReadFile(filepath.Join(procDir(pid), "cgroup"))
	if err != nil || !strings.Contains(string(group), id) {
		return nil
	}
	kids, _ := os.ReadFile(filepath.Join(procDir(pid), "task", strconv.Itoa(pid), "children"))
	var list []Process
	for _, k := range strings.Fields(string(kids)) {
		kid, err := strconv.Atoi(k)
		if err != nil {
			continue
		}
		name, err := os.ReadFile(filepath.Join(procDir(kid), "comm"))
		if err != nil || strings.TrimSpace(string(name)) == "sh" {
			continue
		}
		if p, ok := FindProcess(kid); ok {
			list = append(list, p)
		}
	}
	return list
}
