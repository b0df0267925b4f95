package server

import (
	"context"
	"os"

	"go.etcd.io/etcd/api/v3/version"
)

// embeddedEtcd is the etcd that is built into this program, if o says so. It is
// etcd's own server, not an imitation, and is started as the installed one is.
func embeddedEtcd(_ context.Context, o Options) (installed, error) {
	setting := o.Embeds["etcd"]
	if setting == "" {
		return installed{}, missing("is not built into this program; get the server with: scripts/servers etcd")
	}
	self, err := os.Executable()
	if err != nil {
		return installed{}, err
	}
	// The server of one release says what the module of its interface says.
	return installed{path: self, product: "etcd", version: version.Version, env: []string{setting}}, nil
}
