package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// SearchSchema is the version of a stored search.
const SearchSchema = 1

// A Search is what became of a search for the highest rate at which a lock meets an SLO. It
// is stored as one line of JSON behind the runs that it made.
type Search struct {
	Schema  int       `json:"search_schema"`
	ID      string    `json:"id"`
	Session string    `json:"session"` // that of its runs
	Time    time.Time `json:"time"`    // when it ended, UTC
	Trial   string    `json:"trial"`   // the name of its trials, without a rate

	Algo   string          `json:"algo"`
	Client string          `json:"client"`
	Server Server          `json:"server"`
	Config json.RawMessage `json:"config"`
	Load   Load            `json:"load"` // without a rate; For is what was asked
	Env    Env             `json:"env"`

	SLO       string  `json:"slo"`       // as ParseSLO reads it
	Tolerance float64 `json:"tolerance"` // High ÷ Low − 1 that was aimed at

	// Low is the highest rate at which every run met the SLO, in arrivals a second, 0 if
	// there is none. High is the lowest rate above it at which one did not, 0 if each did.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// End says why the search ended: "found", "harness" (above Low the harness or the machine
	// was the limit, so the lock may do more), "ceiling" (it met the SLO at all rates that
	// there are), "floor" (it met it at none), "unsteady" (the answers above Low contradicted
	// each other), "interrupted".
	End string `json:"end"`
	Why string `json:"why,omitempty"` // why the SLO was not met at High

	// Metrics are the medians over the runs at Low.
	Metrics Metrics `json:"metrics"`
	// Rho is how much of its time the hottest key was held or handed over at Low, see
	// [Run.Rho]; ServerCPU how many CPUs the servers used. 0 is not known.
	Rho       float64 `json:"rho,omitempty"`
	ServerCPU float64 `json:"server_cpu,omitempty"`
	// Limit is what limited the rate, "lock", "server", "machine" or "harness"; "" if none
	// of them stands out.
	Limit string `json:"limit,omitempty"`

	Tries []SearchTry `json:"tries"`
}

// A SearchTry is one run of a search.
type SearchTry struct {
	Rate   float64 `json:"rate"`
	Phase  string  `json:"phase"` // of the search: "double", "halve", "bisect", "confirm"
	Answer Answer  `json:"answer"`
	Why    string  `json:"why,omitempty"`
	Run    string  `json:"run"` // its id
}

// Name is algo/client, or algo alone where there is only one client.
func (s *Search) Name() string {
	if s.Client == "" {
		return s.Algo
	}
	return s.Algo + "/" + s.Client
}

// WriteSearch appends s, as Write does a run.
func (w *Writer) WriteSearch(s *Search) error {
	c := *s
	c.Schema = SearchSchema
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("search of %s: %w", s.Trial, err)
	}
	return w.line(line)
}

// isSearch reports whether a line of a results file is a search and not a run.
func isSearch(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"search_schema":`)) }

// parseSearch decodes and checks one line.
func parseSearch(line []byte) (s Search, err error) {
	if err := json.Unmarshal(line, &s); err != nil {
		return s, explain(err, line)
	}
	switch {
	case s.Schema != SearchSchema:
		return s, fmt.Errorf("search of schema %d, and this program reads %d: search again", s.Schema, SearchSchema)
	case s.ID == "" || s.Algo == "" || s.SLO == "":
		return s, errors.New("a search without its id, algo or slo")
	}
	return s, nil
}

// Rho is the share of the time of the window in which the hottest key was held or handed
// over: rate × share of the key × (mean hold + mean hand-off). It is the utilisation ρ of
// queueing theory for a lock of one holder at a time. Ok is false where that means
// nothing, with readers or keys taken together, and for a closed loop.
func (r *Run) Rho() (rho float64, ok bool) {
	hold := r.Exact[Hold]
	if !r.Load.Open() || r.Load.Shared > 0 || r.Load.Together > 1 || hold.Count == 0 {
		return 0, false
	}
	service := float64(hold.Sum) / float64(hold.Count)
	if h := r.Exact[Handoff]; h.Count > 0 {
		service += float64(h.Sum) / float64(h.Count)
	}
	return r.Metrics[AcqRate] * r.Load.HottestShare() * service / 1e9, true
}
