package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbench/lockbench/impls/lock"
)

// redisImage is what a container runs where nothing else is asked for.
const redisImage = "redis:8"

// hint says how to name what t is about.
func hint(t lock.Topology) string {
	return "no address was given; give one with: export LOCKBENCH_REDIS_URL=" + example(t)
}

// startRedis provides n.Nodes independent servers from src.
func startRedis(ctx context.Context, src Source, n lock.Needs, o Options) (*Server, error) {
	s := &Server{Kind: "redis", Source: src, Deployment: lock.Deployment{Kind: "redis"}}
	if err := s.addRedis(ctx, n, o); err != nil {
		_ = s.Close() // whatever it says, err came first
		return nil, err
	}
	first, ok := s.nodes[0].(*redisNode)
	if !ok {
		first = s.nodes[0].(group).first()
	}
	s.Product, s.Version, s.Options, s.Durable = first.product, first.version, first.options, first.durable()
	return s, nil
}

// addRedis adds n.Nodes servers from s.Source to s. On error those stay that
// were added so far.
func (s *Server) addRedis(ctx context.Context, n lock.Needs, o Options) error {
	t, err := o.topology("redis")
	if err != nil {
		return err
	}
	if t != lock.Single {
		return s.addGroup(ctx, n, o, t)
	}
	var one func(i int) (host, *redisNode, lock.Endpoint, error)
	switch s.Source {
	case URL:
		given := o.URLs["redis"]
		if len(given) == 0 {
			return missing(hint(lock.Single))
		}
		if len(given) < n.Nodes {
			return fmt.Errorf("%d independent servers are needed, and %d addresses were given", n.Nodes, len(given))
		}
		one = func(i int) (host, *redisNode, lock.Endpoint, error) {
			node, err := connectRedis(ctx, given[i])
			if err != nil && len(given) > 1 {
				err = fmt.Errorf("address %d: %w", i+1, err)
			}
			return nil, node, given[i], err
		}
	case Binary:
		path, err := redisBinary(o)
		if err != nil {
			return err
		}
		dir, err := makeTemp()
		if err != nil {
			return err
		}
		s.sweep = dir.remove
		one = func(int) (host, *redisNode, lock.Endpoint, error) { return startBinary(ctx, path, dir, role{}) }
	case Docker:
		eng, err := openEngine(ctx)
		if err != nil {
			return err
		}
		s.sweep = eng.close
		if err := eng.guard(); err != nil {
			return err
		}
		image, err := eng.image(ctx, "redis", redisImage, o)
		if err != nil {
			return err
		}
		one = func(int) (host, *redisNode, lock.Endpoint, error) { return eng.startRedis(ctx, image) }
	case Embedded:
		one = func(int) (host, *redisNode, lock.Endpoint, error) { return startEmbedded(ctx) }
	}
	seen := map[string]int{}
	for i := range n.Nodes {
		h, node, e, err := one(i)
		if err != nil {
			return err
		}
		s.hosts, s.nodes = append(s.hosts, h), append(s.nodes, node)
		s.Deployment.Nodes = append(s.Deployment.Nodes, e)
		if other, twice := seen[node.id]; twice && node.id != "" {
			return fmt.Errorf("addresses %d and %d are one server, and independent ones are needed", other+1, i+1)
		}
		seen[node.id] = i
		if err := node.check(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// check compares the server with what is needed. A fork counts by the Redis
// version that it declares itself compatible with.
func (n *redisNode) check(ctx context.Context, need lock.Needs) error {
	if need.MinVersion != "" && olderThan(n.speaks, need.MinVersion) {
		found := n.product + " " + n.version
		if n.product != "redis" {
			found += " (compatible with redis " + n.speaks + ")"
		}
		return missing(fmt.Sprintf("needs redis ≥ %s, found %s", need.MinVersion, found))
	}
	if need.Feature == "" {
		return nil
	}
	ok, err := n.has(ctx, need.Feature)
	if err != nil {
		return err
	}
	if !ok {
		return missing(fmt.Sprintf("needs a redis with %s, found %s %s without", need.Feature, n.product, n.version))
	}
	return nil
}

// findRedis looks at the sources one after the other.
func findRedis(ctx context.Context, o Options) []Found {
	t, wrong := o.topology("redis")
	var list []Found
	note := func(f Found, err error) {
		f.Kind, f.OK = "redis", err == nil
		if err != nil {
			f.Hint = err.Error()
		}
		list = append(list, f)
	}
	for _, e := range o.URLs["redis"] {
		f := Found{Source: URL}
		err := wrong
		if err == nil {
			f.Product, f.Version, err = lookAt(ctx, e)
		}
		if err == nil {
			f.Where = e.String()
		}
		note(f, err)
	}
	if len(o.URLs["redis"]) == 0 {
		note(Found{Source: URL}, missing(hint(t)))
	}

	path, err := groupBinary(ctx, o, t)
	f := Found{Source: Binary, Where: path}
	if err == nil {
		if f.Product, f.Version = binaryVersion(ctx, path); f.Version == "" {
			err = errors.New(path + " does not tell its version; try: " + path + " --version")
		}
	}
	note(f, err)

	if t != lock.Single {
		note(Found{Source: Docker}, missing(onlyBinary(t)))
		note(Found{Source: Embedded}, missing(onlyBinary(t)))
		return list
	}

	f = Found{Source: Docker}
	eng, err := openEngine(ctx)
	if err == nil {
		if f.Where, err = eng.image(ctx, "redis", redisImage, o); err == nil {
			f.Product, f.Version, err = eng.inspectImage(ctx, "redis", f.Where)
		}
		err = errors.Join(err, eng.close())
	}
	note(f, err)

	note(Found{Source: Embedded, Product: "miniredis", Version: miniredisVersion(), Where: "in this process"}, nil)
	return list
}

// lookAt connects to what e names and says what it is.
func lookAt(ctx context.Context, e lock.Endpoint) (product, version string, err error) {
	var n node
	var first *redisNode
	switch e.Topology() {
	case lock.Cluster:
		var c *cluster
		if c, err = joinCluster(ctx, e); err == nil {
			n, first = c, c.first()
		}
	case lock.Sentinel:
		var w *watched
		if w, err = askSentinels(ctx, e); err == nil {
			n, first = w, w.first()
		}
	default:
		if first, err = connectRedis(ctx, e); err == nil {
			n = first
		}
	}
	if err != nil {
		return "", "", err
	}
	return first.product, first.version, n.close()
}
