package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// A family is what the sources need to know of one kind of server.
type family struct {
	kind string
	// address is an example of an address by topology. A topology that is not in it is
	// written like lock.Single.
	address map[lock.Topology]string
	// locate finds the program that the source Binary starts, and tells its product
	// and version; a missing says that there is none.
	locate func(ctx context.Context, o Options) (installed, error)
	// launch starts one server, or the group of servers that t names, in directories
	// under d. What came up is added to g also where the rest fails.
	launch func(ctx context.Context, i installed, d *tempDir, t lock.Topology, g *group) (lock.Endpoint, error)
	// set makes arguments of Options.Settings; nil if the program takes none.
	set func(settings []string) []string
	// usual is the image where scripts/image has made none, "" if one has to be given;
	// contain starts one server from an image.
	usual   string
	contain func(ctx context.Context, e *engine, image string, o Options) (*box, lock.Endpoint, error)
	// embedded finds the server that is built into this program; nil if there is none.
	embedded func(ctx context.Context, o Options) (installed, error)
	// settings are those that launch and contain give a server and that it may not tell:
	// options and durable. Nil gives none.
	settings func(o Options) about
	// hosts are HOST:PORT of all that e names; its error, that e is no address of such
	// a server, never repeats a password.
	hosts func(e lock.Endpoint) ([]string, error)
	// connect looks at what e leads to; see reach.
	connect func(ctx context.Context, e lock.Endpoint) (node, error)
}

// installed is a program on this machine, or this program itself.
type installed struct {
	path, product, version string
	env                    []string // what it wants beside our own environment
	persist                bool     // see Options
	conns                  int      // see Options
	settings               []string // see Options
	sync                   bool     // see Options.SyncAlways
	// imitate starts an imitation of the server inside this process. If it is not nil
	// there is no program to launch.
	imitate func() (host, lock.Endpoint, error)
}

// featured is a node, or the host of one, that can tell whether its server has a
// feature; see lock.Needs.
type featured interface {
	has(ctx context.Context, feature string) (bool, error)
}

// about is what a server says of itself.
type about struct {
	product, version string
	speaks           string          // the version of the kind that it is compatible with; "" is version
	options          string          // that matter for figures; see Server.Options
	durable          string          // see Server.Durable
	evicts           string          // see Evicts
	id               string          // tells two servers apart; "" if it has none
	members          []lock.Endpoint // of an ensemble; nil for a server by itself
}

// as is f as an entry of Kinds.
func (f family) as(addresses []string, topologies ...lock.Topology) Kind {
	return Kind{Name: f.kind, Topologies: topologies, Addresses: addresses, hosts: f.hosts, find: f.find, start: f.start}
}

// start provides n.Nodes independent servers, or one ensemble, from src.
func (f family) start(ctx context.Context, src Source, n lock.Needs, o Options) (*Server, error) {
	s := &Server{Kind: f.kind, Source: src, clockless: errClockless, diskless: errDiskless, Deployment: lock.Deployment{Kind: f.kind}}
	s.reach = f.reach
	if err := f.add(ctx, s, n, o); err != nil {
		_ = s.Close() // the first error is the one that helps
		return nil, err
	}
	first := s.nodes[0].about()
	s.Product, s.Version, s.Options, s.Durable, s.Members = first.product, first.version, first.options, first.durable, first.members
	if src != URL && s.Options == "" && s.Durable == "" && f.settings != nil {
		given := f.settings(o)
		s.Options, s.Durable = given.options, given.durable
	}
	return s, nil
}

// add adds the servers from s.Source to s. On error those stay that were added so
// far.
func (f family) add(ctx context.Context, s *Server, n lock.Needs, o Options) error {
	t, err := o.topology(f.kind)
	if err != nil {
		return err
	}
	if t != lock.Single && n.Nodes > 1 {
		article := "a"
		if t == lock.Ensemble {
			article = "an"
		}
		return missing(fmt.Sprintf("needs %d independent servers, and %s %s is one", n.Nodes, article, t))
	}
	if settings := o.Settings[f.kind]; len(settings) > 0 && (s.Source != Binary || f.set == nil) {
		return missing("is not started from a program that takes settings: " + strings.Join(settings, " "))
	}
	one, err := f.starter(ctx, s, n, o, t)
	if err != nil {
		return err
	}
	seen := map[string]int{}
	for i := range n.Nodes {
		h, e, err := one(i)
		if h != nil {
			s.hosts = append(s.hosts, h)
		}
		if err != nil {
			return err
		}
		if h == nil {
			s.hosts = append(s.hosts, nil)
		}
		m, err := f.reach(ctx, e)
		if err != nil && s.Source == URL && len(o.URLs[f.kind]) > 1 {
			err = fmt.Errorf("address %d: %w", i+1, err)
		}
		if err != nil {
			return err
		}
		s.nodes, s.Deployment.Nodes = append(s.nodes, m), append(s.Deployment.Nodes, e)
		id := m.about().id
		if other, twice := seen[id]; twice && id != "" {
			return fmt.Errorf("addresses %d and %d are one server, and independent ones are needed", other+1, i+1)
		}
		seen[id] = i
		if err := f.check(ctx, h, m, n); err != nil {
			return err
		}
	}
	return nil
}

// check compares the server behind m, which h runs, with what is needed. A fork counts
// by the version that it declares itself compatible with.
func (f family) check(ctx context.Context, h host, m node, need lock.Needs) error {
	a := m.about()
	found := a.product + " " + a.version
	if speaks := cmp.Or(a.speaks, a.version); need.MinVersion != "" && olderThan(speaks, need.MinVersion) {
		if speaks != a.version {
			found += " (compatible with " + f.kind + " " + speaks + ")"
		}
		return missing(fmt.Sprintf("needs %s ≥ %s, found %s", f.kind, need.MinVersion, found))
	}
	knows, ok := h.(featured)
	if !ok {
		knows, ok = m.(featured)
	}
	if !ok || need.Feature == "" {
		return nil
	}
	if has, err := knows.has(ctx, need.Feature); has || err != nil {
		return err
	}
	return missing(fmt.Sprintf("needs a %s with %s, found %s without", f.kind, need.Feature, found))
}

// starter is how the i-th server comes from s.Source. A host that comes with an
// error is what there is to stop.
func (f family) starter(ctx context.Context, s *Server, n lock.Needs, o Options, t lock.Topology) (func(i int) (host, lock.Endpoint, error), error) {
	switch s.Source {
	case URL:
		given := o.URLs[f.kind]
		if len(given) == 0 {
			return nil, missing(f.hint(t))
		}
		if len(given) < n.Nodes {
			return nil, fmt.Errorf("%d independent servers are needed, and %d addresses were given", n.Nodes, len(given))
		}
		return func(i int) (host, lock.Endpoint, error) { return nil, given[i], nil }, nil
	case Binary, Embedded:
		program, err := f.program(ctx, s.Source, o)
		if err != nil {
			return nil, err
		}
		if program.imitate != nil {
			return func(int) (host, lock.Endpoint, error) { return program.imitate() }, nil
		}
		if f.set != nil {
			program.settings = f.set(o.Settings[f.kind])
		}
		dir, err := makeTemp()
		if err != nil {
			return nil, err
		}
		s.sweep = dir.remove
		if o.Clocks || o.Disks {
			dir.shim, err = buildShim(ctx, dir.path)
			if dir.clocks = o.Clocks; o.Clocks {
				s.clockless = err
			}
			if dir.disks = o.Disks; o.Disks {
				s.diskless = err
			}
		}
		return func(int) (host, lock.Endpoint, error) {
			g := &group{}
			e, err := f.launch(ctx, program, dir, t, g)
			if err == nil && len(*g) == 1 {
				return (*g)[0], e, nil // by itself it can be killed and started again
			}
			return g, e, err
		}, nil
	case Docker:
		if t != lock.Single {
			return nil, missing(onlyBinary(t))
		}
		eng, err := openEngine(ctx)
		if err != nil {
			return nil, err
		}
		s.sweep = eng.close
		if err := eng.guard(); err != nil {
			return nil, err
		}
		image, err := eng.image(ctx, f.kind, f.usual, o)
		if err != nil {
			return nil, err
		}
		return func(int) (host, lock.Endpoint, error) {
			b, e, err := f.contain(ctx, eng, image, o)
			if err != nil {
				return nil, "", err
			}
			return b, e, nil
		}, nil
	}
	return nil, fmt.Errorf("no %s comes from %q", f.kind, string(s.Source))
}

// onlyBinary is why the servers of t come from no image and no imitation.
func onlyBinary(t lock.Topology) string {
	return fmt.Sprintf("needs an installed server program or an address: the topology %s is started from a program only", t)
}

// program is what is started for the sources Binary and Embedded.
func (f family) program(ctx context.Context, src Source, o Options) (installed, error) {
	switch {
	case src == Binary:
		return f.locate(ctx, o)
	case f.embedded == nil:
		return installed{}, missing("has no stand-in in this program; get the server with: scripts/servers " + f.kind + ", or an image of it with: scripts/image " + f.kind)
	}
	return f.embedded(ctx, o)
}

// hint says how to name a server of f that works with others as t says.
func (f family) hint(t lock.Topology) string {
	return "no address was given; give one with: export " + Kind{Name: f.kind}.Env("URL") + "=" + cmp.Or(f.address[t], f.address[lock.Single])
}

// find looks at the sources one after the other.
func (f family) find(ctx context.Context, o Options) []Found {
	t, wrong := o.topology(f.kind)
	var list []Found
	note := func(found Found, err error) {
		found.Kind, found.OK = f.kind, err == nil
		if err != nil {
			found.Hint = err.Error()
		}
		list = append(list, found)
	}
	for _, e := range o.URLs[f.kind] {
		found, err := Found{Source: URL}, wrong
		if err == nil {
			found.Product, found.Version, err = f.lookAt(ctx, e)
		}
		if err == nil {
			found.Where = e.String()
		}
		note(found, err)
	}
	if len(o.URLs[f.kind]) == 0 {
		note(Found{Source: URL}, missing(f.hint(t)))
	}
	program, err := f.locate(ctx, o)
	note(Found{Source: Binary, Where: program.path, Product: program.product, Version: program.version}, err)
	if t == lock.Single {
		note(f.findImage(ctx, o))
	} else {
		note(Found{Source: Docker}, missing(onlyBinary(t)))
	}
	if f.embedded != nil {
		program, err := f.embedded(ctx, o)
		found := Found{Source: Embedded, Product: program.product, Version: program.version}
		switch {
		case err == nil && program.imitate != nil:
			found.Where = "in this process"
		case err == nil:
			found.Where = "in a child process of this program"
		}
		note(found, err)
	}
	return list
}

// findImage looks at the source Docker.
func (f family) findImage(ctx context.Context, o Options) (found Found, err error) {
	found.Source = Docker
	eng, err := openEngine(ctx)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, eng.close()) }()
	if found.Where, err = eng.image(ctx, f.kind, f.usual, o); err == nil {
		found.Product, found.Version, err = eng.inspectImage(ctx, f.kind, found.Where)
	}
	return found, err
}

// lookAt connects to what e names and says what it is.
func (f family) lookAt(ctx context.Context, e lock.Endpoint) (product, version string, err error) {
	m, err := f.reach(ctx, e)
	if err != nil {
		return "", "", err
	}
	a := m.about()
	return a.product, a.version, m.close()
}
