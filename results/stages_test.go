package results

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseStages(t *testing.T) {
	for _, tc := range []struct{ text, want, err string }{
		{"10s:100,30s:500", "10s:100,30s:500", ""},
		{" 1m : 5", "", "want stages"},
		{"60s:0, 500ms:0.5", "1m0s:0,500ms:0.5", ""},
		{"", "", "want stages"},
		{"10s", "", "want stages"},
		{"0s:5", "", "want stages"},
		{"-1s:5", "", "want stages"},
		{"10s:-5", "", "want stages"},
		{"10s:NaN", "", "want stages"},
		{"10s:0,1s:0", "", "rate above 0"},
		{"20h:1,20h:1", "", "longer than"},
		{strings.TrimSuffix(strings.Repeat("1s:1,", MaxStages+1), ","), "", "at most"},
	} {
		s, err := ParseStages(tc.text)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q: error %v, want %q", tc.text, err, tc.err)
			}
			continue
		}
		if err != nil || string(s) != tc.want {
			t.Errorf("%q is %q, %v; want %q", tc.text, s, err, tc.want)
		}
	}
}

func TestCourse(t *testing.T) {
	l := Load{Stages: "10s:100,30s:500", Warmup: 2 * time.Second, For: 40 * time.Second}
	want := []Stage{{2 * time.Second, 100}, {10 * time.Second, 100}, {30 * time.Second, 500}}
	if !l.Open() || !slices.Equal(l.Course(), want) || l.Arrivals() != 200+1000+15000 || l.Stages.Total() != l.For {
		t.Errorf("%v has the course %v with %g arrivals", l.Stages, l.Course(), l.Arrivals())
	}
	l = Load{Rate: 50, Warmup: 2 * time.Second, For: 8 * time.Second}
	if !l.Open() || !slices.Equal(l.Course(), []Stage{{10 * time.Second, 50}}) || l.Arrivals() != 500 {
		t.Errorf("a constant rate has the course %v with %g arrivals", l.Course(), l.Arrivals())
	}
	if l = (Load{For: time.Second}); l.Open() || l.Course() != nil || l.Arrivals() != 0 {
		t.Errorf("a closed loop has the course %v", l.Course())
	}
}

func TestStageMetrics(t *testing.T) {
	for name, want := range map[string]string{
		StageMetric(2, AcqRate): "higher", StageMetric(12, Unserved): "lower", StageMetric(1, Response+"-p99-ns"): "lower", "stage-x-acq/s": "lower",
	} {
		if got := Better(name); got != want {
			t.Errorf("%s improves %s, want %s", name, got, want)
		}
	}
}

func TestHottestShare(t *testing.T) {
	for _, tc := range []struct {
		l    Load
		want float64
	}{
		{Load{}, 1}, {Load{Keys: 4}, 0.25}, {Load{Keys: 2, Skew: 1}, 2.0 / 3}, {Load{Keys: 8, Owners: 4, OwnKeys: true}, 0.25},
	} {
		if got := tc.l.HottestShare(); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("the hottest key of %+v has %g, want %g", tc.l, got, tc.want)
		}
	}
}
