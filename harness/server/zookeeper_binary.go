package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

// unsynced is the name of a directory whose data no server waits for the disk to
// keep: a benchmark of locks must not measure one.
const unsynced = "unsynced"

// keepers is how many servers an ensemble of ours has: the fewest of which one may
// die.
const keepers = 3

// locateZookeeper finds a Java and the jar of the server, where Debian or an
// archive of the project puts it.
func locateZookeeper(_ context.Context, o Options) (installed, error) {
	const get = "scripts/servers zookeeper"
	java, err := o.locate("zookeeper", []string{"java"}, get)
	if err != nil {
		return installed{}, err
	}
	jar := keeperJar()
	if jar == "" {
		return installed{}, missing("zookeeper.jar is neither in /usr/share/java nor in ZOOKEEPER_HOME/lib; get it with: " + get)
	}
	return installed{path: java, product: "zookeeper", version: jarVersion(jar)}, nil
}

// keeperJar is the path of the server's jar, "" if there is none.
func keeperJar() string {
	list := []string{"/usr/share/java/zookeeper.jar"}
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		found, _ := filepath.Glob(filepath.Join(home, "lib", "zookeeper-[0-9]*.jar"))
		list = append(found, list...)
	}
	for _, path := range list {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// jarVersion reads the version from the name of the jar, or of one beside it that
// is the same file.
func jarVersion(jar string) string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(jar), "zookeeper-[0-9]*.jar"))
	for _, path := range found {
		a, err := os.Stat(path)
		if err != nil {
			continue
		}
		if b, err := os.Stat(jar); err == nil && os.SameFile(a, b) {
			return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "zookeeper-"), ".jar")
		}
	}
	return ""
}

// classPath is jar with what it needs beside it. The jar of Debian names all but
// a logger.
func classPath(jar string) string {
	dir := filepath.Dir(jar)
	if dir == "/usr/share/java" {
		return jar + ":" + filepath.Join(dir, "slf4j-simple.jar")
	}
	return filepath.Join(dir, "*")
}

// keeperConfig is what all servers have in their configuration. A tick is short,
// because the end of a session is rounded up to one; sessions may last as long as
// they like.
const keeperConfig = "tickTime=100\nminSessionTimeout=100\nmaxSessionTimeout=3600000\nmaxClientCnxns=0\n"

// keeperArgs are the arguments of a Java that has the jars of the server.
func keeperArgs(config string) []string {
	return []string{
		"-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=*", "-Dzookeeper.forceSync=no",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", config,
	}
}

// keeperReady asks once whether the server at addr serves.
func keeperReady(ctx context.Context, addr string) error {
	text, err := word(ctx, addr, "srvr")
	if err == nil && !strings.Contains(text, "Mode:") {
		err = errors.New("it does not serve yet")
	}
	return err
}

// keeperRole is the mode that the server at addr says it is in: "leader" or "follower".
func keeperRole(ctx context.Context, addr string) (string, error) {
	text, err := word(ctx, addr, "srvr")
	_, mode, _ := strings.Cut(text, "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return strings.TrimSpace(mode), err
}

// keeperClock is when the server at addr, which is by itself, says that it made a node.
func keeperClock(ctx context.Context, addr string) (time.Time, error) {
	m, err := connectZookeeper(ctx, lock.Endpoint("zookeeper://"+addr))
	if err != nil {
		return time.Time{}, err
	}
	n := m.(*keeperNode)
	defer func() { _ = n.close() }()
	var made int64
	err = n.do(ctx, func() error {
		path, err := n.conn.Create("/lockbench-clock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			return err
		}
		_, stat, err := n.conn.Exists(path)
		if err == nil {
			made = stat.Ctime
		}
		return errors.Join(err, n.conn.Delete(path, -1))
	})
	return time.UnixMilli(made), err
}

// keeperProgram is a server whose configuration is keeperConfig and what lines
// returns once its ports are known.
func keeperProgram(i installed, ports int, lines func(ctx context.Context, ports []int, dir string) (string, error)) program {
	var data string
	role, clock := keeperRole, (func(context.Context, string) (time.Time, error))(nil) // each of several tells only the leader's
	if ports == 1 {
		role, clock = nil, keeperClock
	}
	return program{
		path: i.path, ports: ports, role: role, clock: clock,
		args: func(ctx context.Context, ports []int, dir string) ([]string, error) {
			data = filepath.Join(dir, unsynced)
			if err := os.Mkdir(data, 0o700); err != nil {
				return nil, err
			}
			own, err := lines(ctx, ports, data)
			if err != nil {
				return nil, err
			}
			config := filepath.Join(dir, "zoo.cfg")
			text := keeperConfig + "dataDir=" + data + "\n" + own
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				return nil, err
			}
			return append([]string{"-cp", classPath(keeperJar())}, keeperArgs(config)...), nil
		},
		ready: keeperReady,
		join: func(ctx context.Context, addr string, _ int) error {
			text, err := word(ctx, addr, "conf")
			if err == nil && !strings.Contains(text, data) {
				return errTaken
			}
			return err
		},
	}
}

// launchZookeeper starts one server, or three that are one ensemble.
func launchZookeeper(ctx context.Context, i installed, d *tempDir, t lock.Topology, g *group) (lock.Endpoint, error) {
	if t == lock.Ensemble {
		return launchKeepers(ctx, i, d, g)
	}
	r, err := launch(ctx, d, keeperProgram(i, 1, func(_ context.Context, ports []int, _ string) (string, error) {
		return fmt.Sprintf("clientPort=%d\nclientPortAddress=127.0.0.1\n", ports[0]), nil
	}))
	if err != nil {
		return "", err
	}
	*g = append(*g, r)
	return lock.Endpoint("zookeeper://" + r.addr), nil
}

// launchKeepers starts an ensemble. Each server must know the ports of all before
// it starts, and none is ready before two of them are there: so they start at once,
// and if one has to be given another port, all begin again.
func launchKeepers(ctx context.Context, i installed, d *tempDir, g *group) (lock.Endpoint, error) {
	for try := 1; ; try++ {
		list, err := launchKeepersOnce(ctx, i, d)
		if err == nil {
			var addrs []string
			for _, r := range list {
				*g = append(*g, r)
				addrs = append(addrs, r.addr)
			}
			return lock.Endpoint("zookeeper://" + strings.Join(addrs, ",")), nil
		}
		for _, r := range list {
			_ = r.stop()
		}
		if !errors.Is(err, errTaken) || try == 5 || ctx.Err() != nil {
			return "", err
		}
	}
}

func launchKeepersOnce(ctx context.Context, i installed, d *tempDir) (list []*running, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	known := make([]string, keepers) // the line of each
	all := make(chan struct{})
	complete := sync.OnceFunc(func() { close(all) }) // a server that is started empty comes here again
	lines := func(n int) func(context.Context, []int, string) (string, error) {
		return func(ctx context.Context, ports []int, data string) (string, error) {
			if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(n+1)), 0o600); err != nil {
				return "", err
			}
			mu.Lock()
			known[n] = fmt.Sprintf("server.%d=127.0.0.1:%d:%d;%s", n+1, ports[1], ports[2], net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])))
			last := !slices.Contains(known, "")
			mu.Unlock()
			if last {
				complete()
			}
			select {
			case <-all:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			mu.Lock() // others may write theirs again
			defer mu.Unlock()
			return "initLimit=100\nsyncLimit=100\nstandaloneEnabled=false\nreconfigEnabled=false\n" + strings.Join(known, "\n") + "\n", nil
		}
	}
	var wg sync.WaitGroup
	for n := range keepers {
		wg.Go(func() {
			r, e := launchOnce(ctx, d, keeperProgram(i, 3, lines(n)))
			mu.Lock()
			defer mu.Unlock()
			if e == nil {
				list = append(list, r)
			} else if err == nil {
				err = e
				cancel(e) // the others would wait for it
			}
		})
	}
	wg.Wait()
	return list, err
}
