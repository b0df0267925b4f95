package bench

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// A progress says on stderr how far a run has come: by a bar with the remaining
// time on a terminal, by a line for each finished trial elsewhere.
type progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil where w is no terminal
	total int
	done  int
}

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, total: total}
	if terminal(w) {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(w),
			progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSetWidth(24),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionUseANSICodes(true),
		)
	}
	return p
}

// terminal tells whether somebody watches f.
func terminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (p *progress) begin(t harness.Trial) {
	if p.bar != nil {
		p.bar.Describe(short(t))
	}
}

// end counts t as finished and says what came out of it.
func (p *progress) end(t harness.Trial, said string) {
	p.done++
	if p.bar != nil {
		_ = p.bar.Add(1) // a bar that cannot be drawn is no reason to stop
		return
	}
	width := len(strconv.Itoa(p.total))
	say(p.w, "[%*d/%d] %s block %d: %s\n", width, p.done, p.total, short(t), t.Block+1, said)
}

// more says that n more trials come.
func (p *progress) more(n int) {
	p.total += n
	if p.bar != nil {
		p.bar.ChangeMax(p.total)
	}
}

// clear makes room for a line of text.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// short is the name of t for a reader: "redis-token/goredis owners=8 keys=1 hold=1ms".
func short(t harness.Trial) string {
	parts := []string{t.Variant.Name()}
	for part := range strings.SplitSeq(t.Name(), "/") {
		if key, _, _ := strings.Cut(part, "="); key != "algo" && key != "client" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

// gist is a run in a few words: "812 acq/s, p99 3.1 ms, valid". A "≤" says that the
// harness's own lateness is much of it; see results.Run.AtMost. Where most of the waits
// that are bounded gave up, it says that in the place of the p99.
func gist(r *results.Run) string {
	parts := []string{fmt.Sprintf("%.0f acq/s", r.Metrics[results.AcqRate])}
	what := results.Acquire
	if r.Load.Rate > 0 {
		what = results.Response
	}
	// Where most gave up, a percentile would be that of the few that got in.
	gave, of := r.GaveUp()
	most := results.MostGaveUp(gave, of)
	if most {
		parts = append(parts, fmt.Sprintf("%d of %d waits gave up", gave, of))
	}
	for _, q := range []string{"p99", "p50"} {
		name := what + "-" + q + "-ns"
		if ns, ok := r.Metrics[name]; ok && !most && !r.Thin(name) {
			if r.AtMost(name) {
				q += " ≤"
			}
			parts = append(parts, q+" "+brief(time.Duration(ns)))
			break
		}
	}
	if n := r.Metrics[results.Violations]; n > 0 {
		parts = append(parts, fmt.Sprintf("%.0f violations", n))
	}
	parts = append(parts, r.Valid.Findings...)
	if r.Valid.OK {
		return strings.Join(append(parts, "valid"), ", ")
	}
	return strings.Join(parts, ", ") + ", not valid: " + strings.Join(r.Valid.Reasons, "; ")
}

// brief prints d with two or three digits: "3.1 ms".
func brief(d time.Duration) string {
	unit, name := time.Second, "s"
	switch {
	case d < time.Microsecond:
		unit, name = time.Nanosecond, "ns"
	case d < time.Millisecond:
		unit, name = time.Microsecond, "µs"
	case d < time.Second:
		unit, name = time.Millisecond, "ms"
	}
	x := float64(d) / float64(unit)
	digits := 0
	if x < 10 && unit > time.Nanosecond {
		digits = 1
	}
	return strconv.FormatFloat(x, 'f', digits, 64) + " " + name
}
