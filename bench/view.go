package bench

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockbench/lockbench/harness"
)

// A view is one line of a terminal that shows a trial as it goes on: what happened in the
// last second, and who waits now. It is written again and again in its place, and never
// longer than the terminal is wide, or it would run on into the next line and stay there.
type view struct {
	w      io.Writer
	width  func() int // of the terminal, in columns
	colour bool
	began  time.Time // of the first trial

	head, name string
	over       time.Time    // about when all trials are done, zero if unknown
	before     harness.Live // as it was seen last
	shown      bool         // the line stands on the terminal
}

// begin shows that the trial of that name begins, after done of total.
func (v *view) begin(head, name string, done, total int) {
	v.head, v.name, v.over, v.before = head, name, time.Time{}, harness.Live{}
	if done > 0 {
		v.over = time.Now().Add(time.Since(v.began) / time.Duration(done) * time.Duration(total-done))
	}
	v.write("", name)
}

// see shows l.
func (v *view) see(l *harness.Live) {
	if l.Run != v.before.Run { // a trial may be measured again
		v.before = harness.Live{}
	}
	alarm, words := spoken(l, &v.before)
	v.before = *l
	if l.Done { // what came of it follows
		v.clear()
		return
	}
	v.write(alarm, words...)
}

// spoken is what has happened since before, in words, the most important first. Alarm is
// what must not be missed, or "".
func spoken(l, before *harness.Live) (alarm string, words []string) {
	if l.Violations > 0 {
		alarm = fmt.Sprintf("%d violations", l.Violations)
	}
	if passed := (l.At - before.At).Seconds(); passed > 0 {
		waits := l.Acquire.Since(&before.Acquire)
		if l.Response.Count() > 0 {
			waits = l.Response.Since(&before.Response)
		}
		n := waits.Count()
		words = append(words, fmt.Sprintf("%.0f acq/s", float64(n)/passed))
		if n > 0 {
			words = append(words, "p50 "+brief(waits.Quantile(50)), "p99 "+brief(waits.Quantile(99)))
		}
	}
	if l.Waiting > 0 {
		words = append(words, fmt.Sprintf("%d of %d waiting", l.Waiting, l.Owners), "longest for "+brief(l.LongestWait))
	}
	for _, c := range []struct {
		n    int64
		what string
	}{{l.Errors, "errors"}, {l.Lost, "lost"}, {l.Timeouts, "timeouts"}} {
		if c.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if l.Violations == 0 {
		words = append(words, "0 violations")
	}
	if !l.Measuring {
		words = append(words, "warm-up")
	}
	return alarm, words
}

// write shows the line. What has no room is left out, from the end.
func (v *view) write(alarm string, words ...string) {
	if left := time.Until(v.over).Round(time.Second); left > 0 {
		words = append(words, left.String()+" left")
	}
	room := v.width() - 1 // in the last column some terminals begin a new line
	line := v.head
	if alarm != "" {
		line += " " + alarm
	}
	// Which lock it is yields to how it does.
	lock, _, more := strings.Cut(v.name, " ")
	if more && len(words) > 2 && columns(line)+1+columns(lock) < room-roomForRates {
		line += " " + lock
	}
	for i, w := range words {
		sep := ", "
		if i == 0 {
			sep = " "
		}
		if columns(line)+columns(sep)+columns(w) > room {
			break
		}
		line += sep + w
	}
	if line == v.head && len(words) > 0 {
		line += " " + words[0]
	}
	line = truncated(line, room)
	if v.colour && alarm != "" {
		line = strings.Replace(line, alarm, "\x1b[1;31m"+alarm+"\x1b[0m", 1)
	}
	say(v.w, "\r%s\x1b[K", line)
	v.shown = true
}

// roomForRates is the columns that the first three words of a trial take: "1000 acq/s, p50
// 1.0 ms, p99 100 ms".
const roomForRates = 36

// clear takes the line away.
func (v *view) clear() {
	if v.shown {
		say(v.w, "\r\x1b[K")
		v.shown = false
	}
}

// columns is how many columns s takes: nothing that it is made of takes two.
func columns(s string) int { return utf8.RuneCountInString(s) }

// truncated is the beginning of s that takes at most n columns, with an ellipsis if there is more.
func truncated(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	if n < 2 {
		return string(runes[:max(n, 0)])
	}
	return string(runes[:n-1]) + "…"
}
