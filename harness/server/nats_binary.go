package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockbench/lockbench/impls/lock"
)

// natsGet is the command that installs a server.
const natsGet = "go install github.com/nats-io/nats-server/v2@latest"

// locateNATS finds the program that o names, or the one on PATH.
func locateNATS(ctx context.Context, o Options) (installed, error) {
	path, err := o.locate("nats", []string{"nats-server"}, natsGet)
	if err != nil {
		return installed{}, err
	}
	i, err := natsInstalled(ctx, path, o)
	if err == nil && olderThan(i.version, natsOldest) {
		err = missing(fmt.Sprintf("%s is nats-server %s, and its keys end by themselves from %s on; get one with: %s", path, i.version, natsOldest, natsGet))
		if o.Programs["nats"] != "" {
			err = errors.New(err.Error()) // one that was named is not replaced by another
		}
	}
	return i, err
}

// natsInstalled asks the program at path for its version: "nats-server: v2.12.1". Env is
// what makes it a server.
func natsInstalled(ctx context.Context, path string, o Options, env ...string) (installed, error) {
	version, err := versionAfter(ctx, "nats-server", "nats-server: v", path, env...)
	if err != nil {
		return installed{}, err
	}
	return installed{path: path, product: "nats", version: version, env: env, sync: o.SyncAlways}, nil
}

// natsConfig is the configuration of a server. Routes are those of its cluster, "" if it
// is one by itself, and peer is the port at which it listens to the others.
func natsConfig(name string, sync bool, client, peer int, cluster, routes string) string {
	text := fmt.Sprintf("server_name: %q\nlisten: %q\njetstream {\n  store_dir: data\n", name, natsAddr(client))
	if sync {
		text += "  sync_interval: always\n"
	}
	text += "}\n"
	if routes != "" {
		text += fmt.Sprintf("cluster {\n  name: %q\n  listen: %q\n  routes: [%s]\n}\n", cluster, natsAddr(peer), routes)
	}
	return text
}

func natsAddr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// natsProgram is the server of that name, which listens to the others of its cluster at
// peer.
func natsProgram(i installed, name string, peer int, cluster, routes string) program {
	var role func(context.Context, string) (string, error)
	if routes != "" {
		role = natsRole
	}
	return program{
		path: i.path, env: i.env, role: role,
		args: func(_ context.Context, ports []int, dir string) ([]string, error) {
			config := filepath.Join(dir, "nats.conf")
			text := natsConfig(name, i.sync, ports[0], peer, cluster, routes)
			return []string{"-c", config}, os.WriteFile(config, []byte(text), 0o600)
		},
		ready: natsReady,
		join: func(ctx context.Context, addr string, _ int) error {
			c, err := natsDial(ctx, lock.Endpoint("nats://"+addr))
			if err != nil {
				return err
			}
			defer c.Close()
			if c.ConnectedServerName() != name {
				return errTaken // somebody else's server answers there
			}
			return nil
		},
	}
}

// natsReady asks once whether JetStream serves behind addr: in a cluster that it has a
// leader.
func natsReady(ctx context.Context, addr string) error {
	c, err := natsDial(ctx, lock.Endpoint("nats://"+addr))
	if err != nil {
		return err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	return err
}

// natsRole asks the server at addr whether it leads the first stream of its cluster. Each
// stream has a leader of its own; the locks have one.
func natsRole(ctx context.Context, addr string) (string, error) {
	c, err := natsDial(ctx, lock.Endpoint("nats://"+addr))
	if err != nil {
		return "", err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return "", err
	}
	if info, ok := <-js.ListStreams(ctx).Info(); ok && info.Cluster != nil && info.Cluster.Leader == c.ConnectedServerName() {
		return "leader", nil
	}
	return "follower", nil
}

// launchNATS starts one server, or three that are one cluster.
func launchNATS(ctx context.Context, i installed, d *tempDir, t lock.Topology, g *group) (lock.Endpoint, error) {
	members := 1
	if t == lock.Ensemble {
		members = ensemble
	}
	addrs, err := launchMembers(ctx, d, g, members, func(peers []int) func(n int) program {
		cluster := strings.ToLower(rand.Text())
		var routes []string
		for _, port := range peers {
			routes = append(routes, strconv.Quote("nats://"+natsAddr(port)))
		}
		if len(peers) == 1 {
			routes = nil
		}
		return func(n int) program {
			return natsProgram(i, cluster+"-"+strconv.Itoa(n), peers[n], cluster, strings.Join(routes, ", "))
		}
	})
	e := lock.Endpoint("nats://" + addrs)
	if err == nil && t == lock.Ensemble {
		err = natsGathered(ctx, e)
	}
	return e, err
}

// natsGathered waits until a cluster has heard of all its servers, and so makes streams
// that each of them holds.
func natsGathered(ctx context.Context, e lock.Endpoint) error {
	c, err := natsDial(ctx, e)
	if err != nil {
		return err
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err != nil {
		return err
	}
	const probe = "lockbench_gathered"
	err = ready(ctx, readyWithin, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: probe, Replicas: ensemble, Storage: jetstream.MemoryStorage})
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("the cluster at %s %w", e, err)
	}
	return js.DeleteStream(ctx, probe)
}
