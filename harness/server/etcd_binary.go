package server

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/lockbench/lockbench/impls/lock"
)

// locateEtcd finds the program that o names, or the one on PATH, and asks it for
// its version: "etcd Version: 3.4.23".
func locateEtcd(ctx context.Context, o Options) (installed, error) {
	path, err := o.locate("etcd", []string{"etcd"}, "scripts/servers etcd")
	if err != nil {
		return installed{}, err
	}
	version, err := versionAfter(ctx, "etcd", "etcd Version: ", path, etcdEnv()...)
	if err != nil {
		return installed{}, err
	}
	return installed{path: path, product: "etcd", version: version}, nil
}

// etcdEnv empties the variables that etcd would take for flags, and refuse beside
// ours.
func etcdEnv() (list []string) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "ETCD_") {
			list = append(list, name+"=")
		}
	}
	return list
}

// etcdFlags are the arguments of a member beside its name, its addresses and its
// directory. The election time-out bounds the shortest lease from below, which with
// etcd's default is 2 s. It does not wait for its disk: a benchmark of locks must
// not measure one.
func etcdFlags() []string {
	return []string{"--heartbeat-interval", "20", "--election-timeout", "200", "--unsafe-no-fsync"}
}

// etcdProgram is the member of that name, which listens to the others at peer, of a
// cluster of all.
func etcdProgram(i installed, name string, peer int, all string) program {
	at := etcdURL(peer)
	var role func(context.Context, string) (string, error)
	if strings.Contains(all, ",") {
		role = etcdRole
	}
	return program{
		path: i.path, env: append(etcdEnv(), i.env...), role: role,
		args: func(_ context.Context, ports []int, _ string) ([]string, error) {
			client := etcdURL(ports[0])
			return append(etcdFlags(), "--name", name, "--data-dir", "data", "--listen-client-urls", client, "--advertise-client-urls", client,
				"--listen-peer-urls", at, "--initial-advertise-peer-urls", at, "--initial-cluster", all), nil
		},
		ready: etcdReady,
		join: func(ctx context.Context, addr string, _ int) error {
			m, err := connectEtcd(ctx, lock.Endpoint("etcd://"+addr))
			if err != nil {
				return err
			}
			defer func() { _ = m.close() }()
			list, err := pb.NewClusterClient(m.(*etcdNode).client.ActiveConnection()).MemberList(ctx, &pb.MemberListRequest{})
			if err != nil {
				return err
			}
			for _, one := range list.Members {
				if one.Name == name {
					return nil
				}
			}
			return errTaken // somebody else's server answers there
		},
	}
}

// etcdRole is "leader" or "follower", by what the member at addr says of itself.
func etcdRole(ctx context.Context, addr string) (string, error) {
	m, err := connectEtcd(ctx, lock.Endpoint("etcd://"+addr))
	if err != nil {
		return "", err
	}
	defer func() { _ = m.close() }()
	s, err := pb.NewMaintenanceClient(m.(*etcdNode).client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	switch {
	case err != nil:
		return "", err
	case s.Leader == s.Header.MemberId:
		return "leader", nil
	}
	return "follower", nil
}

// etcdReady asks once whether the member at addr knows a leader.
func etcdReady(ctx context.Context, addr string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", nil)
	if err != nil {
		return err
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Do(req)
	if err != nil {
		return err
	}
	_ = r.Body.Close() // only the status counts
	if r.StatusCode != http.StatusOK {
		return errors.New("it is not healthy: " + r.Status)
	}
	return nil
}

func etcdURL(port int) string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// launchEtcd starts one server, or three that are one cluster.
func launchEtcd(ctx context.Context, i installed, d *tempDir, t lock.Topology, g *group) (lock.Endpoint, error) {
	members := 1
	if t == lock.Ensemble {
		members = ensemble
	}
	addrs, err := launchMembers(ctx, d, g, members, func(peers []int) func(n int) program {
		cluster := strings.ToLower(rand.Text())
		name := func(n int) string { return cluster + "-" + strconv.Itoa(n) }
		var all []string
		for n, port := range peers {
			all = append(all, name(n)+"="+etcdURL(port))
		}
		return func(n int) program { return etcdProgram(i, name(n), peers[n], strings.Join(all, ",")) }
	})
	return lock.Endpoint("etcd://" + addrs), err
}
