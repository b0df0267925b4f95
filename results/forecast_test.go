package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestForeseen(t *testing.T) {
	for _, c := range []struct {
		f        Foreseen
		at, off  float64
		isInside bool
	}{
		{Foreseen{Measured: 100, Same: 120, Low: 90, Mid: 110, High: 130}, 120, 0.2, true},
		{Foreseen{Measured: 100, Low: 100, Mid: 150, High: 160}, 150, 0.5, true}, // no arrivals: a closed loop
		{Foreseen{Measured: 100, Low: 40, Mid: 50, High: 99}, 50, -0.5, false},
		{Foreseen{Measured: 100, Low: 101, Mid: 125, High: 199}, 125, 0.25, false},
		{Foreseen{Mid: 5, High: 9}, 5, 0, true}, // nothing measured, nothing to divide by
	} {
		if at, off, in := c.f.Predicted(), c.f.Error(), c.f.Inside(); at != c.at || off < c.off-1e-9 || off > c.off+1e-9 || in != c.isInside {
			t.Errorf("%+v: predicted %v, off by %v, inside %v", c.f, at, off, in)
		}
	}
}

func TestForecastsAreStored(t *testing.T) {
	name := filepath.Join(t.TempDir(), "forecasts.jsonl")
	for before := range 2 {
		w, had, err := AppendForecasts(name)
		if err != nil || len(had) != before {
			t.Fatalf("%d forecasts, %v", len(had), err)
		}
		f := Forecast{Schema: ForecastSchema, Run: "a", Algo: "redis-token", Load: Load{Owners: 8, Keys: 1}, Order: "polling",
			P99: Foreseen{Measured: 3, Same: 4, Low: 2, Mid: 3, High: 5}, Null: 7, Valid: Valid{OK: true}}
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	list, err := ReadForecasts(name)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d forecasts, %v", len(list), err)
	}
	if got := list[1]; got.P99.Predicted() != 4 || got.Order != "polling" || got.Load.Owners != 8 || !got.Valid.OK || got.Null != 7 {
		t.Errorf("%+v", got)
	}
}

// A file of something else is refused, and stays as it is.
func TestForeignFileOfForecasts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.jsonl")
	for text, want := range map[string]string{
		"{\"schema\":5}\n":           ":1: no forecast",
		"{\"forecast_schema\":99}\n": ":1: schema 99",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := AppendForecasts(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != text {
			t.Errorf("%q became %q, %v", text, b, err)
		}
	}
}
