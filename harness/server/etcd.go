package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockbench/lockbench/impls/lock"
)

// etcdPort is where etcd listens for clients by itself.
const etcdPort = "2379"

// What is said of an etcd that does not wait for its disk.
const (
	etcdUnsafe   = "unsafe-no-fsync"
	etcdInMemory = "each write, in the memory of its system"
)

// etcdCreates is how often an etcd at most waits for its disk before it heeds that
// it need not: since 3.5 when it makes its log.
const etcdCreates = 2

// etcdKind is the kind of server that etcd is.
func etcdKind() Kind {
	return family{
		kind: "etcd", address: map[lock.Topology]string{lock.Single: "etcd://HOST:2379"},
		locate: locateEtcd, embedded: embeddedEtcd, launch: launchEtcd, hosts: etcdHosts, connect: connectEtcd, contain: containEtcd,
		settings: func(Options) about { return about{options: etcdUnsafe, durable: etcdInMemory} },
	}.as([]string{"etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…] (etcds:// for TLS)"}, lock.Ensemble)
}

// etcdNode is the administrator's view of one member, or of all of a cluster.
type etcdNode struct {
	client *clientv3.Client
	http   *http.Client
	hosts  []string // URLs
	seen   about
}

var errNoEtcd = errors.New("the address is no URL of an etcd: want etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…] (etcds:// for TLS)")

// etcdHosts is the hosts of etcd.
func etcdHosts(e lock.Endpoint) (hosts []string, err error) {
	parts, _, err := e.Split()
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		scheme, _, _ := strings.Cut(p.Reveal(), "://")
		at, err := hostport(p, etcdPort)
		if err != nil || scheme != "etcd" && scheme != "etcds" {
			return nil, errNoEtcd
		}
		hosts = append(hosts, at)
	}
	return hosts, nil
}

// connectEtcd asks a member behind e who it is.
func connectEtcd(ctx context.Context, e lock.Endpoint) (node, error) {
	n := &etcdNode{http: &http.Client{Transport: &http.Transport{}}}
	o := clientv3.Config{Logger: zap.NewNop(), DialTimeout: patience}
	hosts, err := etcdHosts(e)
	if err != nil {
		return nil, err
	}
	parts, _, _ := e.Split() // etcdHosts has
	if len(parts) > 1 {
		n.seen.members = parts
	}
	for i, p := range parts {
		u, err := url.Parse(p.Reveal())
		if err != nil {
			return nil, errNoEtcd
		}
		at := url.URL{Scheme: "http", Host: hosts[i]}
		if u.Scheme == "etcds" {
			at.Scheme = "https"
		}
		n.hosts = append(n.hosts, at.String())
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	o.Endpoints = n.hosts
	if n.client, err = clientv3.New(o); err != nil {
		return nil, err
	}
	if err := n.look(ctx); err != nil {
		_ = n.close() // the first error is the one that helps
		return nil, err
	}
	return n, nil
}

// look asks the first member that answers, without waiting for one.
func (n *etcdNode) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := pb.NewMaintenanceClient(n.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		at, why := strings.Join(n.hosts, ","), strings.Join(strings.Fields(status.Convert(err).Message()), " ") // in one line
		if c := status.Code(err); c == codes.Unavailable || c == codes.DeadlineExceeded {
			return fmt.Errorf("%s does not answer as an etcd: %s", at, why)
		}
		return fmt.Errorf("%s: %s", at, why)
	}
	n.seen.product, n.seen.version = "etcd", s.Version
	n.seen.id = strconv.FormatUint(s.Header.ClusterId, 16)
	// Etcd does not tell its flags. But one that has written and never waited for its
	// disk was told not to, and one that has waited a few times may have.
	m, err := n.metrics(ctx, n.hosts[0])
	waits := m["etcd_disk_wal_fsync_duration_seconds_count"]
	switch {
	case err != nil: // it may keep them to itself: see usage
	case waits == 0 && m["etcd_server_proposals_applied_total"] > 0:
		n.seen.options, n.seen.durable = etcdUnsafe, etcdInMemory
	case waits > etcdCreates:
		n.seen.durable = "each write, on disk"
	}
	return nil
}

func (n *etcdNode) about() about { return n.seen }

// metrics reads what the member at host counts: the sums over all labels, but
// without what its maintenance was asked for.
func (n *etcdNode) metrics(ctx context.Context, host string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	r, err := n.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics: %s", host, r.Status)
	}
	sums := map[string]float64{}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		text := lines.Text()
		i := strings.LastIndex(text, " ")
		if i < 0 || strings.HasPrefix(text, "#") || strings.Contains(text, `"etcdserverpb.Maintenance"`) {
			continue
		}
		name, _, _ := strings.Cut(text[:i], "{")
		if v, err := strconv.ParseFloat(text[i+1:], 64); err == nil {
			sums[name] += v
		}
	}
	return sums, lines.Err()
}

// usage sums over the members what they have spent: every message of a client is a
// command, those on streams (watches, keep-alives) too. Members that keep their
// metrics from us, behind TLS with certificates of clients or at another address, leave NaN.
func (n *etcdNode) usage(ctx context.Context) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sum := Usage{Kept: math.NaN()}
	for _, host := range n.hosts {
		m, err := n.metrics(ctx, host)
		if err != nil && ctx.Err() != nil {
			return Usage{}, err
		}
		if err != nil {
			return untold(), nil //nolint:nilerr // it does not tell
		}
		sum.Cmds += m["grpc_server_msg_received_total"]
		sum.NetBytes += m["etcd_network_client_grpc_received_bytes_total"] + m["etcd_network_client_grpc_sent_bytes_total"]
		sum.CPU += m["process_cpu_seconds_total"] * 1e9
	}
	return sum, nil
}

// rtt times questions for the member's status, which it answers by itself.
func (n *etcdNode) rtt(ctx context.Context, count int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Duration(count)*time.Second)
	defer cancel()
	ask := pb.NewMaintenanceClient(n.client.ActiveConnection())
	var list []time.Duration
	for i := range count + 1 {
		sent := time.Now()
		if _, err := ask.Status(ctx, &pb.StatusRequest{}); err != nil {
			return nil, err
		}
		if i > 0 { // the first warms
			list = append(list, time.Since(sent))
		}
	}
	return list, nil
}

// remove deletes each name and what lies below it.
func (n *etcdNode) remove(ctx context.Context, names []string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	sum := 0
	for _, name := range names {
		r, err := n.client.Txn(ctx).Then(clientv3.OpDelete(name), clientv3.OpDelete(name+"/", clientv3.WithPrefix())).Commit()
		if err != nil {
			return sum, err
		}
		for _, part := range r.Responses {
			sum += int(part.GetResponseDeleteRange().Deleted)
		}
	}
	return sum, nil
}

func (n *etcdNode) close() error {
	n.http.CloseIdleConnections()
	if err := n.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
