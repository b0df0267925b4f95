package server

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// containNATS starts one container of a NATS by itself. The shell writes its
// configuration.
func containNATS(ctx context.Context, e *engine, image string, o Options) (*box, lock.Endpoint, error) {
	sync := ""
	if o.SyncAlways {
		sync = "sync_interval: always"
	}
	b, err := e.launch(ctx, imaged{
		kind: "nats", image: image, user: "0", programs: []string{"nats-server"}, port: "4222/tcp",
		first: "echo 'listen: 0.0.0.0:4222, jetstream { store_dir: /data, " + sync + " }' >/tmp/nats.conf",
		args:  []string{"-c", "/tmp/nats.conf"},
		ready: natsReady,
	})
	if err != nil {
		return nil, "", err
	}
	return b, lock.Endpoint("nats://" + b.addr), nil
}
