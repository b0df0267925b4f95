package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// An exporter tells Prometheus of the run in progress, as counts since the command began:
// trials of one variant on one kind of server add up, so that no counter goes backwards.
// There are as many series as there are variants.
type exporter struct {
	created time.Time
	address string // where it listens
	server  *http.Server
	over    chan error // what Serve returned

	histograms, counters, gauges []*prometheus.Desc

	mu    sync.Mutex
	ended map[labels]*counts // of the trials that are over
	now   *harness.Live      // the trial under way, nil between two
}

// labels are what the series of an exporter differ in.
type labels struct{ algo, client, engine string }

// counts are what labels have counted.
type counts struct {
	tallies  [5]harness.Tally // as in exported
	counters [5]int64         // likewise
}

// exported are the metrics. Gauges are of the trial under way alone.
func exported() (histograms, counters, gauges [][2]string) {
	const prefix = "lockbench_"
	return [][2]string{
			{prefix + "acquire_duration_seconds", "From the call of Acquire to the grant."},
			{prefix + "response_duration_seconds", "Open loop: from the instant at which the request was due to the grant."},
			{prefix + "hold_duration_seconds", "From the grant to the call of Release."},
			{prefix + "release_duration_seconds", "From the call of Release to its return."},
			{prefix + "handoff_duration_seconds", "From the call of Release to the next grant of the key, where the next holder was waiting already."},
		}, [][2]string{
			{prefix + "grants_total", "Acquires that were granted."},
			{prefix + "violations_total", "Overlapping holds that the witness saw."},
			{prefix + "lost_total", "Leases that had ended before their release."},
			{prefix + "timeouts_total", "Bounded waits that ended without a grant."},
			{prefix + "errors_total", "Operations that failed."},
		}, [][2]string{
			{prefix + "owners", "Owners of the trial under way."},
			{prefix + "waiting_owners", "Owners that are waiting for the lock now."},
			{prefix + "longest_wait_seconds", "How long the one of them that waits longest has waited so far."},
		}
}

// loopback is the address to listen on that text means, ":PORT" or with a host that nobody
// but this machine reaches.
func loopback(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", errors.New("want :PORT, such as :9464")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", errors.New("want a port from 1 to 65535, or 0 for any that is free")
	}
	switch host {
	case "", "localhost":
		host = "127.0.0.1"
	default:
		if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
			return "", errors.New("it is served to this machine alone: give :PORT, or a loopback address")
		}
	}
	return net.JoinHostPort(host, port), nil
}

// newExporter serves metrics at address until it is closed.
func newExporter(ctx context.Context, address string) (*exporter, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-prometheus: %w; give another port, or :0 for any that is free", err)
	}
	e := &exporter{created: time.Now(), address: listener.Addr().String(), over: make(chan error, 1), ended: make(map[labels]*counts)}
	histograms, counters, gauges := exported()
	for _, group := range []struct {
		into *[]*prometheus.Desc
		from [][2]string
	}{{&e.histograms, histograms}, {&e.counters, counters}, {&e.gauges, gauges}} {
		for _, m := range group.from {
			*group.into = append(*group.into, prometheus.NewDesc(m[0], m[1], []string{"algo", "client", "engine"}, nil))
		}
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(e); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	go func() { e.over <- e.server.Serve(listener) }()
	return e, nil
}

// close ends all that e serves.
func (e *exporter) close() error {
	err := e.server.Close()
	if served := <-e.over; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// see takes down how far the trial under way has come.
func (e *exporter) see(l *harness.Live) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = l
	if l.Done {
		at := labelsOf(l)
		if e.ended[at] == nil {
			e.ended[at] = new(counts)
		}
		e.ended[at].add(l)
		e.now = nil
	}
}

func labelsOf(l *harness.Live) labels {
	engine := l.Kind
	if engine == "" {
		engine = "memory"
	}
	return labels{l.Algo, l.Client, engine}
}

func (c *counts) add(l *harness.Live) {
	for i, t := range []*harness.Tally{&l.Acquire, &l.Response, &l.Hold, &l.Release, &l.Handoff} {
		c.tallies[i].Add(t)
	}
	for i, n := range []int64{l.Acquire.Count(), l.Violations, l.Lost, l.Timeouts, l.Errors} {
		c.counters[i] += n
	}
}

// Describe implements prometheus.Collector.
func (e *exporter) Describe(to chan<- *prometheus.Desc) {
	for _, list := range [][]*prometheus.Desc{e.histograms, e.counters, e.gauges} {
		for _, d := range list {
			to <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (e *exporter) Collect(to chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[labels]counts)
	for at, c := range e.ended {
		all[at] = *c
	}
	if l := e.now; l != nil {
		at := labelsOf(l)
		c := all[at]
		c.add(l)
		all[at] = c
		for i, v := range []float64{float64(l.Owners), float64(l.Waiting), l.LongestWait.Seconds()} {
			to <- prometheus.MustNewConstMetric(e.gauges[i], prometheus.GaugeValue, v, at.algo, at.client, at.engine)
		}
	}
	for at, c := range all {
		for i := range c.tallies {
			if m := e.histogram(e.histograms[i], &c.tallies[i], at); m != nil {
				to <- m
			}
		}
		for i, n := range c.counters {
			to <- prometheus.MustNewConstMetric(e.counters[i], prometheus.CounterValue, float64(n), at.algo, at.client, at.engine)
		}
	}
}

// histogram is t as a native histogram, or nil if it is empty.
func (e *exporter) histogram(d *prometheus.Desc, t *harness.Tally, at labels) prometheus.Metric {
	buckets, n := make(map[int]int64), int64(0)
	for i, k := range t.Buckets {
		if k > 0 {
			buckets[i+results.MinBucket] = k
			n += k
		}
	}
	if n == 0 {
		return nil
	}
	m, err := prometheus.NewConstNativeHistogram(d, uint64(n), time.Duration(t.Sum).Seconds(), buckets, nil, 0,
		results.LiveScale, prometheus.DefNativeHistogramZeroThreshold, e.created, at.algo, at.client, at.engine)
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	return m
}
