package results

import (
	"errors"
	"fmt"
	"time"
)

// MaxHeatWindows is how many windows a [Heat] has at most.
const MaxHeatWindows = 60

// Heat is how long the grants of a run took, over time: a coarse histogram for each of
// equal windows from the start of measuring. They are narrower than those of the Series,
// since a fault may last but a few hundred milliseconds.
type Heat struct {
	Window time.Duration `json:"window_ns"`
	// Of names what was counted: Acquire or, in an open loop, Response. A grant counts in
	// the window in which it was made.
	Of string `json:"of"`
	// First is the bucket, at HeatScale, of the first count of each window; see BucketEnd.
	First int `json:"first"`
	// Counts are the grants in each bucket of each window, without zeros at their end.
	Counts [][]int64 `json:"counts"`
	// Lag is the longest lag of each window in ns, in an open loop: by as much the load
	// generator was late itself. Empty in a closed loop.
	Lag []int64 `json:"lag_ns,omitempty"`
}

// NewHeat is the Heat of windows whose counts begin with the bucket first at HeatScale. It
// leaves out the buckets that no window has, and is nil if there is no grant at all.
func NewHeat(window time.Duration, of string, first int, counts [][]int64) *Heat {
	least, found := 0, false
	for _, row := range counts {
		for i, n := range row {
			if n > 0 && (!found || i < least) {
				least, found = i, true
			}
		}
	}
	if !found {
		return nil
	}
	h := &Heat{Window: window, Of: of, First: first + least, Counts: make([][]int64, len(counts))}
	for w, row := range counts {
		end := len(row)
		for end > least && row[end-1] == 0 {
			end--
		}
		h.Counts[w] = append([]int64{}, row[min(least, end):end]...) // [] and not null where it is empty
	}
	return h
}

// check tells what makes no sense in h, or nil. H may come from any file.
func (h *Heat) check() error {
	switch {
	case h == nil:
		return nil
	case h.Window <= 0 || len(h.Counts) > MaxHeatWindows || len(h.Lag) > len(h.Counts):
		return fmt.Errorf("heat of %d windows of %v, and a lag in %d: want up to %d", len(h.Counts), h.Window, len(h.Lag), MaxHeatWindows)
	case h.First < Coarser(MinBucket):
		return fmt.Errorf("heat from bucket %d: want %d or more", h.First, Coarser(MinBucket))
	}
	for _, row := range h.Counts {
		if h.First+len(row) > Coarser(MaxBucket)+1 {
			return fmt.Errorf("heat of %d buckets from %d: want none beyond %d", len(row), h.First, Coarser(MaxBucket))
		}
		for _, n := range row {
			if n < 0 {
				return errors.New("heat with a negative count")
			}
		}
	}
	return nil
}
