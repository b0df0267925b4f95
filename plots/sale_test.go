package plots

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// soldBy is a sale of 2 × 100 units to 20 buyers, of whom some are let in and some give up,
// and of whose units some are lost.
func soldBy(t *testing.T, algo, kind string, served, lost int64, unit time.Duration) results.Sale {
	t.Helper()
	s := results.Sale{
		Schema: results.SaleSchema, Algo: algo, Server: results.Server{Kind: kind, Product: kind, Version: "1.0", Source: "binary"},
		Config: json.RawMessage(`{"ttl_ns":10000000000}`), Env: results.Env{CPU: "a CPU", Cores: 2},
		Terms: results.Terms{Buyers: 20, Goods: 2, Stock: 100, Procs: 8, Wait: 2 * time.Second, Tries: 3, Work: time.Millisecond},
		Goods: []results.Good{{Left: 100 - served/2 + lost, Bought: served / 2}, {Left: 100 - served/2, Bought: served / 2}},
		Waits: results.NewHistogram(1e12), GaveUp: results.NewHistogram(1e12), Took: 20 * unit,
	}
	for i := range int64(20) {
		h := s.Waits
		if i >= served {
			h = s.GaveUp
		}
		if err := h.Record((i + 1) * int64(unit)); err != nil {
			t.Fatal(err)
		}
	}
	if kind == "" {
		s.Server = results.Server{Source: "memory"}
	}
	return s
}

// salesOf are two rounds under the usual terms, and one with a lease that is too short.
func salesOf(t *testing.T) (list []results.Sale) {
	t.Helper()
	for range 2 {
		none := soldBy(t, results.NoLock, "", 20, 18, time.Microsecond)
		none.Unsafe, none.Excuse = []string{noExclusion}, "it excludes nobody"
		list = append(list, none, soldBy(t, "redis-b", "redis", 20, 0, 9*time.Millisecond), soldBy(t, "redis-a", "redis", 20, 0, 5*time.Millisecond),
			soldBy(t, "peer-c", "redis", 8, 0, 300*time.Millisecond), soldBy(t, "etcd-d", "etcd", 20, 0, 7*time.Millisecond))
	}
	short := soldBy(t, "redis-a", "redis", 6, 3, time.Second)
	short.Config, short.Excuse = json.RawMessage(`{"ttl_ns":1000000000}`), "holders worked on after the end of their leases"
	return append(list, short)
}

// A row for each lock: those without exclusion first, in a family who served most in the
// least time.
func TestSalesPage(t *testing.T) {
	all := markets(salesOf(t))
	if len(all) != 2 || all[0].name != "seckill" || all[1].name != "seckill-ttl-1s" {
		t.Fatalf("%+v", all)
	}
	var b bytes.Buffer
	for i := range all {
		if err := all[i].page().dump(&b); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "seckill.tsv", b.Bytes())
	var names []string
	for _, s := range all[0].stands {
		names = append(names, s.name)
	}
	if got := strings.Join(names, " "); got != "none redis-a redis-b peer-c etcd-d" {
		t.Errorf("rows %s", got)
	}
	if got, want := all[0].title(), "Flash sale: without a lock 18 of 20 units are lost, with 4"+space+"locks none"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
	if got, want := all[1].title(), "Flash sale under leases that are too short: 1"+space+"lock lost units, 0 did not"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
}

// A violation is loud.
func TestSalesPageTellsAViolation(t *testing.T) {
	list := salesOf(t)
	list[2].Goods[0].Left++
	m := &markets(list)[0]
	loud := ""
	for _, r := range m.caption() {
		if r.loud {
			loud += r.text
		}
	}
	if loud != "redis-a: violation of mutual exclusion." || !strings.Contains(m.title(), "redis-a lost units, a violation") {
		t.Errorf("loud: %q, title %q", loud, m.title())
	}
}

func TestDrawSales(t *testing.T) {
	dir := t.TempDir()
	figures, err := DrawSales(t.Context(), salesOf(t), dir)
	if err != nil || len(figures) != 2 || len(figures[0].Files) != 2 {
		t.Fatalf("%+v, %v", figures, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, SalesFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"![seckill-ttl-1s](seckill-ttl-1s.svg)", "| none | 2 | 0 | 18 | 20 | 0 | ", "| peer-c | 2 | 2 | 0 | 8 | 12 | 0 | ", "≥" + space + "6" + space + "s |"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%q is not in:\n%s", want, b)
		}
	}
	if _, err := DrawSales(t.Context(), nil, dir); !errors.Is(err, ErrEmpty) {
		t.Errorf("of nothing: %v", err)
	}
}
