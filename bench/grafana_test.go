package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A dashboard is what the tests read of grafana.json.
type dashboard struct {
	Title      string
	Panels     []dashboardPanel
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

type dashboardPanel struct {
	ID          int
	Title       string
	Type        string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Every query names an exported metric and knows its labels, and every exported metric is
// in a query.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	known := make(map[string]bool) // whether a query has it
	histograms, counters, gauges := exported()
	for _, m := range slices.Concat(histograms, counters, gauges) {
		known[m[0]] = false
	}
	metric, matchers := regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*_[a-zA-Z0-9_:]*`), regexp.MustCompile(`\{[^}]*\}|\([a-z, ]*\)|\[[^\]]*\]`)
	functions := []string{"histogram_quantile", "histogram_sum", "histogram_count"}
	variables := regexp.MustCompile(`\$\{?(\w+)`)
	defined := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		defined = append(defined, v.Name)
		if v.Type == "query" && !strings.Contains(v.Definition, "label_values(lockbench_grants_total, "+v.Name+")") {
			t.Errorf("the variable %s is %s", v.Name, v.Definition)
		}
	}
	ids := make(map[int]bool)
	for i, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("panel %d lacks an id of its own, a title, a description, a unit or a query: %+v", i, p)
		}
		ids[p.ID] = true
		for _, other := range d.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies over %q", p.Title, other.Title)
			}
		}
		for _, q := range p.Targets {
			if !strings.Contains(q.Expr, `{algo=~"$algo",client=~"$client",engine=~"$engine"}`) {
				t.Errorf("%q: the variables do not choose: %s", p.Title, q.Expr)
			}
			for _, v := range variables.FindAllStringSubmatch(q.Expr, -1) {
				if !slices.Contains(defined, v[1]) {
					t.Errorf("%q: nobody defines %s", p.Title, v[0])
				}
			}
			for _, name := range metric.FindAllString(matchers.ReplaceAllString(q.Expr, ""), -1) {
				if slices.Contains(functions, name) {
					continue
				}
				if _, ok := known[name]; !ok {
					t.Errorf("%q asks for %s, which is not exported", p.Title, name)
				}
				known[name] = true
			}
		}
	}
	for name, used := range known {
		if !used {
			t.Errorf("no query has %s", name)
		}
	}
}

// Names of metrics are as Prometheus wants them: with their base unit, and _total for what
// only grows.
func TestMetricNames(t *testing.T) {
	histograms, counters, gauges := exported()
	for _, m := range histograms {
		if !strings.HasSuffix(m[0], "_seconds") {
			t.Errorf("%s has no unit", m[0])
		}
	}
	for _, m := range counters {
		if !strings.HasSuffix(m[0], "_total") {
			t.Errorf("%s is a counter", m[0])
		}
	}
	for _, m := range slices.Concat(histograms, counters, gauges) {
		if !regexp.MustCompile(`^lockbench_[a-z_]+$`).MatchString(m[0]) || !strings.HasSuffix(m[1], ".") {
			t.Errorf("%q: %q", m[0], m[1])
		}
	}
}

// A real Prometheus scrapes a run, with native histograms, and has an answer to every query
// of the dashboard.
func TestPrometheusScrapes(t *testing.T) {
	program := onPath(t, "prometheus")
	e := exporting(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 250ms, scrape_timeout: 250ms}
scrape_configs:
  - job_name: lockbench
    static_configs: [{targets: ["%s"]}]
`, e.address), 0o600); err != nil {
		t.Fatal(err)
	}
	at := freeAddress(t)
	var log strings.Builder
	cmd := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at,
		"--enable-feature=native-histograms", "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was told to end
		if t.Failed() {
			t.Logf("prometheus said:\n%s", log.String())
		}
	})

	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	// What it scrapes must grow, or the rates of the queries are nothing.
	growing := make(chan struct{})
	go func() {
		defer close(growing)
		for n := int64(1); ctx.Err() == nil; n++ {
			e.see(sample("1", "redis-token", n))
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "1m", "$algo", ".*", "$client", ".*", "$engine", ".*").Replace(q.Expr)
			for {
				found, err := query(ctx, at, expr)
				if errors.Is(err, errQuery) {
					t.Errorf("%q: %s: %v", p.Title, expr, err)
					break
				}
				if found > 0 {
					break
				}
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
					t.Fatalf("%q: %s has no answer: %v", p.Title, expr, err)
				}
			}
		}
	}
	// A classic histogram would have answered, too.
	if found, err := query(ctx, at, "lockbench_acquire_duration_seconds_bucket"); err != nil || found != 0 {
		t.Errorf("%d series of classic buckets, %v", found, err)
	}
	cancel()
	<-growing
}

// errQuery is the answer to a query that makes no sense.
var errQuery = errors.New("prometheus refused the query")

// query is how many series the Prometheus at address has that answer expr with a number or
// a histogram.
func query(ctx context.Context, address, expr string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/query?query="+url.QueryEscape(expr), nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err // it has not started yet
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	if answer.StatusCode == http.StatusServiceUnavailable {
		return 0, errors.New("it is starting")
	}
	var said struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Value     []any
				Histogram []any
			}
		}
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return 0, fmt.Errorf("%w: %s", err, body)
	}
	if said.Status != "success" {
		return 0, fmt.Errorf("%w: %s", errQuery, said.Error)
	}
	n := 0
	for _, r := range said.Data.Result {
		if len(r.Histogram) == 2 || len(r.Value) == 2 && r.Value[1] != "NaN" {
			n++
		}
	}
	return n, nil
}

// freeAddress is one of this machine on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
