package server

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// keeperFirst finds the jars of the server, which the project's own image has beside
// its scripts and ours where Debian has them, and writes the configuration.
const keeperFirst = `script=$(command -v zkServer.sh || :)
export CLASSPATH='/usr/share/java/*'
[ -z "$script" ] || CLASSPATH="${script%/bin/*}/lib/*${ZOO_CONF_DIR:+:$ZOO_CONF_DIR}"
echo '` + keeperConfig + `dataDir=/data/` + unsynced + `
clientPort=2181' >/tmp/zoo.cfg`

// containZookeeper starts one container of a ZooKeeper, whose data lie in the volume
// that its image has.
func containZookeeper(ctx context.Context, e *engine, image string, _ Options) (*box, lock.Endpoint, error) {
	b, err := e.launch(ctx, imaged{
		kind: "zookeeper", image: image, user: "0", programs: []string{"java"}, port: "2181/tcp",
		first: keeperFirst,
		args:  keeperArgs("/tmp/zoo.cfg"),
		ready: keeperReady,
	})
	if err != nil {
		return nil, "", err
	}
	return b, lock.Endpoint("zookeeper://" + b.addr), nil
}
