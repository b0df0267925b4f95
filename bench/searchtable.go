package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbench/lockbench/results"
)

// searchTable writes what searches found, a row each, and why those that found no interval
// ended.
func searchTable(w io.Writer, list []results.Search) error {
	rows := [][]string{{"VARIANT", "LOAD", "SLO", "HIGHEST RATE [MET, NOT MET]", "P50", "P99", "LOCK ρ", "SERVER CPUS", "LIMITED BY", "TRIES"}}
	var notes []string
	for _, s := range list {
		bound := func(rate float64) string {
			if rate == 0 {
				return "–" // no rate was seen to meet it for certain, or none to miss it
			}
			return arrivals(rate)
		}
		highest := bound(s.Low)
		if s.Low > 0 {
			highest += "/s"
		}
		rows = append(rows, []string{
			s.Name(), loadOf(&s), s.SLO, highest + " [" + bound(s.Low) + ", " + bound(s.High) + "]", responseOf(&s, "p50"), responseOf(&s, "p99"),
			figure(s.Rho), figure(s.ServerCPU), cmp.Or(s.Limit, "–"), strconv.Itoa(len(s.Tries)),
		})
		if note := ending(&s); note != "" {
			notes = append(notes, s.Name()+": "+note)
		}
	}
	if err := table(w, rows); err != nil {
		return err
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(w, note); err != nil {
			return err
		}
	}
	return nil
}

// ending says what a reader has to know of the end of s, or of its upper end.
func ending(s *results.Search) string {
	switch s.End {
	case "found":
		return ""
	case "harness":
		return fmt.Sprintf("at %s/s the %s was the limit, so the lock may do more (%s)", arrivals(s.High), s.Limit, s.Why)
	case "ceiling":
		return "it met the SLO at the highest rate that a window of " + s.Load.For.String() + " can plan"
	case "floor":
		if s.Limit != "" {
			return fmt.Sprintf("the %s was the limit at %s/s already, and fewer arrivals do not state the SLO: %s", s.Limit, arrivals(s.High), s.Why)
		}
		return fmt.Sprintf("it missed the SLO at %s/s, and fewer arrivals do not state it: %s; give a longer -for, or another SLO", arrivals(s.High), s.Why)
	case "unsteady":
		const then = "give a longer -for, and end what else runs on the machine"
		if s.Low == 0 {
			return "one run contradicted the other each time; " + then
		}
		return fmt.Sprintf("up to %s/s each run met the SLO; from %s/s on one contradicted the other, so this is a lower bound: %s", arrivals(s.Low), arrivals(s.High), then)
	case "interrupted":
		return "interrupted before it was confirmed"
	}
	return s.End
}

// arrivals writes a rate; it has four digits.
func arrivals(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) }

// figure writes a share or a number of CPUs, "–" for one that is not known.
func figure(x float64) string {
	if x == 0 {
		return "–"
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// responseOf is a percentile of the response at the rate that was found.
func responseOf(s *results.Search, q string) string {
	ns, ok := s.Metrics[results.Response+"-"+q+"-ns"]
	if !ok {
		return "–"
	}
	return brief(time.Duration(ns))
}

// loadOf is the load of s as the name of its trials tells it.
func loadOf(s *results.Search) string {
	parts := strings.Split(s.Trial, "/")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		return strings.HasPrefix(part, "algo=") || strings.HasPrefix(part, "client=")
	}), " ")
}
