package results

import (
	"fmt"
	"testing"
	"time"
)

// The runs beside a yardstick that is far off its median, and no others, were disturbed.
func TestUneven(t *testing.T) {
	measure := func(hold time.Duration, rates ...float64) (runs []Run) {
		for block, rate := range rates {
			for _, algo := range []string{Yardstick, "redis-token"} {
				runs = append(runs, Run{
					ID: fmt.Sprint(algo, block), Session: "s", Block: block, Algo: algo, Trial: algo,
					Load: Load{Owners: 8, Hold: Dist{Mean: hold}, For: time.Second}, Metrics: Metrics{AcqRate: rate},
				})
			}
		}
		return runs
	}
	for _, c := range []struct {
		name string
		runs []Run
		want []int // blocks
	}{
		{"even", measure(time.Millisecond, 900, 950, 910, 880), nil},
		{"one is slow", measure(time.Millisecond, 900, 950, 700, 880), []int{2}},
		{"one is fast", measure(time.Millisecond, 700, 900, 710), []int{1}},
		{"two blocks", measure(time.Millisecond, 900, 500), nil},
		{"short holds", measure(100*time.Microsecond, 900, 900, 500), nil},
		{"no yardstick", measure(time.Millisecond, 900, 900, 500)[5:], nil},
	} {
		var got []int
		for _, r := range Uneven(c.runs) {
			got = append(got, r.Block)
		}
		var want []int
		for _, block := range c.want {
			want = append(want, block, block) // yardstick and lock
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: runs of the blocks %v, want %v", c.name, got, want)
		}
	}
	// An open loop is as fast as its arrivals, and says nothing of the machine.
	open := measure(time.Millisecond, 900, 900, 500)
	for i := range open {
		open[i].Load.Rate = 900
	}
	if list := Uneven(open); len(list) > 0 {
		t.Errorf("%d runs of an open loop", len(list))
	}
}

func TestLatest(t *testing.T) {
	runs := []Run{
		{ID: "a", Session: "s", Trial: "x"}, {ID: "b", Session: "s", Trial: "y"}, {ID: "c", Session: "s", Trial: "x", Block: 1},
		{ID: "d", Session: "s", Trial: "x", Again: 1}, {ID: "e", Session: "t", Trial: "x"}, {ID: "f", Session: "s", Trial: "x", Again: 2},
	}
	got := ""
	for _, r := range Latest(runs) {
		got += r.ID
	}
	if got != "bcef" || len(runs) != 6 {
		t.Errorf("%s of %d runs, want bcef", got, len(runs))
	}
}
