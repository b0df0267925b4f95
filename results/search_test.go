package results

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Searches stand between the runs of a file: who reads runs passes them over, and who
// reads all gets each once.
func TestSearchLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "runs.jsonl")
	w, err := Append(name)
	if err != nil {
		t.Fatal(err)
	}
	run := Run{ID: "r1", Trial: "algo=x", Algo: "x", Time: time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC), Metrics: Metrics{AcqRate: 1}}
	one := Search{
		ID: "s1", Algo: "x", Client: "c", Trial: "algo=x", SLO: "response-p99<20ms", Low: 400, High: 410, End: "found",
		Metrics: Metrics{Response + "-p99-ns": 1e7}, Tries: []SearchTry{{Rate: 100, Phase: "double", Answer: Met, Run: "r1"}},
	}
	if err := w.Write(&run); err != nil {
		t.Fatal(err)
	}
	for range 2 { // as if two files had been put together
		if err := w.WriteSearch(&one); err != nil {
			t.Fatal(err)
		}
	}
	run.ID = "r2"
	if err := w.Write(&run); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	all, errs := ReadContents(name)
	one.Schema = SearchSchema
	if len(errs) > 0 || len(all.Runs) != 2 || len(all.Searches) != 1 || !reflect.DeepEqual(all.Searches[0].Tries, one.Tries) || all.Searches[0].Name() != "x/c" {
		t.Fatalf("read %+v, %v", all, errs)
	}
	if runs, errs := ReadFiles(name); len(runs) != 2 || len(errs) > 0 {
		t.Errorf("%d runs, %v", len(runs), errs)
	}

	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"search_schema":99,"id":"s2","algo":"x","slo":"y"}` + "\n" + `{"search_schema":1,"id":"s3"` + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	all, errs = ReadContents(name)
	if len(errs) != 2 || !strings.Contains(errs[0].Error(), ":5: search of schema 99") || !strings.Contains(errs[1].Error(), ":6: ") || len(all.Runs) != 2 {
		t.Errorf("bad searches: %v", errs)
	}
}

func TestRho(t *testing.T) {
	r := Run{
		Load: Load{Rate: 500, Keys: 2}, Metrics: Metrics{AcqRate: 500},
		Exact: map[string]Exact{Hold: {Count: 10, Sum: 10e6}, Handoff: {Count: 4, Sum: 1e6}},
	}
	if rho, ok := r.Rho(); !ok || math.Abs(rho-500*0.5*1.25e-3) > 1e-9 {
		t.Errorf("ρ is %g, %v", rho, ok)
	}
	for _, l := range []Load{{}, {Rate: 500, Shared: 0.5}, {Rate: 500, Together: 2}} {
		r.Load = l
		if _, ok := r.Rho(); ok {
			t.Errorf("there is a ρ under %+v", l)
		}
	}
}
