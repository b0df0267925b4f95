package bench

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// exporting is an exporter until the test ends.
func exporting(t *testing.T) *exporter {
	t.Helper()
	e, err := newExporter(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// gathered are the metrics of e by their names.
func gathered(t *testing.T, e *exporter) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(e); err != nil {
		t.Fatal(err)
	}
	list, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*dto.MetricFamily)
	for _, f := range list {
		all[f.GetName()] = f
	}
	return all
}

// sample is a run in which all is counted.
func sample(run, algo string, grants int64) *harness.Live {
	l := &harness.Live{Run: run, Algo: algo, Client: "goredis", Kind: "redis", Owners: 8, Waiting: 7, LongestWait: time.Second,
		Violations: 1, Lost: 2, Timeouts: 3, Errors: 4}
	for _, t := range []*harness.Tally{&l.Acquire, &l.Response, &l.Hold, &l.Release, &l.Handoff} {
		t.Buckets[results.BucketOf(1e6)-results.MinBucket] = grants
		t.Sum = grants * 1e6
	}
	return l
}

func TestExporterCounts(t *testing.T) {
	e := exporting(t)
	if all := gathered(t, e); len(all) != 0 {
		t.Errorf("before any trial there are %d metrics", len(all))
	}
	e.see(sample("1", "a", 100))
	all := gathered(t, e)
	histograms, counters, gauges := exported()
	for _, list := range [][][2]string{histograms, counters, gauges} {
		for _, m := range list {
			if all[m[0]] == nil {
				t.Errorf("%s is not exported", m[0])
			}
		}
	}
	if len(all) != len(histograms)+len(counters)+len(gauges) {
		t.Errorf("%d metrics", len(all))
	}
	if v := all["lockbench_waiting_owners"].GetMetric()[0].GetGauge().GetValue(); v != 7 {
		t.Errorf("%v owners wait", v)
	}

	// Another go at the trial adds to the first.
	last := sample("1", "a", 150)
	last.Done = true
	e.see(last)
	e.see(sample("2", "a", 30))
	e.see(sample("2", "a", 40))
	b := sample("3", "b", 5)
	b.Done, b.Kind = true, ""
	e.see(sample("2", "a", 40))
	all = gathered(t, e)
	h := all["lockbench_acquire_duration_seconds"].GetMetric()
	if len(h) != 1 || h[0].GetHistogram().GetSampleCount() != 190 || h[0].GetHistogram().GetSampleSum() != 0.19 || h[0].GetHistogram().GetSchema() != results.LiveScale {
		t.Errorf("%v", h)
	}
	// 1 ms is in the bucket (2^(−80/8), 2^(−79/8)] s.
	if at := h[0].GetHistogram().GetPositiveSpan()[0].GetOffset(); at != -79 {
		t.Errorf("1 ms is in bucket %d", at)
	}
	if n := all["lockbench_errors_total"].GetMetric()[0].GetCounter().GetValue(); n != 8 {
		t.Errorf("%v errors, want 8", n)
	}

	e.see(b)
	all = gathered(t, e)
	if all["lockbench_waiting_owners"] != nil {
		t.Error("owners wait, though no trial is under way")
	}
	for _, m := range all["lockbench_grants_total"].GetMetric() {
		got := make(map[string]string)
		for _, l := range m.GetLabel() {
			got[l.GetName()] = l.GetValue()
		}
		if got["algo"] == "b" && (got["engine"] != "memory" || m.GetCounter().GetValue() != 5) {
			t.Errorf("%v", m)
		}
	}
}

func TestExporterServes(t *testing.T) {
	e, err := newExporter(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.see(sample("1", "a", 100))
	get := func(path string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	if status, body := get("/metrics"); status != http.StatusOK || !strings.Contains(body, `lockbench_grants_total{algo="a",client="goredis",engine="redis"} 100`) {
		t.Errorf("%d: %s", status, body)
	}
	if status, _ := get("/"); status != http.StatusNotFound {
		t.Errorf("/ is answered with %d", status)
	}
	if _, err := newExporter(t.Context(), e.address); err == nil || !strings.Contains(err.Error(), "another port") {
		t.Errorf("two on one port: %v", err)
	}
	if err := e.close(); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	if status, _ := get("/metrics"); status != 0 {
		t.Error("it serves after its end")
	}
}

func TestLoopback(t *testing.T) {
	for text, want := range map[string]string{
		":9464": "127.0.0.1:9464", "localhost:1": "127.0.0.1:1", "127.0.0.2:80": "127.0.0.2:80", "[::1]:80": "[::1]:80", ":0": "127.0.0.1:0",
	} {
		if got, err := loopback(text); got != want || err != nil {
			t.Errorf("%s is %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "9464", ":", ":x", ":65536", ":-1", "0.0.0.0:9464", "10.0.0.1:9464", "[::]:9464", "example.org:80"} {
		if got, err := loopback(text); err == nil {
			t.Errorf("%q is taken for %s", text, got)
		}
	}
	if r := call(t, "run", "-prometheus", "0.0.0.0:9464"); r.status != exitMisuse || !strings.Contains(r.stderr, "this machine alone") {
		t.Errorf("%d, %q", r.status, r.stderr)
	}
}

// What is exported is seen while the command runs, and is gone with it.
func TestRunServesMetrics(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard := make(chan string, 1)
	stderr := &listening{heard: heard}
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, commands(""), []string{"run", "-algo", "local-mutex", "-owners", "2", "-for", "30s", "-warmup", "10ms", "-prometheus", ":0"},
			stdio{strings.NewReader(""), io.Discard, stderr})
	}()
	var at string
	select {
	case at = <-heard:
	case status := <-done:
		t.Fatalf("it ended with %d before it served: %s", status, stderr.text.String())
	}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if strings.Contains(string(body), `lockbench_grants_total{algo="local-mutex",client="",engine="memory"}`) {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the run is never seen")
		}
	}
	cancel()
	if status := <-done; status != exitInterrupted {
		t.Errorf("it ended with %d", status)
	}
	if again, err := net.Listen("tcp", strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/metrics")); err != nil {
		t.Errorf("it still listens after its end: %v", err)
	} else {
		_ = again.Close()
	}
}

// listening sends the address that is written to it.
type listening struct {
	text  strings.Builder
	heard chan<- string
}

func (l *listening) Write(p []byte) (int, error) {
	l.text.Write(p)
	if _, at, ok := strings.Cut(string(p), "metrics: "); ok {
		l.heard <- strings.TrimSpace(at)
	}
	return len(p), nil
}
