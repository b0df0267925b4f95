package server

import (
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
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/lockbench/lockbench/impls/lock"
)

// guardScript runs the server until it ends or standard input does. We hold
// the other end of that input; the kernel closes it when we die, however we
// die, and the engine removes a container that has ended. The explicit copy of
// the input is needed because a shell gives its background jobs /dev/null.
const guardScript = `exec 3<&0
s=$(command -v redis-server || command -v valkey-server) || exit 127
"$s" "$@" </dev/null 3<&- &
p=$!
{ cat <&3 >/dev/null; kill -9 $p; } &
wait $p`

// box is one container that we started.
type box struct {
	e    *engine
	id   string
	line client.HijackedResponse // its standard input
	proc []Process
}

// startRedis starts one container of image, its port published on a free port
// of the loopback.
func (e *engine) startRedis(ctx context.Context, image string) (h host, n *redisNode, ep lock.Endpoint, err error) {
	e.sweepStale(ctx)
	port := network.MustParsePort("6379/tcp")
	req := testcontainers.ContainerRequest{
		Image:        image,
		ExposedPorts: []string{port.String()},
		Labels:       map[string]string{ourLabel: e.run},
		Entrypoint:   []string{"sh", "-c", guardScript, "lockbench-guard"},
		Cmd:          append([]string{"--port", "6379", "--bind", "0.0.0.0", "--protected-mode", "no"}, redisFlags()...),
		ConfigModifier: func(c *container.Config) {
			c.OpenStdin, c.StdinOnce, c.AttachStdin = true, true, true
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
		return nil, nil, "", e.imageError(ctx, image, err)
	}
	b := &box{e: e, id: c.GetContainerID()}
	defer func() {
		if err != nil {
			_ = b.stop()
		}
	}()
	// Attached before the start, so that it never runs without us.
	att, err := e.cli.ContainerAttach(ctx, b.id, client.ContainerAttachOptions{Stream: true, Stdin: true})
	if err != nil {
		return nil, nil, "", fmt.Errorf("attach: %w", err)
	}
	b.line = att.HijackedResponse
	if err := c.Start(ctx); err != nil {
		return nil, nil, "", e.imageError(ctx, image, err)
	}
	in, err := e.cli.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, nil, "", fmt.Errorf("image %s: the container ended at once: is there a redis-server in it?", image)
	} else if err != nil {
		return nil, nil, "", err
	}
	addr := ""
	if s := in.Container.NetworkSettings; s != nil && len(s.Ports[port]) > 0 {
		addr = net.JoinHostPort("127.0.0.1", s.Ports[port][0].HostPort)
	}
	if addr == "" {
		return nil, nil, "", fmt.Errorf("image %s: the container has no published port: it ended at once, or the engine cannot publish", image)
	}
	if err := e.readyBox(ctx, addr, b.id); err != nil {
		return nil, nil, "", fmt.Errorf("image %s at %s %w", image, addr, err)
	}
	ep = lock.Endpoint("redis://" + addr)
	if n, err = connectRedis(ctx, ep); err != nil {
		return nil, nil, "", err
	}
	if in.Container.State != nil {
		b.proc = insideOf(in.Container.State.Pid, b.id)
	}
	return b, n, ep, nil
}

// readyBox waits until addr answers or the container ends.
func (e *engine) readyBox(ctx context.Context, addr, id string) error {
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
	return ready(ctx, addr, ended)
}

// imageError says in one line why a container of image did not start.
func (e *engine) imageError(ctx context.Context, image string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, _, err := e.inspectImage(ctx, image); errors.Is(err, ErrMissing) {
		return err // and it could not be fetched
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if strings.Contains(text, "executable file not found") {
		return fmt.Errorf("image %s has no shell, which is needed to end it with us", image)
	}
	return fmt.Errorf("image %s: %s", image, text)
}

func (b *box) processes() []Process {
	var list []Process
	for _, p := range b.proc {
		if p.Alive() {
			list = append(list, p)
		}
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
// server and the guard's cat, as far as they are servers. It is empty where
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
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(name)), "-server") {
			continue
		}
		if p, ok := process(kid); ok {
			list = append(list, p)
		}
	}
	return list
}
