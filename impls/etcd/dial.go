package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/lockbench/lockbench/impls/lock"
)

// defaultPort is etcd's for clients.
const defaultPort = "2379"

// counted counts the requests of a client, each try of the library by itself.
func counted(n *lock.Counters) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		n.Cmd()
		return next(ctx, method, req, reply, cc, opts...)
	})
}

// countedStreams counts what is sent on streams: the making and the end of a watch,
// and each keep-alive.
func countedStreams(n *lock.Counters) grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := next(ctx, desc, cc, method, opts...)
		if err != nil {
			return nil, err
		}
		return countedStream{s, n}, nil
	})
}

type countedStream struct {
	grpc.ClientStream
	n *lock.Counters
}

func (s countedStream) SendMsg(m any) error {
	s.n.Cmd()
	return s.ClientStream.SendMsg(m)
}

// Dial makes a client for the one Endpoint of d, all whose members it knows, and
// sees that one of them answers. Where names them, without the password. Config.Count
// counts its requests.
//
// Addresses: etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…], etcds:// for TLS.
func Dial(ctx context.Context, d lock.Deployment, c lock.Config) (client *clientv3.Client, where string, err error) {
	if len(d.Nodes) != 1 {
		return nil, "", fmt.Errorf("etcd: there are %d addresses, and one is needed (which may have several hosts)", len(d.Nodes))
	}
	c, where = c.Filled(), d.Nodes[0].String()
	o, err := options(d.Nodes[0], c)
	if err != nil {
		return nil, "", fmt.Errorf("etcd: %s: %w", where, err)
	}
	client, err = clientv3.New(o)
	if err != nil {
		return nil, "", fmt.Errorf("etcd: %s: %w", where, oneLine(plain(err)))
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := reach(ctx, client); err != nil {
		return nil, "", lock.Discard(client, fmt.Errorf("etcd: %s cannot be reached: %w", where, oneLine(plain(err))))
	}
	return client, where, nil
}

func options(e lock.Endpoint, c lock.Config) (clientv3.Config, error) {
	o := clientv3.Config{
		DialTimeout: c.Timeout,
		// A peer that is silent for that long is given up; etcd does not suffer to be
		// asked more often than every 5 s.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: c.Timeout,
		Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: c.Timeout,
		}), counted(c.Count), countedStreams(c.Count)},
	}
	hosts, path, err := e.Split()
	if err != nil {
		return o, err
	}
	for _, host := range hosts {
		u, err := url.Parse(host.Reveal())
		if err != nil {
			return o, errors.New("it is no URL")
		}
		scheme := "http"
		switch u.Scheme {
		case "etcd":
		case "etcds":
			scheme, o.TLS = "https", &tls.Config{MinVersion: tls.VersionTLS12}
		default:
			return o, fmt.Errorf("the scheme %q is not etcd or etcds", u.Scheme)
		}
		if path+strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			return o, errors.New("nothing may follow the hosts")
		}
		port := u.Port()
		if port == "" {
			port = defaultPort
		}
		o.Endpoints = append(o.Endpoints, scheme+"://"+net.JoinHostPort(u.Hostname(), port))
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	return o, nil
}

// oneLine is err, whose text the library may have broken.
func oneLine(err error) error {
	text := err.Error()
	if !strings.ContainsAny(text, "\r\n") {
		return err
	}
	return errors.New(strings.Join(strings.Fields(text), " "))
}
