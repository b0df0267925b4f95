package server

import (
	"context"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// mysqlFirst makes the directory of a server in a container, and what the server
// does before it listens: its clients do not come from its own loopback, which is
// all that its user may come from by itself.
const mysqlFirst = `echo "CREATE USER root@'%';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
CREATE DATABASE lockbench;" >/tmp/first.sql
mariadb-install-db --force --user=root --datadir=/var/lib/mysql/lockbench `

// containMySQL starts one container of a MariaDB, whose data lie in the volume that
// its image has.
func containMySQL(ctx context.Context, e *engine, image string, o Options) (*box, lock.Endpoint, error) {
	b, err := e.launch(ctx, imaged{
		kind: "mysql", image: image, user: "0", programs: []string{"mariadbd"}, port: "3306/tcp",
		first: mysqlFirst + strings.Join(mysqlInstall(), " "),
		args: append(mysqlFlags(o.Conns), "--user=root", "--datadir=/var/lib/mysql/lockbench", "--socket=/tmp/sock", "--pid-file=/tmp/pid",
			"--port=3306", "--bind-address=0.0.0.0", "--init-file=/tmp/first.sql"),
		ready: mysqlReady,
	})
	if err != nil {
		return nil, "", err
	}
	return b, lock.Endpoint("mysql://root@" + b.addr + "/lockbench"), nil
}
