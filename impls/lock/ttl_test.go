package lock_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
)

func TestUnits(t *testing.T) {
	for _, c := range []struct {
		d, unit time.Duration
		want    int64
	}{
		{-1, time.Second, 1},
		{0, time.Second, 1},
		{1, time.Second, 1},
		{time.Second, time.Second, 1},
		{time.Second + 1, time.Second, 2},
		{1500 * time.Microsecond, time.Millisecond, 2},
		{lock.MaxTTL, time.Microsecond, 3_153_600_000_000_000},
		{math.MaxInt64, time.Nanosecond, math.MaxInt64},
		{math.MaxInt64, time.Microsecond, 9_223_372_036_854_776},
		{math.MaxInt64, time.Millisecond, 9_223_372_036_855},
		{math.MaxInt64, time.Second, 9_223_372_037},
	} {
		if got := lock.Units(c.d, c.unit); got != c.want {
			t.Errorf("%d ns in units of %v: %d, want %d", c.d, c.unit, got, c.want)
		}
	}
}

func TestLasting(t *testing.T) {
	for _, c := range []struct {
		n    int64
		unit time.Duration
		want time.Duration
	}{
		{math.MinInt64, time.Millisecond, 0},
		{-1, time.Second, 0},
		{0, time.Second, 0},
		{1500, time.Millisecond, 1500 * time.Millisecond},
		{9_000_000_000, time.Second, lock.MaxTTL},
		{9_223_372_036_855, time.Millisecond, lock.MaxTTL},
		{math.MaxInt64, time.Nanosecond, lock.MaxTTL},
		{math.MaxInt64, time.Second, lock.MaxTTL},
	} {
		if got := lock.Lasting(c.n, c.unit); got != c.want {
			t.Errorf("%d × %v: %v, want %v", c.n, c.unit, got, c.want)
		}
	}
}

func TestChecked(t *testing.T) {
	const beyond = lock.MaxTTL + 1
	for name, c := range map[string]struct {
		config lock.Config
		most   time.Duration
		says   []string // nothing: it is taken
	}{
		"zero":          {lock.Config{}, lock.MaxTTL, nil},
		"the longest":   {lock.Config{TTL: lock.MaxTTL, Renew: lock.MaxTTL}, lock.MaxTTL, nil},
		"TTL":           {lock.Config{TTL: beyond}, lock.MaxTTL, []string{"TTL of 876000h0m0.000000001s", "at most 876000h0m0s"}},
		"the most":      {lock.Config{TTL: math.MaxInt64}, lock.MaxTTL, []string{"at most 876000h0m0s"}},
		"of the engine": {lock.Config{TTL: time.Hour + 1}, time.Hour, []string{"at most 1h0m0s"}},
		"Renew":         {lock.Config{Renew: beyond}, lock.MaxTTL, []string{"Renew is"}},
		"Timeout":       {lock.Config{Timeout: beyond}, lock.MaxTTL, []string{"Timeout is"}},
		"NodeTimeout":   {lock.Config{NodeTimeout: beyond}, lock.MaxTTL, []string{"NodeTimeout is"}},
		"Retry.Delay":   {lock.Config{Retry: lock.Retry{Delay: beyond}}, lock.MaxTTL, []string{"Retry.Delay is"}},
		"Retry.Max":     {lock.Config{Retry: lock.Retry{Max: beyond}}, lock.MaxTTL, []string{"Retry.Max is"}},
		"Cohort.Time":   {lock.Config{Cohort: lock.Cohort{Time: beyond}}, lock.MaxTTL, []string{"Cohort.Time is"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.config.Checked(c.most)
			if c.says == nil {
				if err != nil || got.Timeout != lock.DefaultTimeout {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if !errors.Is(err, lock.ErrRange) {
				t.Fatalf("error %v, want lock.ErrRange", err)
			}
			for _, part := range c.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

func TestCheckTTL(t *testing.T) {
	for ttl, good := range map[time.Duration]bool{
		-1: false, 0: false, 1: true, lock.MaxTTL: true, lock.MaxTTL + 1: false, math.MaxInt64: false,
	} {
		if err := lock.CheckTTL(ttl, lock.MaxTTL); (err == nil) != good || err != nil && !errors.Is(err, lock.ErrRange) {
			t.Errorf("a TTL of %v: %v", ttl, err)
		}
	}
}
