// Package failover puts several lock services behind one lock: an ordered list of
// engines, of which one is active. The health of the active one is watched; when it
// is down, the next one in the list takes its place. Going back is never automatic,
// so that an engine which comes and goes cannot take the locks to and fro; that is
// what [lock.Switcher] is for.
//
// Two perfect locks do not compose. Who holds a key on the old engine knows nothing
// of the new one, and processes that disagree about which of the two is active let
// two owners in. The three variants differ in what they do about it: nothing
// (naive), wait for the last lease of the old engine to end (drain), or let a
// resource tell old grants from new ones (epoch).
//
// An engine is any [lock.Variant]; the package knows of no service itself.
package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

// An Engine is one of the lock services that may be active. Its Variant must try
// to reach a server again that was away for a while.
type Engine struct {
	// Name is what Switch takes, and what the processes tell each other: one word.
	Name    string
	Variant lock.Variant
	// At is where the engine runs. The zero value takes as many of the nodes of the
	// Deployment that is opened as Variant.Needs says, in the order of the engines.
	At lock.Deployment
}

// An Authority is where all processes agree on the active engine: one register in
// a store that is none of the engines, or outlives them. Nothing is switched while
// it is down.
type Authority struct {
	// Needs are its servers; its nodes follow those of the engines.
	Needs lock.Needs
	// At is where it runs; the zero value is as in Engine.
	At   lock.Deployment
	Open func(ctx context.Context, d lock.Deployment, c lock.Config) (Register, error)
}

// A Register keeps short texts by name. All processes must see the same order of
// its changes (it is linearizable), and it must not forget them.
type Register interface {
	// Read returns the text under name, "" if there is none.
	Read(ctx context.Context, name string) (string, error)
	// Swap puts next in the place of old, which is "" for none, in one step, and
	// reports whether it did. After an error it may have, or may yet.
	Swap(ctx context.Context, name, old, next string) (bool, error)
	Close() error
}

// Variants returns the ways to fall back from the first of engines to the ones
// behind it. Client is the name of their client libraries, if they share one.
func Variants(client string, h Health, a Authority, engines ...Engine) []lock.Variant {
	return []lock.Variant{
		naive(client, h, engines),
		drain(client, h, a, engines),
		epoch(client, h, a, engines),
	}
}

// mode is what is done about the leases of the old engine.
type mode int

const (
	alone   mode = iota // nothing: each process switches by itself
	drained             // their end is waited for
	fenced              // their tokens are smaller
)

// service is what all Lockers of a variant share.
type service struct {
	lock.Variant
	mode      mode
	health    Health
	authority Authority
	engines   []Engine
}

// compose fills in what follows from the engines: what all of them can do, what
// any of them needs, leaves behind and does not survive.
func compose(v *lock.Variant, m mode, h Health, a Authority, engines []Engine) {
	s := &service{mode: m, health: h.filled(), authority: a, engines: engines}
	// Each of these holds of the whole if it holds of every engine.
	v.Caps = lock.Try | lock.Fencing | lock.Fair | lock.Notify | lock.Renew
	apart := true // no engine is several servers that fail over by themselves
	for _, e := range engines {
		v.Engines = append(v.Engines, e.Name)
		v.Caps &= e.Variant.Caps
		v.Unsafe |= e.Variant.Unsafe
		for _, n := range e.At.Nodes {
			apart = apart && n.Topology() == lock.Single
		}
		if e.At.Nodes == nil {
			v.Needs = add(v.Needs, e.Variant.Needs)
		}
	}
	v.Caps |= lock.Switch
	switch {
	case m != drained:
		v.Unsafe |= lock.Failover
	case apart:
		v.Unsafe &^= lock.Failover // what it then means is the switch
	}
	if m != alone {
		if a.At.Nodes == nil {
			v.Needs = add(v.Needs, a.Needs)
		}
		v.State = func(group string) []string { return []string{registerName(s.Algo, group)} }
	}
	v.Keys = func(key string) []string {
		names := []string{key}
		for _, e := range engines {
			for _, n := range e.Variant.Names(key) {
				if !slices.Contains(names, n) {
					names = append(names, n)
				}
			}
		}
		return names
	}
	v.Open = func(ctx context.Context, d lock.Deployment, c lock.Config) (lock.Locker, error) {
		l, err := s.open(ctx, d, c)
		if err != nil {
			return nil, err
		}
		if s.Caps.Has(lock.Try) {
			return tryer{l}, nil
		}
		return l, nil
	}
	s.Variant = *v
}

// add is what both need. Engines on servers of two kinds have to name theirs by
// Engine.At, since a Needs has one Kind; check refuses the others.
func add(sum, n lock.Needs) lock.Needs {
	if n.Kind == "" {
		return sum
	}
	if sum.Kind != "" && sum.Kind != n.Kind {
		sum.Kind += "+" + n.Kind
	} else {
		sum.Kind = n.Kind
	}
	sum.Nodes += max(n.Nodes, 1)
	if n.MinVersion != "" {
		sum.MinVersion = n.MinVersion
	}
	if n.Feature != "" {
		sum.Feature = n.Feature
	}
	return sum
}

// check says what is wrong with the way in which s was put together.
func (s *service) check(c lock.Config) error {
	if len(s.engines) < 2 {
		return fmt.Errorf("failover: %s has %d engines, and there is nothing to fall back to with less than 2", s.Algo, len(s.engines))
	}
	seen := make(map[string]bool)
	for _, e := range s.engines {
		if e.Name == "" || strings.ContainsAny(e.Name, " \t\r\n") || seen[e.Name] {
			return fmt.Errorf("failover: %s has an engine %q: want names of one word that differ", s.Algo, e.Name)
		}
		seen[e.Name] = true
	}
	switch {
	case strings.Contains(s.Needs.Kind, "+"):
		return fmt.Errorf("failover: %s runs on %s: engines on servers of different kinds have to say where they run", s.Algo, s.Needs.Kind)
	case s.mode == fenced && !s.Caps.Has(lock.Fencing):
		return fmt.Errorf("failover: %s fences by tokens, and not every engine has them", s.Algo)
	case s.mode != alone && s.authority.Open == nil:
		return fmt.Errorf("failover: %s has no authority", s.Algo)
	}
	return nil
}

// places deals the nodes of d out to the engines and to the authority.
func (s *service) places(d lock.Deployment) (engines []lock.Deployment, authority lock.Deployment, err error) {
	if need := s.Needs.Nodes; len(d.Nodes) != need {
		return nil, authority, fmt.Errorf("failover: %s takes %d servers, in the order of its engines%s; %d are given",
			s.Algo, need, map[bool]string{true: " and then its authority"}[s.mode != alone], len(d.Nodes))
	}
	deal := func(at lock.Deployment, n lock.Needs) lock.Deployment {
		if at.Nodes != nil || n.Kind == "" {
			return at
		}
		k := max(n.Nodes, 1)
		at = lock.Deployment{Kind: d.Kind, Nodes: d.Nodes[:k]}
		d.Nodes = d.Nodes[k:]
		return at
	}
	for _, e := range s.engines {
		engines = append(engines, deal(e.At, e.Variant.Needs))
	}
	if s.mode != alone {
		authority = deal(s.authority.At, s.authority.Needs)
	}
	return engines, authority, nil
}

// registerName is where the record of the active engine stands.
func registerName(algo, group string) string {
	if group == "" {
		group = "lockbench:"
	}
	return group + algo
}

// maxTTL keeps what lasts returns, and so the times in a record, below lock.MaxTTL.
const maxTTL = lock.MaxTTL / 2

// lasts is how long a lease may last beyond the last moment at which its engine was
// known to be the active one: the TTL, and a quarter of it so that a grant between
// two such moments still lasts its TTL.
func lasts(c lock.Config) time.Duration { return c.TTL + c.TTL/4 }

// interval is the time between two looks at the authority, by which a process
// learns that another one has switched.
func interval(c lock.Config) time.Duration { return max(min(c.TTL/8, time.Second), time.Millisecond) }

var errMoved = errors.New("failover: another engine is active now")
