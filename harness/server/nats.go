package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockbench/lockbench/impls/lock"
)

// natsPort is where NATS listens for clients by itself.
const natsPort = "4222"

// natsOldest is the first NATS whose keys can end by themselves.
const natsOldest = "2.11"

// natsKind is the kind of server that NATS with JetStream is.
func natsKind() Kind {
	return family{
		kind: "nats", address: map[lock.Topology]string{lock.Single: "nats://HOST:4222"},
		locate: locateNATS, embedded: embeddedNATS, launch: launchNATS, hosts: natsHosts, connect: connectNATS,
		usual: "nats:2-alpine", contain: containNATS, settings: natsSettings,
	}.as([]string{"nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…] (tls:// for TLS)"}, lock.Ensemble)
}

// natsSettings are what a NATS that we start was told. What a process has written
// outlives it in the memory of its system, also where that is not synced.
func natsSettings(o Options) about {
	if o.SyncAlways {
		return about{options: "sync_interval always", durable: "each write, on disk"}
	}
	return about{options: "sync_interval 2m", durable: "each write, in the memory of its system"}
}

var errNoNATS = errors.New("the address is no URL of a NATS: want nats://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…] (tls:// for TLS)")

// natsHosts is the hosts of NATS.
func natsHosts(e lock.Endpoint) (hosts []string, err error) {
	parts, path, err := e.Split()
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		at, err := hostport(p, natsPort)
		u, bad := url.Parse(p.Reveal())
		if err != nil || bad != nil || u.Scheme != "nats" && u.Scheme != "tls" || strings.Trim(path+u.Path, "/") != "" || u.RawQuery != "" {
			return nil, errNoNATS
		}
		hosts = append(hosts, at)
	}
	return hosts, nil
}

// natsNode is the administrator's view of one server, or of all of a cluster.
type natsNode struct {
	conn  *nats.Conn
	js    jetstream.JetStream
	hosts []string
	seen  about
}

// natsDial connects to e as its user, and to no other server than those that e names.
func natsDial(ctx context.Context, e lock.Endpoint) (*nats.Conn, error) {
	parts, _, err := e.Split()
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, p := range parts {
		urls = append(urls, p.Reveal())
	}
	within := patience
	if end, ok := ctx.Deadline(); ok {
		within = max(min(within, time.Until(end)), time.Millisecond)
	}
	return nats.Connect(strings.Join(urls, ","), nats.Timeout(within), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.IgnoreDiscoveredServers(), nats.Name("lockbench"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
}

// connectNATS asks a server behind e who it is.
func connectNATS(ctx context.Context, e lock.Endpoint) (node, error) {
	hosts, err := natsHosts(e)
	if err != nil {
		return nil, err
	}
	at := strings.Join(hosts, ",")
	conn, err := natsDial(ctx, e)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer as a NATS: %s", at, strings.Join(strings.Fields(err.Error()), " "))
	}
	n := &natsNode{conn: conn, hosts: hosts}
	if n.js, err = jetstream.New(conn); err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err = n.js.AccountInfo(ctx)
	}
	if err != nil {
		conn.Close()
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			return nil, fmt.Errorf("%s is a NATS without JetStream, which keeps the keys; start it with: nats-server -js", at)
		}
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	n.seen = about{product: "nats", version: conn.ConnectedServerVersion(), id: conn.ConnectedServerId()}
	if parts, _, _ := e.Split(); len(parts) > 1 { // natsHosts has
		n.seen.id, n.seen.members = conn.ConnectedClusterName(), parts
	}
	return n, nil
}

func (n *natsNode) about() about { return n.seen }

// A natsStatz is what one server says of what it received of an account and sent for it,
// and of that what it received from and sent to the other servers of its cluster.
type natsStatz struct {
	Data struct {
		Accounts []struct {
			Sent, Received struct {
				natsTraffic
				Routes natsTraffic `json:"routes"`
			}
		} `json:"account_statz"`
	} `json:"data"`
}

type natsTraffic struct{ Msgs, Bytes float64 }

// quietFor is how long nobody has to answer before those who have are taken for all:
// a server of a cluster that is down says nothing.
const quietFor = 250 * time.Millisecond

// usage sums over the servers what passed between them and the clients of this account,
// of which every message is a command. What a server spends of its CPU it tells to the
// system account alone.
func (n *natsNode) usage(ctx context.Context) (Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	inbox := n.conn.NewRespInbox()
	answers, err := n.conn.SubscribeSync(inbox)
	if err != nil {
		return Usage{}, err
	}
	defer func() { _ = answers.Unsubscribe() }() // the connection may be gone
	if err := n.conn.PublishRequest("$SYS.REQ.ACCOUNT.PING.STATZ", inbox, []byte(`{"include_unused":true}`)); err != nil {
		return Usage{}, err
	}
	sum, within := Usage{CPU: math.NaN(), Kept: math.NaN()}, patience // the first may be slow, the others not much slower
	for got := 0; got < len(n.hosts); got++ {
		short, cancel := context.WithTimeout(ctx, within)
		m, err := answers.NextMsgWithContext(short)
		cancel()
		switch {
		case err != nil && got > 0 && ctx.Err() == nil:
			return sum, nil
		case errors.Is(err, nats.ErrNoResponders) && n.conn.IsConnected():
			return untold(), nil // this account is not told
		case err != nil:
			return Usage{}, err
		}
		var one natsStatz
		if err := json.Unmarshal(m.Data, &one); err != nil {
			return Usage{}, err
		}
		for _, a := range one.Data.Accounts {
			sum.Cmds += a.Received.Msgs - a.Received.Routes.Msgs
			sum.NetBytes += a.Received.Bytes - a.Received.Routes.Bytes + a.Sent.Bytes - a.Sent.Routes.Bytes
		}
		within = quietFor
	}
	return sum, nil
}

// rtt times PINGs of the protocol.
func (n *natsNode) rtt(ctx context.Context, count int) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Duration(count)*time.Second)
	defer cancel()
	var list []time.Duration
	for i := range count + 1 {
		sent := time.Now()
		if err := n.conn.FlushWithContext(ctx); err != nil {
			return nil, err
		}
		if i > 0 { // the first warms
			list = append(list, time.Since(sent))
		}
	}
	return list, nil
}

// natsBucket begins the names of the streams that hold our buckets of keys.
const natsBucket = "KV_lockbench"

// remove deletes the streams and keys of these names. A name that begins as our buckets
// do is that of a stream; any other is a key, which is removed from each of them.
func (n *natsNode) remove(ctx context.Context, names []string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	sum := 0
	var keys []string
	for _, name := range names {
		if !strings.HasPrefix(name, natsBucket) {
			keys = append(keys, name)
			continue
		}
		switch err := insist(ctx, func(ctx context.Context) error { return n.js.DeleteStream(ctx, name) }); {
		case err == nil:
			sum++
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return sum, fmt.Errorf("stream %s: %w", name, err)
		}
	}
	if len(keys) == 0 {
		return sum, nil
	}
	list := n.js.StreamNames(ctx, jetstream.WithStreamListSubject("$KV.>"))
	for name := range list.Name() {
		if !strings.HasPrefix(name, natsBucket) {
			continue
		}
		for _, key := range keys {
			k := 0
			err := insist(ctx, func(ctx context.Context) error {
				had, err := n.purge(ctx, name, "$KV."+strings.TrimPrefix(name, "KV_")+"."+key)
				k = max(k, had) // what is asked for again may have been done
				return err
			})
			if sum += k; errors.Is(err, jetstream.ErrStreamNotFound) {
				break // it was removed meanwhile
			}
			if err != nil {
				return sum, fmt.Errorf("key %s of stream %s: %w", key, name, err)
			}
		}
	}
	if err := list.Err(); err != nil {
		return sum, fmt.Errorf("the list of streams: %w", err)
	}
	return sum, nil
}

// purge removes what the stream of that name has of subject, and returns how much that was.
func (n *natsNode) purge(ctx context.Context, name, subject string) (int, error) {
	s, err := n.js.Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil || info.State.Subjects[subject] == 0 {
		return 0, err
	}
	return int(info.State.Subjects[subject]), s.Purge(ctx, jetstream.WithPurgeSubject(subject)) //nolint:gosec // few
}

// insist calls ask until it is answered or ctx ends: a cluster answers no request that came
// to a leader which is none any more.
func insist(ctx context.Context, ask func(context.Context) error) error {
	for {
		short, cancel := context.WithTimeout(ctx, patience)
		err := ask(short)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
}

func (n *natsNode) close() error {
	n.conn.Close()
	return nil
}
