package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// redisImage is what a container runs where nothing else is asked for, and
// localImage what scripts/image makes from the installed binary.
const (
	redisImage = "redis:8"
	localImage = "lockbench/redis:local"
)

const urlHint = "no address was given; give one with: export " + envURL + "=redis://HOST:6379"

// startRedis provides n.Nodes independent servers from src.
func startRedis(ctx context.Context, src Source, n lock.Needs, o Options) (*Server, error) {
	s := &Server{Kind: "redis", Source: src, Deployment: lock.Deployment{Kind: "redis"}}
	if err := s.addRedis(ctx, n, o); err != nil {
		_ = s.Close() // whatever it says, err came first
		return nil, err
	}
	first := s.nodes[0].(*redisNode)
	s.Product, s.Version, s.Options = first.product, first.version, first.options
	return s, nil
}

// addRedis adds n.Nodes servers from s.Source to s. On error those stay that
// were added so far.
func (s *Server) addRedis(ctx context.Context, n lock.Needs, o Options) error {
	var one func(i int) (host, *redisNode, lock.Endpoint, error)
	switch s.Source {
	case URL:
		given := o.URLs["redis"]
		if len(given) == 0 {
			return missing(urlHint)
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
		path, err := redisBinary(o.Program)
		if err != nil {
			return err
		}
		dir, err := makeTemp()
		if err != nil {
			return err
		}
		s.sweep = dir.remove
		one = func(int) (host, *redisNode, lock.Endpoint, error) { return startBinary(ctx, path, dir) }
	case Docker:
		eng, err := openEngine(ctx)
		if err != nil {
			return err
		}
		s.sweep = eng.close
		if err := eng.guard(); err != nil {
			return err
		}
		image := eng.redisImage(ctx, o)
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
		n, err := connectRedis(ctx, e)
		if err == nil {
			f.Product, f.Version, f.Where = n.product, n.version, e.String()
			err = n.close()
		}
		note(f, err)
	}
	if len(o.URLs["redis"]) == 0 {
		note(Found{Source: URL}, missing(urlHint))
	}

	path, err := redisBinary(o.Program)
	f := Found{Source: Binary, Where: path}
	if err == nil {
		if f.Product, f.Version = binaryVersion(ctx, path); f.Version == "" {
			err = errors.New(path + " does not tell its version; try: " + path + " --version")
		}
	}
	note(f, err)

	f = Found{Source: Docker}
	eng, err := openEngine(ctx)
	if err == nil {
		f.Where = eng.redisImage(ctx, o)
		f.Product, f.Version, err = eng.inspectImage(ctx, f.Where)
		err = errors.Join(err, eng.close())
	}
	note(f, err)

	note(Found{Source: Embedded, Product: "miniredis", Version: miniredisVersion(), Where: "in this process"}, nil)
	return list
}

// imageVersion reads product and version of an image from what its maker wrote
// on it; both are guesses until the server itself has been asked.
func imageVersion(image string, labels map[string]string, env []string) (product, version string) {
	product = "redis"
	if strings.Contains(image, "valkey") {
		product = "valkey"
	}
	if v := labels["org.opencontainers.image.version"]; v != "" {
		return product, v
	}
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, strings.ToUpper(product)+"_VERSION="); ok {
			return product, v
		}
	}
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		version = image[i+1:]
	}
	return product, version
}
