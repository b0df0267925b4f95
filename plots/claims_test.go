package plots

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
	"github.com/lockbench/lockbench/results/compare"
)

func verdicts(t *testing.T) []compare.Judgement {
	t.Helper()
	num := func(v float64) *float64 { return &v }
	runs := synthetic(t, []string{"goredis"}, []int{1, 32}, 6)
	for i := range runs { // as a trial would name them
		runs[i].Trial = strings.Replace(runs[i].Trial, "/client=/", "/", 1)
	}
	pick := func(metric, at string, variants ...string) compare.Pick {
		return compare.Pick{Variants: variants, At: at, Metric: metric}
	}
	var list []compare.Judgement
	for _, c := range []compare.Claim{
		{Text: "redis-token reaches half of local-mutex with 32 owners", Of: pick(results.AcqRate, "owners=32", "redis-token/goredis"), Over: pick(results.AcqRate, "owners=32", "local-mutex"), Least: num(0.5)},
		{Text: "redis-token is as fast as redis-setnx alone", Of: pick(results.AcqRate, "owners=1", "redis-token/goredis"), Over: pick(results.AcqRate, "owners=1", "redis-setnx"), Least: num(1)},
		{Text: "redis-fenced sends at most 8 commands", Of: pick(results.CmdsPerAcq, "owners=32", "redis-fenced/goredis"), Most: num(8), Every: true},
		{Text: "redis-fenced waits at most a second", Of: pick(results.Acquire+"-p99-ns", "owners=32", "redis-fenced/goredis"), Most: num(1e9)},
		{Text: "nobody overlaps", Of: pick(results.Violations, "owners=32", "redis-token/goredis"), Most: num(0)},
		{Text: "redis-cohort is there", Of: pick(results.AcqRate, "owners=32", "redis-cohort/goredis"), Least: num(1)},
	} {
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		list = append(list, c.Judge(runs, 0))
	}
	return list
}

func TestClaims(t *testing.T) {
	var b bytes.Buffer
	if err := ClaimsText(&b, verdicts(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "claims.txt", b.Bytes())
}

// What is missed by a hair is not written as if it were the bound.
func TestClaimsMissedByAHair(t *testing.T) {
	for _, c := range []struct {
		median, bound float64
		want          string
	}{
		{0.89957, 0.9, "0.8996"},
		{0.899997, 0.9, "0.899997"},
		{0.9, 0.9, "0.9"},
		{0.90004, 0.9, "0.90004"},
		{0.853, 0.9, "0.853"},
		{1, 0.9999, "1"}, // no more digits tell it from a bound that is itself rounded
	} {
		v := compare.Judgement{Value: c.median}
		v.Claim.Least, v.Claim.Over.Variants = &c.bound, []string{"peer"}
		if got := measured(v); got != c.want {
			t.Errorf("%v of %v is written as %q, want %q", c.median, c.bound, got, c.want)
		}
	}
	v := compare.Judgement{Value: 800}
	v.Claim.Most = new(float64)
	if got := measured(v); got != "800" {
		t.Errorf("a count is written as %q", got)
	}
}
