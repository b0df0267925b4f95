package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lockbench/lockbench/results"
)

// preface says what the table shows. It has places for the processes and the window.
const preface = `How far are predictions off? Each lock was calibrated with three runs: of one key and of %d keys, each in use for
%.2f of the time, and of a closed loop of 8 owners. Then it was measured under loads that its model had not seen: %d processes, windows of %v.

  use        share of time in which the hottest key is in use, as predicted
  acq/s      grants a second, measured and predicted. An open loop gets what it is offered, so the figure
             says something only of a closed one (rate –)
  null       error of no model at all: as many grants as at the largest load of the calibration
  p99        of queue + acquire, measured, and predicted for the same arrivals
  90 %%       what the p99 of nine in ten windows lies within, as predicted for fresh arrivals
  in         whether the measured one does
`

// print writes the table, and what the errors come to.
func (v *validation) print(w io.Writer) error {
	if len(v.rows) == 0 && len(v.leftOut) == 0 {
		return nil
	}
	var text strings.Builder
	say(&text, preface+"\n", manyKeys, calibrateAt, procs, v.window)
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	say(t, "lock\torder\tkeys\thold\trate\tuse\tacq/s\tpredicted\terror\tnull\tp99\tpredicted\terror\t90 %%\tin\tvalid\n")
	for _, f := range v.rows {
		rate := "–"
		if f.Load.Rate > 0 {
			rate = fmt.Sprintf("%.0f", f.Load.Rate)
		}
		if f.Refused != "" {
			say(t, "%s\t%s\t%d\t%v\t%s\t\t%.0f\trefused\n", f.Name(), f.Order, f.Load.Keys, f.Load.Hold, rate, f.Rate.Measured)
			continue
		}
		say(t, "%s\t%s\t%d\t%v\t%s\t%.2f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s – %s\t%s\t%s\n", f.Name(), f.Order, f.Load.Keys, f.Load.Hold, rate, f.Hottest,
			f.Rate.Measured, f.Rate.Predicted(), percent(f.Rate.Error()), percent(f.Null/f.Rate.Measured-1),
			ms(f.P99.Measured), ms(f.P99.Predicted()), percent(f.P99.Error()), ms(f.P99.Low), ms(f.P99.High), yes(f.P99.Inside()), yes(f.Valid.OK))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	say(&text, "\n%s", v.summary())
	_, err := io.WriteString(w, text.String())
	return err
}

// under names a load of a lock as the lines of a run do.
func under(lock string, l results.Load) string {
	if l.Rate == 0 {
		return fmt.Sprintf("%s owners=%d keys=%d", lock, l.Owners, l.Keys)
	}
	return fmt.Sprintf("%s keys=%d rate=%.0f", lock, l.Keys, l.Rate)
}

// summary says what the errors of all valid loads come to.
func (v *validation) summary() string {
	var text strings.Builder
	var rates, nulls []float64
	p99 := map[string][]float64{}
	inside, judged, invalid := 0, 0, 0
	for _, f := range v.rows {
		switch {
		case f.Refused != "":
			say(&text, "REFUSED: %s: %s\n", under(f.Name(), f.Load), f.Refused)
			continue
		case !f.Valid.OK:
			invalid++
			say(&text, "NOT VALID: %s: %s\n", under(f.Name(), f.Load), strings.Join(f.Valid.Reasons, "; "))
			continue
		}
		rates, nulls = append(rates, math.Abs(f.Rate.Error())), append(nulls, math.Abs(f.Null/f.Rate.Measured-1))
		if f.Load.Rate > 0 {
			p99[f.Order] = append(p99[f.Order], math.Abs(f.P99.Error()))
			judged++
			if f.P99.Inside() {
				inside++
			}
		}
	}
	for _, why := range v.leftOut {
		say(&text, "LEFT OUT: %s\n", why)
	}
	if len(rates) == 0 {
		return text.String()
	}
	say(&text, "acq/s: off by %s in the median and %s at p95 over %d loads; without a model %s and %s\n",
		percent(quantile(rates, 0.5)), percent(quantile(rates, 0.95)), len(rates), percent(quantile(nulls, 0.5)), percent(quantile(nulls, 0.95)))
	var orders []string
	for order := range p99 {
		orders = append(orders, order)
	}
	slices.Sort(orders)
	for _, order := range orders {
		list := p99[order]
		say(&text, "p99 of locks that are %s: off by %s in the median, %s at most, over %d loads\n", order, percent(quantile(list, 0.5)), percent(quantile(list, 1)), len(list))
	}
	say(&text, "the measured p99 lies in its interval of 90 %% in %d of %d loads; %d runs are not valid and count nowhere\n", inside, judged, invalid)
	return text.String()
}

// quantile is the nearest rank of list, which it sorts.
func quantile(list []float64, p float64) float64 {
	slices.Sort(list)
	return list[max(0, int(math.Ceil(p*float64(len(list))))-1)]
}

func percent(share float64) string { return fmt.Sprintf("%+.1f %%", 100*share) }

func ms(ns float64) string {
	d := time.Duration(ns)
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 100*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}
