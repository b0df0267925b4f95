package bench

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// A progress says on stderr how far a run has come: by a line for each finished trial and,
// on a terminal, by a last line that shows the trial under way as it goes on.
type progress struct {
	w     io.Writer
	view  *view // nil where w is no terminal that can take a line back
	total int
	done  int
}

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, total: total}
	if terminal(w) && os.Getenv("TERM") != "dumb" {
		width := func() int {
			columns, _, err := term.GetSize(int(w.(*os.File).Fd()))
			if err != nil || columns <= 0 {
				return 80
			}
			return columns
		}
		p.view = &view{w: w, width: width, colour: os.Getenv("NO_COLOR") == "", began: time.Now()}
	}
	return p
}

// watched is the progress of so many trials on b, and has it and the exporter see them as
// they go on.
func (b *bank) watched(w io.Writer, total int) *progress {
	p := newProgress(w, total)
	b.live = func(l *harness.Live) {
		if b.exporter != nil {
			b.exporter.see(l)
		}
		p.see(l)
	}
	return p
}

// terminal tells whether somebody watches f.
func terminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// head is where in the run it is: "[ 3/12]".
func (p *progress) head(trial int) string {
	return fmt.Sprintf("[%*d/%d]", len(strconv.Itoa(p.total)), trial, p.total)
}

func (p *progress) begin(t harness.Trial) {
	if p.view != nil {
		p.view.begin(p.head(p.done+1), short(t), p.done, p.total)
	}
}

// see shows what there is to see of the trial under way. It is not called beside the other
// methods.
func (p *progress) see(l *harness.Live) {
	if p.view != nil {
		p.view.see(l)
	}
}

// end counts t as finished and says what came out of it.
func (p *progress) end(t harness.Trial, said string) {
	p.clear()
	p.done++
	say(p.w, "%s %s block %d: %s\n", p.head(p.done), short(t), t.Block+1, said)
}

// more says that n more trials come.
func (p *progress) more(n int) { p.total += n }

// clear makes room for a line of text.
func (p *progress) clear() {
	if p.view != nil {
		p.view.clear()
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
	if r.Load.Open() {
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
	if r.SLO != nil {
		said := "SLO " + string(r.SLO.Answer)
		if r.SLO.Answer == results.Missed {
			said += " (" + r.SLO.Why + ")"
		}
		parts = append(parts, said)
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
