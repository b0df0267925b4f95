package bench

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbench/lockbench/results"
)

// smallSale is a sale that takes no time, on a server that the tests may use. So long is
// the work that buyers without a lock meet.
func smallSale(t testing.TB, args ...string) []string {
	return append([]string{"seckill", "-server", string(source(t)), "-buyers", "20", "-procs", "2", "-work", "20ms", "-wait", "30s"}, args...)
}

// A lock keeps the stock right, nothing and local-none do not, and nobody is blamed.
func TestSeckill(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "sales.jsonl")
	o := lockbench(t, smallSale(t, "-algo", "local-none,local-mutex,redis-token", "-repeat", "2", "-out", out)...)
	if o.status != 0 {
		t.Fatalf("%+v", o)
	}
	sales, err := results.ReadSales(out)
	if err != nil || len(sales) != 8 {
		t.Fatalf("%d sales, %v", len(sales), err)
	}
	for i, s := range sales {
		want := []string{"none", "local-mutex", "local-none", "redis-token"}[i%4]
		free := want == "none" || want == "local-none"
		if s.Algo != want || s.Repeat != i/4 || s.Bought() != 20 || (s.Lost() > 0) != free || s.Violated() || s.Session != sales[0].Session {
			t.Errorf("sale %d: %s in round %d, %d bought, %d lost", i, s.Algo, s.Repeat, s.Bought(), s.Lost())
		}
	}
	for _, want := range []string{`(?m)^none +0 of 2 `, `(?m)^local-none +0 of 2 .* it excludes nobody$`, `(?m)^redis-token/goredis +2 of 2 +19980 +19980 +0 +20 `, `stored: 8 sales in `} {
		if !regexp.MustCompile(want).MatchString(o.stdout) {
			t.Errorf("%q is not in:\n%s", want, o.stdout)
		}
	}
	if n := len(regexp.MustCompile(`(?m)^\[\d/8\] `).FindAllString(o.stderr, -1)); n != 8 {
		t.Errorf("%d lines of progress:\n%s", n, o.stderr)
	}

	// What it says is next draws the sales.
	pictures := filepath.Join(dir, "pictures")
	if o := call(t, "plot", "-in", out, "-out", pictures); o.status != 0 || !strings.Contains(o.stdout, "8 sales, 1 pictures and seckill.md in ") {
		t.Errorf("%+v", o)
	}
	for _, name := range []string{"seckill.svg", "seckill.png", "seckill.md"} {
		if _, err := os.Stat(filepath.Join(pictures, name)); err != nil {
			t.Error(err)
		}
	}
}

// Where buyers never meet nothing is proved, and that is said.
func TestSeckillThatShowsNothing(t *testing.T) {
	o := call(t, "seckill", "-algo", "local-mutex", "-buyers", "2")
	if o.status != exitFailure || !strings.Contains(o.stderr, "\nlockbench seckill: no unit was lost without a lock either, so that these terms show nothing: ") {
		t.Errorf("%+v", o)
	}
}

func TestSeckillBadInput(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-buyers 0", "-buyers: want whole numbers from 1 to 9000"},
		{"-buyers 1", "-goods 2 but -buyers 1: every good needs a buyer"},
		{"-goods x", "-goods: want whole numbers from 1"},
		{"-stock 0", "-stock: want whole numbers from 1"},
		{"-wait 0", "-wait: want a time above 0"},
		{"-ttl 0", "-ttl: want a time above 0"},
		{"-work -1s", "-work: want a time with its unit"},
		{"-tries 0", "-tries: want whole numbers from 1"},
		{"-procs 0", "-procs: want whole numbers from 1"},
		{"-conns 9 -procs 8", "-conns 9 is less than two for each of 8 processes: give -conns 16 or fewer -procs"},
		{"-algo redis-tokne", "did you mean redis-token?"},
		{"-algo redis-token -mysql mysql://u:secret@127.0.0.1:1/d", "redis-token/goredis does not run on mysql"},
		{"-buyer 3", "did you mean -buyers?"},
		{"-out /nosuch/dir/x.jsonl -algo local-mutex", "/nosuch/dir/x.jsonl"},
		{"more", "1 word too many"},
	} {
		o := call(t, append([]string{"seckill"}, strings.Fields(c.args)...)...)
		if o.status == 0 || o.stdout != "" || strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, c.want) || strings.Contains(o.stderr, "secret") {
			t.Errorf("%s: %+v, want %q", c.args, o, c.want)
		}
	}
}

// Ctrl-C keeps the sales that are finished, and leaves no server.
func TestSeckillInterrupted(t *testing.T) {
	r := &longRun{dir: t.TempDir(), out: filepath.Join(t.TempDir(), "sales.jsonl")}
	cmd := process(t, smallSale(t, "-algo", "redis-token", "-repeat", "1000", "-out", r.out)...)
	cmd.Env = append(cmd.Env, "TMPDIR="+r.dir)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := new(strings.Builder)
	cmd.Stdout = stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	address := regexp.MustCompile(`redis://127\.0\.0\.1:(\d+)`)
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		r.stderr = append(r.stderr, lines.Text())
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			r.port = m[1]
		}
		if strings.HasPrefix(lines.Text(), "[3/2000]") {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // its status says how
	last := r.stderr[len(r.stderr)-1]
	if got := cmd.ProcessState.ExitCode(); got != exitInterrupted || !strings.Contains(last, "of 2000 sales are finished") {
		t.Errorf("exit status %d, the last line is %q", got, last)
	}
	sales, err := results.ReadSales(r.out)
	if err != nil || len(sales) < 3 || len(sales) > 10 || !strings.Contains(stdout.String(), "redis-token/goredis") {
		t.Errorf("%d sales, %v; it printed\n%s", len(sales), err, stdout)
	}
	r.nothingLeft(t)
}

// What promised to exclude is blamed, and only that.
func TestSeckillVerdict(t *testing.T) {
	none := results.Sale{Algo: results.NoLock, Excuse: "it excludes nobody", Terms: results.Terms{Stock: 9}, Goods: []results.Good{{Left: 9, Bought: 3}}}
	broken := results.Sale{Algo: "x", Terms: results.Terms{Stock: 9}, Goods: []results.Good{{Left: 7, Bought: 3}}}
	excused := broken
	excused.Excuse = "holders worked on after the end of their leases"
	kept := broken
	kept.Goods = []results.Good{{Left: 6, Bought: 3}}
	for _, c := range []struct {
		name string
		held []results.Sale
		want string
	}{
		{"all is well", []results.Sale{none, kept}, ""},
		{"its hazard", []results.Sale{none, excused}, ""},
		{"broken", []results.Sale{none, kept, broken, broken}, "violation of mutual exclusion: x lost 1 of 3 units, and two buyers were inside 0 times"},
		{"no teeth", []results.Sale{kept}, "these terms show nothing"},
	} {
		err := judged(c.held)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// The table does not hide one sale in which nobody got in behind the median of many.
func TestSaleTableShowsTheWorst(t *testing.T) {
	sale := func(bought, gaveUp, errs int64) results.Sale {
		s := results.Sale{
			Algo: "x", Terms: results.Terms{Stock: 9}, Goods: []results.Good{{Left: 9 - bought, Bought: bought}}, Errors: errs,
			Waits: results.NewHistogram(9), GaveUp: results.NewHistogram(9),
		}
		for range bought {
			_ = s.Waits.Record(1)
		}
		for range gaveUp {
			_ = s.GaveUp.Record(1)
		}
		return s
	}
	var b strings.Builder
	if err := saleTable(&b, []results.Sale{sale(8, 0, 0), sale(0, 8, 21), sale(8, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	row := strings.Fields(strings.Split(b.String(), "\n")[1])
	if want := []string{"x", "3", "of", "3", "1", "1", "0", "0", "8", "21"}; !slices.Equal(row[:len(want)], want) {
		t.Errorf("got %q, want it to begin with %q", row, want)
	}
}

// A sale that could not begin is held after a rest, but not for ever, nor after Ctrl-C.
func TestSeckillAfterARest(t *testing.T) {
	busy := errors.New("busy")
	for _, c := range []struct {
		name        string
		interrupted bool
		fails, want int
	}{{"at once", false, 0, 1}, {"at last", false, 2, 3}, {"never", false, 9, 3}, {"interrupted", true, 9, 1}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.interrupted {
				cancel()
			}
			asked := 0
			_, err := afterRest(ctx, time.Minute, func() (results.Sale, error) {
				if asked++; asked <= c.fails {
					return results.Sale{}, busy
				}
				return results.Sale{}, nil
			})
			if asked != c.want || (err == nil) != (c.fails < c.want) {
				t.Errorf("%s: asked %d times, got %v", c.name, asked, err)
			}
		})
	}
}
