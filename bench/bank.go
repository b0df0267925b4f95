package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
)

// A bank holds a rig for each distinct need of the trials of one command.
type bank struct {
	options  server.Options
	session  string
	commit   string // of this program
	rigs     map[lock.Needs]*harness.Rig
	crew     *harness.Crew    // of all rigs; nil has the owners live in this process
	order    []*server.Server // those that were started, for the report
	trace    func(harness.Trace) error
	live     func(*harness.Live) // nil if nobody watches
	exporter *exporter           // nil if nobody scrapes
}

// rig returns the rig for n and starts its server if that is the first call. It
// wraps server.ErrMissing if there is none to start.
func (b *bank) rig(ctx context.Context, n lock.Needs) (*harness.Rig, error) {
	if r := b.rigs[n]; r != nil {
		return r, nil
	}
	r := &harness.Rig{Crew: b.crew, Session: b.session, Commit: b.commit}
	if n.Kind != "" {
		s, err := server.Start(ctx, n, b.options)
		if err != nil {
			return nil, err
		}
		r.Server = s
		b.order = append(b.order, s)
	}
	b.rigs[n] = r
	return r, nil
}

// topology is that of the servers that were started for n.
func (b *bank) topology(n lock.Needs) lock.Topology {
	if r := b.rigs[n]; r != nil && r.Server != nil {
		return r.Server.Topology()
	}
	return lock.Single
}

func (b *bank) close() error {
	var errs []error
	if b.crew != nil {
		errs = append(errs, b.crew.Close())
	}
	for _, s := range b.order {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// describe is one line for each server: "redis 7.0.15 (binary) at 127.0.0.1:6379".
func (b *bank) describe() []string {
	var list []string
	for _, s := range b.order {
		var at []string
		for _, n := range s.Deployment.Nodes {
			at = append(at, n.String())
		}
		what := s.Product + " " + s.Version
		if t := s.Topology(); t != lock.Single {
			what += " " + string(t)
		}
		list = append(list, fmt.Sprintf("server: %s (%s) at %s", what, s.Source, strings.Join(at, " ")))
	}
	return list
}

// nodes are the servers of a kind that were started.
func (b *bank) nodes(kind string) (list []lock.Endpoint) {
	for _, s := range b.order {
		if s.Kind == kind {
			list = append(list, s.Deployment.Nodes...)
		}
	}
	return list
}

// warnOfEviction says once whether one of the servers may remove the keys of locks. It
// takes little time for that, since nothing depends on it.
func warnOfEviction(ctx context.Context, w io.Writer, command string, nodes []lock.Endpoint) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, e := range nodes {
		if policy := server.Evicts(ctx, e); policy != "" {
			complain(w, command, fmt.Errorf("warning: the maxmemory-policy of %s is %s: once its memory is full it may remove the key of a holder, "+
				"and a second owner gets in; give locks a server with noeviction", e, policy))
			return
		}
	}
}
