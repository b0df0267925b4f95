package server

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// containEtcd starts one container of an etcd that is a cluster by itself. It
// advertises an address that leads nowhere from outside: clients of one member ask
// for none.
func containEtcd(ctx context.Context, e *engine, image string, _ Options) (*box, lock.Endpoint, error) {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	b, err := e.launch(ctx, imaged{
		kind: "etcd", image: image, user: "0", programs: []string{"etcd"}, port: "2379/tcp",
		args: append(etcdFlags(), "--name", "lockbench", "--data-dir", "/var/lib/etcd/lockbench",
			"--listen-client-urls", "http://0.0.0.0:2379", "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "lockbench="+peer),
		ready: etcdReady,
	})
	if err != nil {
		return nil, "", err
	}
	return b, lock.Endpoint("etcd://" + b.addr), nil
}
