package plots

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
)

// crowd is one contended run each of many locks on several servers.
func crowd(t *testing.T) []results.Run {
	t.Helper()
	var runs []results.Run
	some := slices.DeleteFunc(synthetic(t, []string{"goredis"}, []int{32}, 1), func(r results.Run) bool { return r.Algo != "redis-token" })
	for i := range 10 {
		r := some[0]
		r.ID, r.Algo = fmt.Sprint("run-", i), fmt.Sprint("redis-a", i)
		if i%3 == 0 {
			r.Algo = fmt.Sprint("peer-b", i)
		}
		if i == 9 {
			r.Server.Kind, r.Server.Product, r.Algo = "etcd", "etcd", "etcd-mutex"
		}
		r.Trial = "algo=" + r.Algo
		r.Metrics = results.Metrics{results.AcqRate: float64(100 + i), results.LongestWait: float64(20-i) * 1e6, results.Acquire + "-p50-ns": 1e6,
			results.Acquire + "-p99-ns": 2e6, results.JainW: 0.5, results.SrvCPUPerAcq: 1e5}
		if i == 2 {
			r.Metrics[results.LongestOpen] = 1
		}
		r.Unsafe = []string{"pause"}
		runs = append(runs, r)
	}
	return runs
}

// The first picture has a row for each lock, by family and longest wait, and says "≥" where
// a wait had not ended.
func TestLandscape(t *testing.T) {
	list := pages(t, crowd(t))
	p := list[0]
	if p.name != "landscape" {
		t.Fatalf("the first picture is %s", p.name)
	}
	var b bytes.Buffer
	if err := p.dump(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "landscape.tsv", b.Bytes())
	var names []string
	for _, h := range p.panels[0].headings {
		names = append(names, h.text)
	}
	if got := strings.Join(names, "; "); got != "Redis; Redis, other libraries; etcd" {
		t.Errorf("families %q", got)
	}
	if at := p.panels[0].y.ticks; len(at) != 10 || at[0].Label != "redis-a8" { // it waits least
		t.Errorf("rows %v", at)
	}
	if p.tall < 10*lockRow || len(p.panels) != 5 {
		t.Errorf("%v high, %d panels", p.tall, len(p.panels))
	}
}

// The names of the rows take more room than their first panel, and are drawn all the same.
func TestLandscapeNames(t *testing.T) {
	runs := crowd(t)
	runs[1].Algo = "redis-with-a-rather-long-name-xx"
	var b bytes.Buffer
	if err := pages(t, runs)[0].layout().svg(&b); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.Contains(text, "NaN") || !strings.Contains(text, "grants per second") {
		t.Error("a place in the picture is no number")
	}
}

// A few locks make no landscape, nor does one owner.
func TestNoLandscape(t *testing.T) {
	for name, runs := range map[string][]results.Run{"few": few(t), "alone": synthetic(t, []string{"goredis"}, []int{1}, 1)} {
		for _, p := range pages(t, runs) {
			if p.name == "landscape" {
				t.Errorf("%s have a landscape", name)
			}
		}
	}
}
