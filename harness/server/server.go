// Package server finds, starts, inspects and stops the servers that a lock
// variant needs, or says with ErrMissing what is not there and which one
// command gets it.
//
// A server comes from one of four sources, tried in this order: an address
// that the user gave, a binary on PATH, a container, what is built into this
// program. What Start started dies with this process, even if that is killed.
package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// ErrMissing says that no source could provide what was needed. The text that
// wraps it names the one command that gets it.
var ErrMissing = errors.New("server: none found")

// Source is where a server comes from.
type Source string

// The sources, in the order in which Start tries them. Memory is the source of
// a Server for variants that need none.
const (
	URL    Source = "url"    // an address that the user gave; never started or stopped by us
	Binary Source = "binary" // an installed program, started on loopback
	Docker Source = "docker" // a container, published on loopback
	// Embedded is what is built into this program. Of Redis it is an imitation inside
	// this process: good for trying things out, not for figures. Of etcd and NATS it is
	// their own server, in a child process, see Options.Embeds. Other kinds have none.
	Embedded Source = "embedded"
	Memory   Source = "memory" // nothing to start
)

// Options choose among the sources. The zero value takes the first that works.
type Options struct {
	// URLs are the servers that the user gave, by kind; nil gives none. Where
	// there are some, they are used or the error is returned: a server that was
	// named is never replaced by another.
	URLs map[string][]lock.Endpoint
	// Topologies say, by kind, how the servers that are started work together; the
	// addresses in URLs name their own. lock.Single, which stands for a kind that is
	// not in it, starts servers that know nothing of each other.
	Topologies map[string]lock.Topology
	// Source allows only one source; "" tries all in order.
	Source Source
	// Programs are the server programs of the source Binary, by kind: a path or a
	// name on PATH. One that is not in it is the usual program of its kind, for
	// "redis" redis-server, or valkey-server where there is only that.
	Programs map[string]string
	// Images are the container images, by kind. One that is not in it is
	// lockbench/KIND:local where the engine has it (scripts/image makes it), else
	// the usual image of its kind, for "redis" redis:8; "etcd" has none. An image has
	// to have a shell.
	Images map[string]string
	// Persist has a Redis that is started write each command to its disk before it
	// answers (appendonly yes, appendfsync always), so that it has its keys when it is
	// started again. False keeps nothing on disk, because a benchmark of locks must not
	// measure one. Servers of the other kinds keep their data in any case.
	Persist bool
	// Clocks gives servers that are started from a program a wall clock that Server.Jump
	// moves, where this machine has what that takes: see Server.Clocked. To read it takes
	// them longer.
	Clocks bool
	// Disks gives a Redis that is started from its program a disk that Server.Stick and
	// Killed.LosePower disturb, where this machine has what that takes. It is of use with
	// Persist.
	Disks bool
	// Conns is how many connections of clients a server that is started takes at least. Not
	// less than a thousand are taken by each kind: 0 asks for no more.
	Conns int
	// Settings are given, by kind, to a MySQL or a PostgreSQL that is started from a program,
	// each as NAME=VALUE, such as "wait_timeout=1". Servers from elsewhere are refused then.
	Settings map[string][]string
	// SyncAlways has a NATS that is started wait for its disk before it confirms a write
	// (sync_interval: always). False is what NATS does by itself: it confirms what its
	// system has in memory, and syncs every 2 minutes.
	SyncAlways bool
	// Embeds says, by kind, which setting of the environment, NAME=VALUE, makes such a
	// server of this program when it is run again as a child. Nil, which is also what
	// FromEnv gives, says that it cannot be one; builtin.Embeds is for programs that
	// call builtin.Main.
	Embeds map[string]string
}

// envSource names the source for all kinds; see Kind.Env for what there is for
// each of them.
const envSource = "LOCKBENCH_SERVER"

// envSync is Options.SyncAlways.
const envSync = "LOCKBENCH_NATS_SYNC"

// FromEnv reads LOCKBENCH_SERVER (a Source), LOCKBENCH_NATS_SYNC (see ParseSync) and for every kind, such as REDIS,
// LOCKBENCH_REDIS_URL (see Addresses), LOCKBENCH_REDIS_TOPOLOGY (see
// ParseTopology), LOCKBENCH_REDIS_SERVER (a program) and LOCKBENCH_REDIS_IMAGE.
func FromEnv() (Options, error) {
	o := Options{
		URLs: map[string][]lock.Endpoint{}, Topologies: map[string]lock.Topology{},
		Programs: map[string]string{}, Images: map[string]string{},
		Source: Source(os.Getenv(envSource)),
	}
	if err := o.Source.valid(); err != nil {
		return Options{}, fmt.Errorf("%s: %w", envSource, err)
	}
	var err error
	if o.SyncAlways, err = ParseSync(os.Getenv(envSync)); err != nil {
		return Options{}, fmt.Errorf("%s: %w", envSync, err)
	}
	for _, k := range Kinds() {
		if list := Addresses(os.Getenv(k.Env("URL"))); len(list) > 0 {
			o.URLs[k.Name] = list
		}
		if text := os.Getenv(k.Env("TOPOLOGY")); text != "" {
			t, err := ParseTopology(k.Name, text)
			if err != nil {
				return Options{}, fmt.Errorf("%s: %w", k.Env("TOPOLOGY"), err)
			}
			o.Topologies[k.Name] = t
		}
		if program := os.Getenv(k.Env("SERVER")); program != "" {
			o.Programs[k.Name] = program
		}
		if image := os.Getenv(k.Env("IMAGE")); image != "" {
			o.Images[k.Name] = image
		}
	}
	return o, nil
}

// ParseSync reads when a NATS syncs its disk: "always", which is Options.SyncAlways, or
// "default" or "".
func ParseSync(text string) (always bool, err error) {
	switch text {
	case "", "default", "always":
		return text == "always", nil
	}
	return false, fmt.Errorf("%q: want default or always", text)
}

func (s Source) valid() error {
	switch s {
	case "", URL, Binary, Docker, Embedded:
		return nil
	}
	return fmt.Errorf("%q is no source of servers: want url, binary, docker or embedded", string(s))
}

// KeepsNothing is the Server.Durable of a server that has no data when it is started again.
const KeepsNothing = "nothing"

// Server is a set of independent nodes of one kind. Its methods are safe for
// concurrent use.
type Server struct {
	Kind    string // of a Kind; "" for a Server without nodes
	Product string // what answers: "redis", "valkey", "miniredis", "mariadb", …
	Version string // of Product, of node 0
	Source  Source
	// Options are the settings of node 0 that matter for figures, such as
	// "save '' appendonly no"; "" where the server does not tell.
	Options string
	// Durable says what of what it was told outlives the end of node 0: KeepsNothing,
	// "each write, on disk", …; "" where the server does not tell.
	Durable    string
	Deployment lock.Deployment

	// Members are the servers behind a Deployment of another topology than
	// lock.Single, as they were when it was connected to: the masters of a cluster,
	// the one that sentinels named, all of an ensemble. Nil for lock.Single.
	Members []lock.Endpoint

	reach func(context.Context, lock.Endpoint) (node, error) // connects to a node
	mu    sync.Mutex                                         // guards nodes and again
	nodes []node
	again int // servers that were started again

	hosts []host // beside nodes; nil where we did not start the node
	sweep func() error

	diskless  error // why no disk can be disturbed; nil if those of programs can that sync
	clockless error // why no clock can be set; nil if those of programs can that know how

	closed sync.Once
	err    error // of Close
}

// A node is the administrator's view of one server, or of one group of servers that
// work together: what its kind knows.
type node interface {
	about() about
	usage(ctx context.Context) (Usage, error)
	rtt(ctx context.Context, n int) ([]time.Duration, error)
	remove(ctx context.Context, names []string) (int, error)
	close() error
}

// Usage is what a server has spent since it started; NaN stands for what it does
// not tell. A run takes the difference of two readings.
type Usage struct {
	Cmds     float64 // commands executed, those inside scripts included, without INFO and PING
	NetBytes float64 // bytes in and out, without those of this package
	CPU      float64 // CPU time in ns
	// Kept is no sum but what the server keeps now for data and connections, in bytes.
	Kept float64
}

// untold is the usage of a server that tells nothing.
func untold() Usage {
	nan := math.NaN()
	return Usage{Cmds: nan, NetBytes: nan, CPU: nan, Kept: nan}
}

func (u Usage) plus(v Usage) Usage {
	return Usage{u.Cmds + v.Cmds, u.NetBytes + v.NetBytes, u.CPU + v.CPU, u.Kept + v.Kept}
}

// connected lists the nodes, of which one is another after each restart.
func (s *Server) connected() []node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nodes)
}

// Usage reads the cumulative cost so far, summed over the nodes. It is all NaN
// for a Server without nodes.
func (s *Server) Usage(ctx context.Context) (Usage, error) {
	nodes := s.connected()
	if len(nodes) == 0 {
		return untold(), nil
	}
	var sum Usage
	for i, n := range nodes {
		u, err := n.usage(ctx)
		if err != nil {
			return Usage{}, s.nodeErr("usage", i, err)
		}
		if h := s.hosts[i]; h != nil {
			list := h.processes()
			if ns, ok := cpu(list); ok {
				u.CPU = ns
			}
			if bytes, ok := resident(list); ok && s.Deployment.Kind == "postgresql" { // each connection is a process
				u.Kept = bytes
			}
		}
		sum = sum.plus(u)
	}
	return sum, nil
}

// Restarts is how many servers Killed.Start has started again so far. With each of them
// what Usage counts has begun anew.
func (s *Server) Restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.again
}

// CPU is Usage's, but asks no server where the system tells of its processes: to
// answer costs Redis about what it takes idle in a tenth of a second.
func (s *Server) CPU(ctx context.Context) (ns float64, err error) {
	for _, h := range s.hosts {
		own, ok := 0.0, false
		if h != nil {
			own, ok = cpu(h.processes())
		}
		if !ok {
			u, err := s.Usage(ctx)
			return u.CPU, err
		}
		ns += own
	}
	if len(s.hosts) == 0 {
		return math.NaN(), nil
	}
	return ns, nil
}

// RTT times n PINGs to node 0, one after the other on one warmed connection.
// It returns nil for a Server without nodes.
func (s *Server) RTT(ctx context.Context, n int) ([]time.Duration, error) {
	nodes := s.connected()
	if len(nodes) == 0 {
		return nil, nil
	}
	list, err := nodes[0].rtt(ctx, n)
	if err != nil {
		return nil, s.nodeErr("ping", 0, err)
	}
	return list, nil
}

// Remove deletes the named keys on every node and returns how many there were.
func (s *Server) Remove(ctx context.Context, names ...string) (int, error) {
	sum := 0
	var errs []error
	for i, n := range s.connected() {
		k, err := n.remove(ctx, names)
		sum += k
		if err != nil {
			errs = append(errs, s.nodeErr("remove", i, err))
		}
	}
	return sum, errors.Join(errs...)
}

func (s *Server) nodeErr(what string, i int, err error) error {
	return fmt.Errorf("server: %s %s: %w", what, s.Deployment.Nodes[i], err)
}

// Processes lists the processes of the nodes that Start started. It is empty
// for the source url, for the imitation of Redis, and for containers on another
// machine.
func (s *Server) Processes() []Process {
	return slices.Concat(s.ByServer()...)
}

// ByServer is Processes by the server that they belong to: one list for each node, and
// one for each server of a node that stands for several. A list is empty where the
// server has ended or its processes cannot be seen.
func (s *Server) ByServer() (lists [][]Process) {
	for _, p := range s.placed() {
		var own []Process
		if p.host != nil {
			own = p.processes()
		}
		lists = append(lists, own)
	}
	return lists
}

// Memory is what the servers that we started have in RAM, in bytes; NaN where it
// cannot be seen.
func (s *Server) Memory() float64 {
	if bytes, ok := resident(s.Processes()); ok {
		return bytes
	}
	return math.NaN()
}

// Close stops what Start started, waits until it is gone and removes its
// directory. The data is gone with it. A second Close does nothing and returns what the first did.
func (s *Server) Close() error {
	s.closed.Do(func() {
		var errs []error
		for _, n := range s.connected() {
			errs = append(errs, n.close())
		}
		for _, h := range s.hosts {
			if h != nil {
				errs = append(errs, h.stop())
			}
		}
		if s.sweep != nil {
			errs = append(errs, s.sweep())
		}
		if err := errors.Join(errs...); err != nil {
			s.err = fmt.Errorf("server: close: %w", err)
		}
	})
	return s.err
}

// Topology says how the servers work together.
func (s *Server) Topology() lock.Topology {
	if len(s.Deployment.Nodes) == 0 {
		return lock.Single
	}
	return s.Deployment.Nodes[0].Topology()
}

// Describe is s as a run records it.
func Describe(s *Server) results.Server {
	d := results.Server{
		Kind: s.Kind, Product: s.Product, Version: s.Version, Source: string(s.Source),
		Topology: string(s.Topology()), Options: s.Options,
	}
	at := s.Deployment.Nodes
	if d.Topology != "" {
		at = s.Members
	}
	for _, n := range at {
		d.Nodes = append(d.Nodes, n.String())
	}
	return d
}
