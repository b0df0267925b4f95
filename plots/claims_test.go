package plots

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockbench/lockbench/results"
)

func verdicts(t *testing.T) ([]results.Run, []results.Verdict) {
	t.Helper()
	num := func(v float64) *float64 { return &v }
	runs := synthetic(t, []string{"goredis"}, []int{1, 32}, 6)
	for i := range runs { // as a trial would name them
		runs[i].Trial = strings.Replace(runs[i].Trial, "/client=/", "/", 1)
	}
	pick := func(metric, at string, variants ...string) results.Pick {
		return results.Pick{Variants: variants, At: at, Metric: metric}
	}
	var list []results.Verdict
	for _, c := range []results.Claim{
		{Text: "redis-token reaches half of local-mutex with 32 owners", Of: pick(results.AcqRate, "owners=32", "redis-token/goredis"), Over: pick(results.AcqRate, "owners=32", "local-mutex"), Least: num(0.5)},
		{Text: "redis-token is as fast as redis-setnx alone", Of: pick(results.AcqRate, "owners=1", "redis-token/goredis"), Over: pick(results.AcqRate, "owners=1", "redis-setnx"), Least: num(1), Low: num(0.95)},
		{Text: "redis-fenced sends at most 8 commands", Of: pick(results.CmdsPerAcq, "owners=32", "redis-fenced/goredis"), Most: num(8), Every: true},
		{Text: "redis-fenced waits at most a second", Of: pick(results.Acquire+"-p99-ns", "owners=32", "redis-fenced/goredis"), Most: num(1e9)},
		{Text: "nobody overlaps", Of: pick(results.Violations, "owners=32", "redis-token/goredis"), Most: num(0)},
		{Text: "redis-cohort is there", Of: pick(results.AcqRate, "owners=32", "redis-cohort/goredis"), Least: num(1)},
	} {
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		list = append(list, c.Judge(runs))
	}
	return runs, list
}

func TestClaims(t *testing.T) {
	runs, list := verdicts(t)
	p, missing := claims(runs, list)
	if missing != "" {
		t.Fatal(missing)
	}
	var b bytes.Buffer
	if err := p.dump(&b); err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n")
	if err := ClaimsText(&b, list); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f, err := DrawClaims(runs, list, dir)
	if err != nil || len(f.Files) != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	table, err := os.ReadFile(filepath.Join(dir, ClaimsFile))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "claims.txt", append(append(b.Bytes(), '\n'), table...))
	if _, err := DrawClaims(runs, nil, dir); !errors.Is(err, ErrEmpty) {
		t.Errorf("no verdicts: %v", err)
	}
	// Only what cannot be drawn: the table is there all the same.
	f, err = DrawClaims(runs, list[4:], t.TempDir())
	if err != nil || f.Missing == "" || len(f.Files) > 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A cross right of the line is explained, where there is one.
func TestClaimsMissedByTheInterval(t *testing.T) {
	runs, list := verdicts(t)
	const words = "A cross right of the line"
	c := list[0].Claim
	for _, narrow := range []bool{false, true} {
		if narrow {
			c.Low = &list[0].Point.Max
		}
		v := c.Judge(runs)
		if v.Held == narrow {
			t.Fatalf("held is %v of %+v", v.Held, v)
		}
		p, _ := claims(runs, []results.Verdict{v})
		if strings.Contains(p.caption[0].text, words) != narrow {
			t.Errorf("missed by the interval is %v, and the caption begins with %q", narrow, p.caption[0].text)
		}
	}
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
		v := results.Verdict{Point: results.Point{Median: c.median}}
		v.Claim.Least, v.Claim.Over.Variants = &c.bound, []string{"peer"}
		if got := measured(v); got != c.want {
			t.Errorf("%v of %v is written as %q, want %q", c.median, c.bound, got, c.want)
		}
	}
	v := results.Verdict{Point: results.Point{Median: 800}}
	v.Claim.Most = new(float64)
	if got := measured(v); got != "800" {
		t.Errorf("a count is written as %q", got)
	}
}

// Claims about locks on several servers name them all, once.
func TestClaimsNameServers(t *testing.T) {
	runs, list := verdicts(t)
	for i := range runs {
		if runs[i].Algo == "redis-fenced" {
			runs[i].Server.Kind, runs[i].Server.Product, runs[i].Server.Version = "etcd", "etcd", "3.4.23"
		}
	}
	dir := t.TempDir()
	if _, err := DrawClaims(runs, list, dir); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(dir, ClaimsFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"redis 7.0.15", "etcd 3.4.23"} {
		if n := strings.Count(string(table), name); n != 1 {
			t.Errorf("%s is named %d times:\n%s", name, n, table)
		}
	}
}

// A long claim leaves room for what was measured.
func TestLongClaim(t *testing.T) {
	runs, list := verdicts(t)
	list[0].Claim.Text = strings.Repeat("as long as somebody takes to say what he means, ", 4)
	p, missing := claims(runs, list)
	if missing != "" {
		t.Fatal(missing)
	}
	left, right := p.panels[0].sides(true, true)
	if room := pageWidth - 2*border - left - right; room < pageWidth/4 {
		t.Errorf("%.0f of %.0f points are left for the values", room, pageWidth)
	}
}
