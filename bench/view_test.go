package bench

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// watched is a run after that time, with so many grants of 1 ms.
func watched(at time.Duration, grants int64) *harness.Live {
	l := &harness.Live{Run: "r", At: at, Measuring: true, Owners: 8}
	l.Acquire.Buckets[results.BucketOf(1e6)-results.MinBucket] = grants
	return l
}

func TestSpoken(t *testing.T) {
	before := watched(time.Second, 100)
	now := watched(3*time.Second, 900)
	now.Acquire.Buckets[results.BucketOf(1e8)-results.MinBucket] = 20 // the p99 of the 820 since
	now.Waiting, now.LongestWait, now.Timeouts = 7, 1200*time.Millisecond, 3
	for _, c := range []struct {
		change func()
		alarm  string
		words  string
	}{
		{func() {}, "", "410 acq/s, p50 1.0 ms, p99 101 ms, 7 of 8 waiting, longest for 1.2 s, 3 timeouts, 0 violations"},
		{func() { now.Violations, now.Measuring = 2, false }, "2 violations", "410 acq/s, p50 1.0 ms, p99 101 ms, 7 of 8 waiting, longest for 1.2 s, 3 timeouts, warm-up"},
		// An open loop is judged from when its requests were due.
		{func() { now.Response.Buckets[results.BucketOf(1e9)-results.MinBucket] = 10 }, "2 violations", "5 acq/s, p50 958 ms, p99 999 ms, 7 of 8 waiting, longest for 1.2 s, 3 timeouts, warm-up"},
		// Nothing was granted: a lock that is stuck.
		{func() { now.Response, now.Acquire = harness.Tally{}, before.Acquire }, "2 violations", "0 acq/s, 7 of 8 waiting, longest for 1.2 s, 3 timeouts, warm-up"},
	} {
		c.change()
		alarm, words := spoken(now, before)
		if got := strings.Join(words, ", "); alarm != c.alarm || got != c.words {
			t.Errorf("got %q, %q\nwant %q", alarm, got, c.words)
		}
	}
}

// However narrow the terminal is, the line stays in it, and what must not be missed stays
// in the line.
func TestViewFits(t *testing.T) {
	escape := regexp.MustCompile(`\x1b\[[0-9;]*[mK]`)
	for _, colour := range []bool{false, true} {
		for width := range 200 {
			var b strings.Builder
			v := &view{w: &b, width: func() int { return width }, colour: colour, began: time.Now().Add(-time.Minute)}
			v.begin("[ 2/12]", "redis-token/goredis owners=8 keys=1 hold=1ms", 1, 12)
			l := watched(time.Second, 512)
			l.Violations, l.Waiting = 3, 2
			v.see(l)
			last := *l
			last.Done = true
			v.see(&last)
			lines := strings.Split(b.String(), "\r")
			for _, line := range lines {
				plain := escape.ReplaceAllString(line, "")
				if n := columns(plain); n > max(0, width-1) {
					t.Errorf("%d columns of %d: %q", n, width, plain)
				}
			}
			if !colour && strings.Contains(b.String(), "\x1b[1") {
				t.Error("colours that nobody wants")
			}
			if width > 25 && !strings.Contains(lines[2], "3 violations") {
				t.Errorf("%d columns: nobody reads of the violations: %q", width, lines[2])
			}
			if width == 199 {
				for _, want := range []string{"512 acq/s", "left", "redis-token/goredis ", "2 of 8 waiting"} {
					if !strings.Contains(lines[2], want) {
						t.Errorf("%q lacks %q", lines[2], want)
					}
				}
			}
			if width == 199 && !strings.Contains(lines[1], "owners=8 keys=1 hold=1ms") {
				t.Errorf("which load begins: %q", lines[1])
			}
			if lines[len(lines)-1] != "\x1b[K" {
				t.Errorf("at the end there stands %q", lines[len(lines)-1])
			}
		}
	}
}

// A trial that is measured again begins anew.
func TestViewOfSecondGo(t *testing.T) {
	var b strings.Builder
	v := &view{w: &b, width: func() int { return 80 }}
	v.begin("[1/1]", "a", 0, 1)
	v.see(watched(10*time.Second, 5000))
	again := watched(time.Second, 300)
	again.Run = "s"
	v.see(again)
	if !strings.Contains(b.String(), " 300 acq/s") {
		t.Errorf("%q", b.String())
	}
}
