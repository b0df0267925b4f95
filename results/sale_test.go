package results

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sale is one of two goods with 10 units each, of whose stock lost units are missing.
func sale(t *testing.T, lost int64) Sale {
	t.Helper()
	s := Sale{
		Schema: SaleSchema, ID: "a", Algo: "redis-token", Client: "goredis", Config: json.RawMessage(`{}`), Unsafe: []string{"pause"},
		Terms: Terms{Buyers: 9, Goods: 2, Stock: 10, Procs: 1, Wait: time.Second, Tries: 2, Work: time.Millisecond},
		Goods: []Good{{Left: 7 + lost, Bought: 3}, {Left: 6, Bought: 4}},
		Waits: NewHistogram(1e9), GaveUp: NewHistogram(1e9),
	}
	for i := range int64(7) {
		counted(t, s.Waits, (i+1)*100)
	}
	return s
}

func counted(t *testing.T, h *Histogram, v int64) {
	t.Helper()
	if err := h.Record(v); err != nil {
		t.Fatal(err)
	}
}

func TestSaleAccounts(t *testing.T) {
	for _, c := range []struct {
		lost, overlaps int64
		excuse         string
		violated       bool
	}{{0, 0, "", false}, {2, 1, "", true}, {0, 1, "", true}, {2, 1, "it excludes nobody", false}} {
		s := sale(t, c.lost)
		s.Overlaps, s.Excuse = c.overlaps, c.excuse
		if s.Bought() != 7 || s.Expected() != 13 || s.Left() != 13+c.lost || s.Lost() != c.lost || s.Violated() != c.violated {
			t.Errorf("%+v: bought %d, expected %d, left %d, lost %d, violated %v", c, s.Bought(), s.Expected(), s.Left(), s.Lost(), s.Violated())
		}
	}
	oversold := sale(t, 0)
	oversold.Goods = []Good{{Left: 0, Bought: 12}, {Left: 0, Bought: 10}}
	if oversold.Expected() != -2 || oversold.Lost() != 2 {
		t.Errorf("expected %d, lost %d", oversold.Expected(), oversold.Lost())
	}
}

// Buyers that gave up count as long as they waited, and it is said.
func TestSaleWait(t *testing.T) {
	s := sale(t, 0)
	if ns, atLeast := s.Wait(100); ns != 700 || atLeast {
		t.Errorf("%d, %v", ns, atLeast)
	}
	counted(t, s.GaveUp, 500)
	counted(t, s.GaveUp, 900)
	if ns, atLeast := s.Wait(100); ns != 900 || !atLeast {
		t.Errorf("longest %d, at least: %v", ns, atLeast)
	}
	if ns, atLeast := s.Wait(40); ns != 400 || atLeast {
		t.Errorf("p40 %d, at least: %v", ns, atLeast)
	}
}

func TestSalesAreStored(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sales.jsonl")
	add := func(before int) {
		t.Helper()
		w, had, err := AppendSales(name)
		if err != nil || len(had) != before {
			t.Fatalf("%d sales, %v", len(had), err)
		}
		if err := w.Write(sale(t, 2)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	add(0)
	// Its writer died in the middle of a line; the next one does not go on in it.
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"sale_schema":1,"id":"b","go`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err := ReadSales(name); err != nil || len(list) != 1 {
		t.Errorf("%d sales, %v", len(list), err)
	}
	add(1)
	list, err := ReadSales(name)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d sales, %v", len(list), err)
	}
	if got := list[1]; got.Lost() != 2 || got.Terms != sale(t, 0).Terms || got.Waits.Exact.Count != 7 || got.Waits.Quantile(50) != 400 {
		t.Errorf("%+v", got)
	}
}

// A file of something else is refused, and stays as it is.
func TestForeignFileOfSales(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.jsonl")
	for text, want := range map[string]string{
		"{\"schema\":5}\n":       ":1: no flash sale",
		"hello\n":                ":1: no flash sale",
		"{\"sale_schema\":99}\n": ":1: schema 99",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := AppendSales(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		if _, _, err := AppendCells(name); err == nil || !strings.Contains(err.Error(), ":1: no cell") {
			t.Errorf("%q: got %v", text, err)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != text {
			t.Errorf("%q became %q, %v", text, b, err)
		}
	}
}
