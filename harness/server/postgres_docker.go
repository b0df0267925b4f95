package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// postgresFirst makes the directory of a server in a container, in the volume that
// the image names, and lets clients in that do not come from its own loopback.
const postgresFirst = `export LC_ALL=C PGDATA="${PGDATA:-/var/lib/postgresql/data}/lockbench"
initdb %s
echo 'host all all all trust' >>"$PGDATA/pg_hba.conf"`

// containPostgres starts one container of a PostgreSQL.
func containPostgres(ctx context.Context, e *engine, image string, o Options) (*box, lock.Endpoint, error) {
	b, err := e.launch(ctx, imaged{
		kind: "postgresql", image: image, user: "postgres", programs: []string{"postgres"}, port: "5432/tcp", tree: true,
		first: fmt.Sprintf(postgresFirst, strings.Join(postgresInit(), " ")),
		args:  append(postgresFlags(o.Conns), "-p", "5432", "-c", "listen_addresses=*", "-c", "unix_socket_directories="),
		ready: postgresReady,
	})
	if err != nil {
		return nil, "", err
	}
	return b, postgresAt(b.addr), nil
}
