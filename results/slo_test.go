package results

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParseSLO(t *testing.T) {
	for _, tc := range []struct{ text, want, err string }{
		{"response-p99<20ms", "response-p99<20ms", ""},
		{" response-p99-ns < 20ms , acquire-max<1s", "response-p99<20ms,acquire-max<1s", ""},
		{"response-p99.9<1500us", "response-p99.9<1.5ms", ""},
		{"", "", "want bounds such as"},
		{"response-p99", "", "want bounds such as"},
		{"response-p99<", "", "no time above 0"},
		{"response-p99<-1ms", "", "no time above 0"},
		{"response-p99<20", "", "no time above 0"},
		{"response-p98<20ms", "", "no percentile that can be bounded"},
		{"lag-p99<20ms", "", "no percentile that can be bounded"},
		{"acq/s<20ms", "", "no percentile that can be bounded"},
		{"response-p99<20ms,response-p99-ns<30ms", "", "bounded twice"},
	} {
		s, err := ParseSLO(tc.text)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q: error %v, want %q", tc.text, err, tc.err)
			}
			continue
		}
		if err != nil || s.String() != tc.want {
			t.Errorf("%q is %q, %v; want %q", tc.text, s, err, tc.want)
		}
	}
}

func TestSLOSamples(t *testing.T) {
	for text, want := range map[string]int64{"response-p50<1s": 7, "response-p90<1s": 44, "response-p99<1s": 459, "response-p99.9<1s,response-p50<1s": 4603, "response-max<1s": 1} {
		s, err := ParseSLO(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Samples(); n != want {
			t.Errorf("%s takes %d values, want %d", text, n, want)
		}
	}
}

// judged is a run that meets an SLO of a response p99 below 20 ms, before change.
func judged(change func(*Run)) *Run {
	r := &Run{
		Valid: Valid{OK: true}, Load: Load{Rate: 500}, Window: 10 * time.Second,
		Metrics: Metrics{AcqRate: 500, Response + "-p99-ns": 12e6, Unserved: 0, Errors: 0},
		Exact:   map[string]Exact{Response: {Count: 5000}},
		Series:  &Series{Backlog: []int64{3, 0, 7, 1, 2, 0, 4, 9, 1, 2}},
	}
	change(r)
	return r
}

func TestSLOJudge(t *testing.T) {
	slo := SLO{{Response + "-p99-ns", 20 * time.Millisecond}}
	late := func(r *Run) { r.Metrics[Response+"-p99-ns"] = 31e6 }
	for _, tc := range []struct {
		name   string
		change func(*Run)
		want   Answer
		why    string
	}{
		{"all well", func(*Run) {}, Met, ""},
		{"too late", late, Missed, "response-p99 is 31ms"},
		{"just too late", func(r *Run) { r.Metrics[Response+"-p99-ns"] = 20e6 }, Missed, "20ms"},
		{"one unserved", func(r *Run) { r.Metrics[Unserved] = 1 }, Missed, "never served"},
		{"a failure", func(r *Run) { r.Metrics[Errors] = 2; r.Valid = Valid{Reasons: []string{"2 failed"}} }, Missed, "2 operations failed"},
		{"a growing backlog", func(r *Run) { r.Series.Backlog = []int64{0, 90, 180, 270, 360, 450, 540, 630, 720, 810} }, Missed, "backlog grew"},
		{"a backlog that comes and goes", func(r *Run) { r.Series.Backlog = []int64{0, 90, 180, 270, 360, 360, 270, 180, 90, 0} }, Met, ""},
		{"too few values", func(r *Run) { r.Exact = map[string]Exact{Response: {Count: 458}} }, Unknown, "too few values"},
		{"too few values and too late", func(r *Run) { late(r); r.Exact = map[string]Exact{Response: {Count: 458}} }, Missed, "31ms"},
		{"nothing measured", func(r *Run) { delete(r.Metrics, Response+"-p99-ns") }, Unknown, "no response-p99"},
		{"nothing granted", func(r *Run) { r.Metrics[AcqRate] = 0; delete(r.Metrics, Response+"-p99-ns") }, Missed, "nothing was granted"},
		{"late harness", func(r *Run) { late(r); r.Valid = Valid{Reasons: []string{"lag"}, Limit: HarnessLimit} }, Limited, "lag"},
		{"late harness, yet met", func(r *Run) { r.Valid = Valid{Reasons: []string{"lag"}, Limit: HarnessLimit} }, Limited, "lag"},
		{"full machine", func(r *Run) { late(r); r.Valid.Limit = MachineLimit }, Limited, "filled the machine"},
		{"full machine, yet met", func(r *Run) { r.Valid.Limit = MachineLimit }, Met, ""},
		{"disturbed", func(r *Run) { late(r); r.Valid = Valid{Reasons: []string{"others"}, Disturbed: true} }, Limited, "others"},
		{"not steady", func(r *Run) { r.Valid = Valid{Reasons: []string{"not steady"}} }, Limited, "not steady"},
	} {
		j := slo.Judge(judged(tc.change))
		if j.Answer != tc.want || !strings.Contains(j.Why, tc.why) || (j.Why == "") != (tc.want == Met) || j.SLO != "response-p99<20ms" {
			t.Errorf("%s: %+v, want %s because of %q", tc.name, j, tc.want, tc.why)
		}
	}
}

// What is rounded prints with three digits, also in a command to be copied.
func TestRounded(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 310.5: "311", -310.5: "-311", 7.3512: "7.35", 0.70004: "0.7", 0.001234: "0.00123", 999.9: "1000", 123456: "123000",
	} {
		if got := strconv.FormatFloat(Rounded(v), 'f', -1, 64); got != want {
			t.Errorf("%v becomes %s, want %s", v, got, want)
		}
	}
}
