package builtin

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// serveEtcd returns when the server has ended, and why.
func serveEtcd(args []string) error {
	c, err := etcdConfig(args)
	if err != nil {
		return err
	}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	select {
	case err = <-e.Err():
	case <-e.Server.StopNotify():
	}
	return cmp.Or(err, errors.New("etcd has stopped"))
}

// etcdConfig reads those flags of the etcd command that lockbench gives, so that the
// child and an installed etcd are started alike.
func etcdConfig(args []string) (*embed.Config, error) {
	c := embed.NewConfig()
	fs := flag.NewFlagSet("etcd", flag.ContinueOnError)
	fs.SetOutput(os.Stderr)
	fs.Usage = func() {} // the error is enough
	fs.StringVar(&c.Name, "name", c.Name, "")
	fs.StringVar(&c.Dir, "data-dir", c.Dir, "")
	fs.StringVar(&c.InitialCluster, "initial-cluster", c.InitialCluster, "")
	fs.UintVar(&c.TickMs, "heartbeat-interval", c.TickMs, "") // ms
	fs.UintVar(&c.ElectionMs, "election-timeout", c.ElectionMs, "")
	fs.BoolVar(&c.UnsafeNoFsync, "unsafe-no-fsync", c.UnsafeNoFsync, "")
	for name, list := range map[string]*[]url.URL{
		"listen-client-urls": &c.ListenClientUrls, "advertise-client-urls": &c.AdvertiseClientUrls,
		"listen-peer-urls": &c.ListenPeerUrls, "initial-advertise-peer-urls": &c.AdvertisePeerUrls,
	} {
		fs.Func(name, "", func(text string) error {
			u, err := url.Parse(text)
			if err == nil {
				*list = []url.URL{*u}
			}
			return err
		})
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is no flag of etcd", fs.Arg(0))
	}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger())
	return c, nil
}

// logger tells of errors alone, one line for each, without times and stacks.
func logger() *zap.Logger {
	layout := zapcore.EncoderConfig{MessageKey: "msg", EncodeDuration: zapcore.StringDurationEncoder, EncodeTime: zapcore.ISO8601TimeEncoder}
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(layout), zapcore.Lock(os.Stderr), zapcore.ErrorLevel))
}
