package plots

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// foretold is a load of algo whose p99 was predicted as share of what was measured, and
// whose rate was predicted rightly.
func foretold(algo, client string, rate, ms, share float64) results.Forecast {
	measured := ms * float64(time.Millisecond)
	return results.Forecast{
		Schema: results.ForecastSchema, Algo: algo, Client: client, Order: "fifo", Hottest: 0.5,
		Server: results.Server{Kind: "redis", Product: "redis", Version: "1.0"}, Load: results.Load{Rate: rate, Keys: 1},
		Rate:  results.Foreseen{Measured: rate, Same: rate, Low: 0.9 * rate, Mid: rate, High: 1.1 * rate},
		P99:   results.Foreseen{Measured: measured, Same: share * measured, Low: 0.8 * measured, Mid: measured, High: 1.3 * measured},
		Valid: results.Valid{OK: true},
	}
}

func forecastsOf() []results.Forecast {
	list := []results.Forecast{
		foretold("redis-token", "goredis", 100, 20, 1.2), foretold("redis-token", "goredis", 300, 200, 0.9),
		foretold("redis-handoff", "goredis", 100, 3, 1.05), foretold("redis-handoff", "goredis", 300, 9, 1),
		foretold("etcd-mutex", "", 80, 40, 1.5), foretold("etcd-mutex", "", 90, 60, 7), foretold("etcd-mutex", "", 95, 60, 1),
	}
	list[1].Load.Rate, list[1].Rate.Mid, list[1].Rate.Same, list[1].P99.Same, list[1].P99.Mid = 0, 330, 0, 0, 1.8e8 // a closed loop
	list[4].P99.Low = 1.01 * list[4].P99.Measured                                                                   // the measured one is outside
	list[5].Valid = results.Valid{Reasons: []string{"the queue grew"}}
	list[6].Refused = "beyond what was measured"
	return list
}

// Errors are printed behind each lock; what is not valid is hollow and counts in none, what
// was refused is counted.
func TestForecastPage(t *testing.T) {
	p := forecasts(forecastsOf())
	p.name = "forecast"
	var b bytes.Buffer
	if err := p.dump(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "forecast.tsv", b.Bytes())
	for i, want := range []string{
		"redis-token: 10 %, 10 %; redis-handoff: –; etcd-mutex: –",
		"redis-token: 15 %, 20 %; redis-handoff: 2.5 %, 5 %; etcd-mutex: 50 %, 50 %",
	} {
		var labels []string
		for _, l := range p.panels[i].lines {
			if l.label != "" {
				labels = append(labels, strings.ReplaceAll(l.label, space, " "))
			}
		}
		if got := strings.Join(labels, "; "); got != want {
			t.Errorf("%s: labels %q, want %q", p.panels[i].title, got, want)
		}
	}
	if got, want := strings.ReplaceAll(p.title, space, " "), "Predictions of the p99 are off by 10 % in the median, of grants per second by 10 %"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
	text := ""
	for _, r := range p.caption {
		text += strings.ReplaceAll(r.text, space, " ") + "\n"
	}
	for _, want := range []string{"in 4 of 5 valid loads", "refused 1 load.", "Hollow: 1 load "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// Where no run is valid the picture claims nothing.
func TestForecastPageOfInvalidRuns(t *testing.T) {
	list := forecastsOf()[5:6]
	p := forecasts(list)
	if !strings.Contains(p.title, "No load measured is valid") || !p.panels[0].lines[1].points[0].hollow || !strings.HasSuffix(p.panels[0].lines[1].label, ": –") {
		t.Errorf("title %q, line %+v", p.title, p.panels[0].lines[1])
	}
}

func TestDrawForecasts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "forecast")
	files, err := DrawForecasts(t.Context(), forecastsOf(), path)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	refused := forecastsOf()[6:]
	for _, list := range [][]results.Forecast{nil, refused, {{Valid: results.Valid{OK: true}}}} {
		if files, err := DrawForecasts(t.Context(), list, path); !errors.Is(err, ErrEmpty) || len(files) > 0 {
			t.Errorf("of %d loads: %v, %v", len(list), files, err)
		}
	}
}
