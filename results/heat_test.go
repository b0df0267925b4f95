package results

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestNewHeat(t *testing.T) {
	h := NewHeat(time.Second, Acquire, -20, [][]int64{{0, 0, 3, 0, 1, 0}, {0, 0, 0, 0, 0, 0}, {0, 2, 0, 0, 0, 0}})
	want := &Heat{Window: time.Second, Of: Acquire, First: -19, Counts: [][]int64{{0, 3, 0, 1}, {}, {2}}}
	if !reflect.DeepEqual(h, want) {
		t.Errorf("%+v, want %+v", h, want)
	}
	text, err := json.Marshal(h)
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
	if h := NewHeat(time.Second, Acquire, -20, [][]int64{{0, 0}, {}}); h != nil {
		t.Errorf("nothing is %+v", h)
	}
}

// What a file may claim and a picture could not draw.
func TestCheckHeat(t *testing.T) {
	good := Heat{Window: time.Second, Of: Acquire, First: -19, Counts: [][]int64{{0, 3}, {}}}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	if err := (*Heat)(nil).check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Heat){
		"no window":      func(h *Heat) { h.Window = 0 },
		"many windows":   func(h *Heat) { h.Counts = make([][]int64, MaxHeatWindows+1) },
		"more lags":      func(h *Heat) { h.Lag = make([]int64, 3) },
		"first too low":  func(h *Heat) { h.First = Coarser(MinBucket) - 1 },
		"last too high":  func(h *Heat) { h.First = Coarser(MaxBucket) },
		"negative count": func(h *Heat) { h.Counts = [][]int64{{-1}} },
	} {
		h := good
		spoil(&h)
		if h.check() == nil {
			t.Errorf("%s is taken", name)
		}
		r := Run{Series: &Series{Heat: &h}}
		if err := r.checkSeries(); err == nil {
			t.Errorf("%s: a run with it is taken", name)
		}
	}
}
