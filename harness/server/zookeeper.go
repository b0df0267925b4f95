package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockbench/lockbench/impls/lock"
)

const zookeeperPort = "2181"

// zookeeperKind is the kind of server that Apache ZooKeeper is.
func zookeeperKind() Kind {
	return family{
		kind: "zookeeper", address: map[lock.Topology]string{lock.Single: "zookeeper://HOST:2181"},
		locate: locateZookeeper, launch: launchZookeeper, hosts: keeperHosts, connect: connectZookeeper,
		usual: "zookeeper:3.9", contain: containZookeeper,
	}.as([]string{"zookeeper://HOST[:PORT][,HOST[:PORT]…][/NODE]"}, lock.Ensemble)
}

// keeperNode is the administrator's view of one server, or of one ensemble.
type keeperNode struct {
	hosts []string
	root  string // "" or "/NODE"
	conn  *zk.Conn
	done  <-chan zk.Event
	seen  about
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// keeperHosts is the hosts of zookeeper.
func keeperHosts(e lock.Endpoint) (hosts []string, err error) {
	parts, _, err := e.Split()
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		at, err := hostport(p, zookeeperPort)
		if err != nil || !strings.HasPrefix(p.Reveal(), "zookeeper://") {
			return nil, errors.New("the address is no URL of a ZooKeeper: want zookeeper://HOST[:PORT][,HOST[:PORT]…][/NODE]")
		}
		hosts = append(hosts, at)
	}
	return hosts, nil
}

// connectZookeeper asks every server behind e who it is, by a four-letter word
// that all versions answer, and opens a session on one of them.
func connectZookeeper(ctx context.Context, e lock.Endpoint) (node, error) {
	n := &keeperNode{}
	var err error
	if n.hosts, err = keeperHosts(e); err != nil {
		return nil, err
	}
	parts, path, _ := e.Split() // keeperHosts has
	if len(parts) > 1 {
		n.seen.members = parts
	} else if u, err := url.Parse(e.Reveal()); err == nil {
		path = u.Path
	}
	n.root = strings.TrimRight(path, "/")
	var failed []error
	for _, at := range n.hosts {
		text, err := word(ctx, at, "srvr")
		if err == nil && !strings.Contains(text, "Mode:") {
			err = fmt.Errorf("%s does not serve: %s", at, lastLine([]byte(text)))
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if n.seen.product == "" {
			_, v, _ := strings.Cut(text, "Zookeeper version: ")
			v, _, _ = strings.Cut(v, ",")
			v, _, _ = strings.Cut(v, "-")
			n.seen.product, n.seen.version = "zookeeper", v
			n.seen.options = keeperOptions(ctx, at)
			if strings.Contains(n.seen.options, "forceSync no") {
				n.seen.durable = "each write, in the file system's memory"
			}
		}
	}
	if n.seen.product == "" {
		return nil, oneLine(failed)
	}
	n.conn, n.done, err = zk.Connect(n.hosts, 20*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(n.hosts, ","), err)
	}
	// The first request waits for the session.
	if err := n.do(ctx, func() error { _, _, err := n.conn.Exists("/"); return err }); err != nil {
		_ = n.close()
		return nil, fmt.Errorf("%s gives no session: %w", strings.Join(n.hosts, ","), err)
	}
	return n, nil
}

// keeperOptions are the settings that matter for figures, where the server tells:
// the length of a tick, which sessions are rounded to, and whether it waits for its
// disk, which ours says by the name of its directory.
func keeperOptions(ctx context.Context, at string) string {
	text, err := word(ctx, at, "conf")
	if err != nil {
		return ""
	}
	var list []string
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "tickTime", "minSessionTimeout", "maxSessionTimeout":
			list = append(list, name+" "+value)
		case "dataDir":
			if strings.Contains(value, "/"+unsynced+"/") {
				list = append(list, "forceSync no")
			}
		}
	}
	return strings.Join(list, " ")
}

// word sends one of the four-letter words to the server at addr.
func word(ctx context.Context, addr, what string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(c, what); err != nil {
		return "", fmt.Errorf("%s closed the connection: is it a ZooKeeper?", addr)
	}
	b, err := io.ReadAll(io.LimitReader(c, 1<<20))
	if err != nil {
		return "", fmt.Errorf("%s does not answer as a ZooKeeper: %w", addr, err)
	}
	text := string(b)
	if strings.Contains(text, "is not executed because it is not in the whitelist") {
		return "", fmt.Errorf("%s does not answer %q: it is not in its 4lw.commands.whitelist", addr, what)
	}
	return text, nil
}

func (n *keeperNode) about() about { return n.seen }

// do bounds one use of the library, which knows no contexts.
func (n *keeperNode) do(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	c := make(chan error, 1)
	go func() { c <- f() }()
	select {
	case err := <-c:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
}

// usage sums the packets that the servers have received, of clients: requests and
// pings. What one of them spends on the others it does not tell, nor its bytes.
func (n *keeperNode) usage(ctx context.Context) (Usage, error) {
	u := untold()
	u.Cmds = 0
	for _, at := range n.hosts {
		text, err := word(ctx, at, "srvr")
		if err != nil {
			return Usage{}, err
		}
		_, rest, ok := strings.Cut(text, "Received: ")
		number, _, _ := strings.Cut(rest, "\n")
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !ok || err != nil {
			return Usage{}, fmt.Errorf("%s does not say how many packets it has received", at)
		}
		u.Cmds += v
	}
	return u, nil
}

// rtt times reads of one node, since the library sends its pings by itself.
func (n *keeperNode) rtt(ctx context.Context, count int) ([]time.Duration, error) {
	var list []time.Duration
	err := n.do(ctx, func() error {
		for i := range count + 1 {
			sent := time.Now()
			if _, _, err := n.conn.Exists("/"); err != nil {
				return err
			}
			if i > 0 { // the first warms
				list = append(list, time.Since(sent))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// noKey is a name of no key's node. To delete that node, which fails, changes nothing
// and is a write all the same: when its answer has come, the server that was asked has
// applied all that had been answered before, by whatever server of the ensemble.
const noKey = "%-"

// isNode reports whether a node below the root that is not ZooKeeper's own can have
// this name. A lock on several engines names the keys of the others, too.
func isNode(name string) bool {
	switch name {
	case "", ".", "..", "zookeeper":
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' || r == '/' })
}

// remove deletes the nodes of these names with all that lies below them, and returns
// how many there were.
func (n *keeperNode) remove(ctx context.Context, names []string) (int, error) {
	sum := 0
	err := n.do(ctx, func() error {
		// What one server of an ensemble has, another may not have learned of yet.
		err := n.conn.Delete(n.root+"/"+noKey, -1)
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
			return err
		}
		for _, name := range names {
			if !isNode(name) {
				continue
			}
			k, err := n.clear(n.root + "/" + name)
			sum += k
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return sum, nil
}

// clear deletes path and what lies below it, where others may add to it.
func (n *keeperNode) clear(path string) (sum int, err error) {
	for range 100 {
		children, _, err := n.conn.Children(path)
		if errors.Is(err, zk.ErrNoNode) {
			return sum, nil
		}
		if err != nil {
			return sum, err
		}
		for _, child := range children {
			k, err := n.clear(path + "/" + child)
			sum += k
			if err != nil {
				return sum, err
			}
		}
		switch err := n.conn.Delete(path, -1); {
		case err == nil:
			return sum + 1, nil
		case errors.Is(err, zk.ErrNoNode):
			return sum, nil
		case !errors.Is(err, zk.ErrNotEmpty):
			return sum, err
		}
	}
	return sum, fmt.Errorf("%s: others go on adding to it", path)
}

func (n *keeperNode) close() error {
	n.conn.Close()
	return nil
}
