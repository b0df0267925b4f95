package results

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Check tells what is missing or contradictory in r as a record of schema
// Schema, or nil. Writing and reading both insist on it.
func (r *Run) Check() error {
	if err := r.checkSchema(); err != nil {
		return err
	}
	var missing []string
	for _, f := range []struct {
		name string
		gone bool
	}{
		{"id", r.ID == ""},
		{"trial", r.Trial == ""},
		{"time", r.Time.IsZero()},
		{"algo", r.Algo == ""},
		{"metrics", r.Metrics == nil},
	} {
		if f.gone {
			missing = append(missing, f.name)
		}
	}
	if missing != nil {
		return fmt.Errorf("missing: %q", missing)
	}
	if r.Valid.OK && len(r.Valid.Reasons) > 0 {
		return fmt.Errorf("valid, yet with reasons against it: %q", r.Valid.Reasons)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Exact)) {
		if _, ok := r.Hist[name]; !ok {
			return fmt.Errorf("exact numbers but no histogram of %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Hist)) {
		if _, ok := r.Exact[name]; !ok {
			return fmt.Errorf("histogram but no exact numbers of %s", name)
		}
		if _, err := r.Histogram(name); err != nil {
			return err
		}
	}
	return r.checkSeries()
}

func (r *Run) checkSeries() error {
	if r.Series == nil {
		return nil
	}
	return r.Series.Heat.check()
}

func (r *Run) checkSchema() error {
	switch {
	case r.Schema == 0:
		return errors.New("no schema: this is no record of a run")
	case r.Schema > 0 && r.Schema < Schema:
		return fmt.Errorf("schema %d, and this program reads %d: what older ones measured does not compare; measure it again", r.Schema, Schema)
	case r.Schema != Schema:
		return fmt.Errorf("schema %d, but this program knows %d: read it with a newer lockbench", r.Schema, Schema)
	}
	return nil
}

// finite returns r without the metrics that are NaN or infinite, which JSON
// cannot hold. Such a metric is a defect of the program that measured; what
// else the run found is still worth keeping, so the run is stored, but as one
// that is not valid and says why. R is unchanged.
func (r *Run) finite() *Run {
	var bad []string
	for name, v := range r.Metrics {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			bad = append(bad, name)
		}
	}
	if bad == nil {
		return r
	}
	slices.Sort(bad)
	c := *r
	c.Metrics = maps.Clone(r.Metrics)
	c.Valid = Valid{Reasons: slices.Clone(r.Valid.Reasons)}
	for _, name := range bad {
		delete(c.Metrics, name)
		c.Valid.Reasons = append(c.Valid.Reasons, fmt.Sprintf("metric %s came out as %v and was left out", name, r.Metrics[name]))
	}
	return &c
}
