package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// Calls that make no sense end with 2 and one line, before anything is measured.
func TestMisuse(t *testing.T) {
	for want, args := range map[string][]string{
		"no lock \"redis-tokn\"": {"-algo", "redis-tokn"},
		"no lock \"local-mutex":  {"-algo", "local-mutex"}, // it has no server to be modelled
		"from 1s to 10m":         {"-for", "10ms"},
		"no words after":         {"redis-token"},
		"not defined":            {"-nope"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), args, &stdout, &stderr); status != exitMisuse || !strings.Contains(stderr.String(), want) || stdout.Len() > 0 {
			t.Errorf("%v: status %d, %q, want %q", args, status, stderr.String(), want)
		}
	}
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), []string{"-h"}, &stdout, &stderr); status != 0 {
		t.Errorf("-h: status %d, %q", status, stderr.String())
	}
}

func TestDefaultsExist(t *testing.T) {
	list, err := choose(defaults())
	if err != nil || len(list) != len(defaults()) {
		t.Fatalf("%d locks, %v", len(list), err)
	}
	for _, s := range list {
		if want := map[bool]time.Duration{true: 200 * time.Millisecond, false: 50 * time.Millisecond}[s.v.Needs.Kind == "zookeeper" || s.v.Needs.Kind == "etcd"]; s.many < want {
			t.Errorf("%s is held for %v on many keys, want at least %v", s.v.Name(), s.many, want)
		}
	}
}

// The hottest key of an open loop is in use for the share that was asked for.
func TestLoadsHaveTheirUse(t *testing.T) {
	list, err := choose([]string{"redis-token/goredis"})
	if err != nil {
		t.Fatal(err)
	}
	v := validation{window: time.Second, seed: 7}
	for _, keys := range []int{1, manyKeys} {
		l := v.trial(list[0], keys, 0.5, time.Millisecond, 3)
		if got := l.Load.Rate / float64(keys) * (l.Load.Hold.Mean + time.Millisecond).Seconds(); math.Abs(got-0.5) > 1e-9 {
			t.Errorf("%d keys: in use for %v", keys, got)
		}
		if l.Seed != 10 || l.Load.Procs != procs || l.Load.For != time.Second {
			t.Errorf("%+v", l)
		}
	}
	if c := v.closed(list[0], 8); c.Load.Rate != 0 || c.Load.Owners != 8 || c.Load.Keys != 1 {
		t.Errorf("%+v", c.Load)
	}
}

// off is a forecast of an open loop, whose p99 is 100 and was predicted as that share of it.
func off(share float64, change ...func(*results.Forecast)) results.Forecast {
	f := results.Forecast{
		Algo: "redis-token", Client: "goredis", Order: "polling", Load: results.Load{Keys: 1, Rate: 50}, Null: 75,
		Rate:  results.Foreseen{Measured: 50, Same: 50, Low: 49, Mid: 50, High: 51},
		P99:   results.Foreseen{Measured: 1e8, Same: share * 1e8, Low: 0.9e8, Mid: 1e8, High: 1.2e8},
		Valid: results.Valid{OK: true},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

// All loads are printed, whatever came of them; what is not valid or refused counts nowhere.
func TestTableHasAllErrors(t *testing.T) {
	v := validation{
		window: time.Second, leftOut: []string{"etcd-mutex: no etcd here"},
		rows: []results.Forecast{
			off(1.1), off(3), off(0.8, func(f *results.Forecast) { f.P99.Low = 1.01e8 }),
			off(50, func(f *results.Forecast) { f.Valid = results.Valid{Reasons: []string{"too much"}} }),
			off(0, func(f *results.Forecast) { f.Refused = "beyond" }),
		},
	}
	var b strings.Builder
	if err := v.print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"+10.0 %", "+200.0 %", "-20.0 %", "+4900.0 %", "+50.0 %", "refused\n",
		"REFUSED: redis-token/goredis keys=1 rate=50: beyond", "NOT VALID: redis-token/goredis keys=1 rate=50: too much", "LEFT OUT: etcd-mutex: no etcd here",
		"over 3 loads; without a model +50.0 % and +50.0 %", "polling: off by +20.0 % in the median, +200.0 % at most, over 3 loads", "in 2 of 3 loads; 1 runs are not valid",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
	var empty strings.Builder
	if err := (&validation{}).print(&empty); err != nil || empty.Len() > 0 {
		t.Errorf("of nothing: %q, %v", empty.String(), err)
	}
}
