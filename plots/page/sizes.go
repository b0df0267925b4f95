package page

import (
	"github.com/lockbench/lockbench/results"
)

// size is what the sliders reckon with for one lock: the measured parts, and how far they
// were measured. Times are in ns.
type size struct {
	Name    string  `json:"name"`
	InOrder bool    `json:"in_order"` // its waits follow a formula; of others only the limits are told
	Hold    float64 `json:"hold"`     // as achieved
	Beyond  float64 `json:"beyond"`   // the mean hold less what was asked
	Handoff float64 `json:"handoff"`
	Free    float64 `json:"free"` // a round trip without waiting, 0 if it was not measured
	CPU     float64 `json:"cpu"`  // of the server for a grant
	Rate    float64 `json:"rate"` // most grants a second that were measured, of any load
	Longest float64 `json:"longest_hold"`
	Keys    int     `json:"keys"`
	Cores   int     `json:"cores"` // that the server can use
}

// sizes are those of the main load's locks whose parts are known.
func sizes(rows []*row) []size {
	list := []size{}
	for _, r := range rows {
		if r.Yardstick || r.None || !r.Valid {
			continue
		}
		s := size{Name: r.Name, Keys: r.g.Load.Keys, Longest: float64(r.g.Load.Hold.Mean), Cores: max(1, r.g.Env.Cores)}
		if r.g.Server.Kind == "redis" {
			s.Cores = 1 // it runs commands one after the other
		}
		s.InOrder = r.Jain.Known && r.Jain.Value >= inOrder
		mean := func(name string) float64 {
			sum, n := int64(0), int64(0)
			for i := range r.g.Runs {
				if e, ok := r.g.Runs[i].Exact[name]; ok && r.g.Runs[i].Valid.OK {
					sum, n = sum+e.Sum, n+e.Count
				}
			}
			return float64(sum) / float64(max(n, 1))
		}
		s.Hold, s.Handoff, s.Free = mean(results.Hold), mean(results.Handoff), mean(results.Free)
		s.Beyond = max(0, s.Hold-s.Longest)
		s.CPU, s.Rate = r.CPU.Value, r.Rate.Value
		if s.Hold > 0 && s.Handoff > 0 {
			list = append(list, s)
		}
	}
	return list
}
