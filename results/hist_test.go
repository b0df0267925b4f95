package results

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// fill returns a histogram of values, all of which must be in range.
func fill(t testing.TB, limit int64, values ...int64) *Histogram {
	t.Helper()
	h := NewHistogram(limit)
	for _, v := range values {
		if err := h.Record(v); err != nil {
			t.Fatalf("Record(%d): %v", v, err)
		}
	}
	return h
}

// waits draws n durations that look like waits: mostly short, with a long tail.
func waits(r *rand.Rand, n int, limit int64) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = min(int64(20_000*math.Exp(3*r.NormFloat64())), limit)
	}
	return list
}

func TestHistogramIsExactBesideItsBuckets(t *testing.T) {
	h := fill(t, int64(time.Minute), 1_234_567, 0, 59_999_999_999, 7)
	want := Exact{Count: 4, Min: 0, Max: 59_999_999_999, Sum: 60_001_234_573}
	if h.Exact != want {
		t.Errorf("Exact = %+v, want %+v", h.Exact, want)
	}
	if got := h.Quantile(100); got != want.Max {
		t.Errorf("p100 = %d, want the exact maximum %d", got, want.Max)
	}
	if got := h.Quantile(99.9); got != want.Max {
		t.Errorf("p99.9 = %d, beyond or below the maximum %d", got, want.Max)
	}
	if got := h.Quantile(0); got != 0 {
		t.Errorf("p0 = %d, want 0", got)
	}
	if got, want := h.Mean(), 60_001_234_573.0/4; got != want {
		t.Errorf("Mean = %v, want %v", got, want)
	}
	h.Reset()
	if h.Exact != (Exact{}) || h.Quantile(50) != 0 || h.Mean() != 0 {
		t.Errorf("after Reset: %+v, p50 %d", h.Exact, h.Quantile(50))
	}
	if err := h.Record(int64(time.Minute)); err != nil {
		t.Errorf("after Reset the range is gone: %v", err)
	}
}

func TestHistogramNeverClamps(t *testing.T) {
	const limit = 1_000_000
	h := fill(t, limit, limit)
	for _, v := range []int64{limit + 1, math.MaxInt64, -1, math.MinInt64} {
		if err := h.Record(v); !errors.Is(err, ErrOverflow) {
			t.Errorf("Record(%d) = %v, want ErrOverflow", v, err)
		}
	}
	if h.Overflow != 4 {
		t.Errorf("Overflow = %d, want 4", h.Overflow)
	}
	if want := (Exact{1, limit, limit, limit}); h.Exact != want {
		t.Errorf("refused values changed Exact: %+v, want %+v", h.Exact, want)
	}
	var zero Histogram
	if err := zero.Record(0); !errors.Is(err, ErrOverflow) || zero.Overflow != 1 {
		t.Errorf("zero Histogram: Record(0) = %v, Overflow %d; want ErrOverflow and 1", err, zero.Overflow)
	}
	zero.Merge(h)
	if zero.Overflow != 5 || zero.Exact.Count != 1 {
		t.Errorf("merged into the zero Histogram: %d refused of %d, want 5 and 1", zero.Overflow, zero.Exact.Count)
	}
}

func TestSumSaturates(t *testing.T) {
	h := fill(t, math.MaxInt64, math.MaxInt64, math.MaxInt64-1, 5)
	if h.Exact.Sum != math.MaxInt64 || h.Exact.Count != 3 {
		t.Errorf("Exact = %+v, want a sum of %d", h.Exact, int64(math.MaxInt64))
	}
	s, e, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeHistogram(s, e); err != nil {
		t.Errorf("a saturated sum does not read back: %v", err)
	}
}

// TestQuantileIsTheNearestRank compares with the sorted values themselves.
func TestQuantileIsTheNearestRank(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 7, 10, 99, 100, 101, 140, 160, 459, 999, 1000, 1001, 4604, 20000} {
		values := waits(r, n, int64(time.Hour))
		h := fill(t, int64(time.Hour), values...)
		slices.Sort(values)
		for _, mille := range []int{1, 125, 500, 900, 990, 999} {
			p := float64(mille) / 10
			want := values[(mille*n+999)/1000-1]
			got := h.Quantile(p)
			if got < want || float64(got) > float64(want)*1.001 {
				t.Errorf("n=%d: p%v = %d, want %d to 3 digits upwards", n, p, got, want)
			}
			if want < 2000 && got != want {
				t.Errorf("n=%d: p%v = %d, want exactly %d", n, p, got, want)
			}
		}
	}
}

func TestZeroSurvives(t *testing.T) {
	h := fill(t, 100, 0, 0, 0, 1)
	s, e, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeHistogram(s, e)
	if err != nil {
		t.Fatal(err)
	}
	var sum Histogram
	sum.Merge(back)
	sum.Merge(h)
	for name, h := range map[string]*Histogram{"decoded": back, "merged": &sum} {
		if got := h.Quantile(75); got != 0 {
			t.Errorf("%s: p75 of 0 0 0 1 = %d", name, got)
		}
		if got := h.Quantile(76); got != 1 {
			t.Errorf("%s: p76 of 0 0 0 1 = %d", name, got)
		}
		var values []int64
		for v, n := range h.Bars() {
			values = append(values, v, n/(h.Exact.Count/4))
		}
		if !slices.Equal(values, []int64{0, 3, 1, 1}) {
			t.Errorf("%s: Bars = %v, want 0×3 1×1", name, values)
		}
	}
}

func TestHistogramReadsBack(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const limit = int64(13 * time.Second)
	for name, values := range map[string][]int64{
		"empty":       nil,
		"only zero":   {0},
		"one":         {123_456_789},
		"edges":       {0, 1, limit},
		"many values": waits(r, 50_000, limit),
	} {
		t.Run(name, func(t *testing.T) {
			h := fill(t, limit, values...)
			s, e, err := h.Encode()
			if err != nil {
				t.Fatal(err)
			}
			back, err := DecodeHistogram(s, e)
			if err != nil {
				t.Fatal(err)
			}
			if back.Exact != h.Exact || back.max != h.max || !back.hdr.Equals(h.hdr) {
				t.Errorf("%+v came back as %+v", h.Exact, back.Exact)
			}
			if err := back.Record(limit); err != nil {
				t.Errorf("the range did not come back: %v", err)
			}
			if err := back.Record(limit + 1); err == nil {
				t.Errorf("the range came back wider")
			}
		})
	}
}

func TestDecodeHistogramRefuses(t *testing.T) {
	s, e, err := fill(t, 1e9, 5, 17, 1_000_000).Encode()
	if err != nil {
		t.Fatal(err)
	}
	odd := func(low, high int64, digits int) string {
		b, err := hdrhistogram.New(low, high, digits).EncodeV2()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	with := func(change func(*Exact)) Exact {
		e := e
		change(&e)
		return e
	}
	for name, c := range map[string]struct {
		s    string
		e    Exact
		want string
	}{
		"nothing":        {"", e, "no HdrHistogram"},
		"no base64":      {"???", e, "no HdrHistogram"},
		"other base64":   {"aGVsbG8gd29ybGQsIGhlbGxvIHdvcmxk", e, "no HdrHistogram"},
		"cut":            {s[:len(s)/2], e, "HdrHistogram"},
		"cut at the end": {s[:len(s)-4], e, "contents"},
		"five digits":    {odd(1, math.MaxInt64, 5), e, "5 digits"},
		"from 1000":      {odd(1000, 1e9, 3), e, "from 1"},
		"count":          {s, with(func(e *Exact) { e.Count++ }), "exact count of 4"},
		"minimum":        {s, with(func(e *Exact) { e.Min = 4 }), "exact bounds"},
		"negative":       {s, with(func(e *Exact) { e.Min = -5 }), "exact bounds"},
		"maximum":        {s, with(func(e *Exact) { e.Max *= 2 }), "exact bounds"},
		"sum too small":  {s, with(func(e *Exact) { e.Sum = 14 }), "exact sum"},
		"sum too great":  {s, with(func(e *Exact) { e.Sum = 3_000_001 }), "exact sum"},
		"empty, bounded": {odd(1, 100, 3), Exact{Max: 3}, "exact bounds"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeHistogram(c.s, c.e)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, c.want)
			}
		})
	}
}

// TestMergeOfHistogramsHasNoOrder is the property on which pooling rests: any
// order and any grouping of merges equals one histogram of all values, whether
// or not the parts were stored in between.
func TestMergeOfHistogramsHasNoOrder(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		limits := []int64{int64(time.Second), int64(time.Minute), 1 << 40}
		single := NewHistogram(limits[2])
		var parts []*Histogram
		for i := range 1 + r.IntN(9) {
			limit := limits[(int(seed)+i)%len(limits)]
			values := waits(r, r.IntN(3000), limit)
			part := fill(t, limit, values...)
			for _, v := range values {
				if err := single.Record(v); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(2) == 0 {
				s, e, err := part.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if part, err = DecodeHistogram(s, e); err != nil {
					t.Fatal(err)
				}
			}
			parts = append(parts, part)
		}
		parts = append(parts, NewHistogram(limits[2])) // so that the widest range is there
		r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		var left, right Histogram
		cut := r.IntN(len(parts) + 1)
		for _, p := range parts[:cut] {
			left.Merge(p)
		}
		for _, p := range parts[cut:] {
			right.Merge(p)
		}
		left.Merge(&right)
		if left.Exact != single.Exact || !left.hdr.Equals(single.hdr) {
			t.Errorf("seed %d: merged %+v, want %+v", seed, left.Exact, single.Exact)
		}
	}
}

func TestSummarise(t *testing.T) {
	h := fill(t, 1e9, 10, 20, 30, 40)
	m := make(Metrics)
	h.Summarise(m, Acquire)
	h.Summarise(m, Bypass)
	new(Histogram).Summarise(m, Release)
	want := Metrics{
		"acquire-p50-ns": 20, "acquire-p90-ns": 40, "acquire-p99-ns": 40, "acquire-p99.9-ns": 40, "acquire-max-ns": 40,
		"bypass-p50": 20, "bypass-p99": 40, "bypass-max": 40,
	}
	if fmt.Sprint(m) != fmt.Sprint(want) {
		t.Errorf("metrics\n%v, want\n%v", m, want)
	}
}

func TestEnough(t *testing.T) {
	// ⌈ln 0.01 ÷ ln q⌉, worked out by hand.
	for p, least := range map[float64]int64{50: 7, 90: 44, 95: 90, 99: 459, 99.9: 4603, 99.99: 46_050, 1: 459} {
		if Enough(p, least-1) {
			t.Errorf("Enough(%v, %d), want %d values to be needed", p, least-1, least)
		}
		if !Enough(p, least) {
			t.Errorf("not Enough(%v, %d)", p, least)
		}
	}
	if Enough(100, math.MaxInt64) || Enough(0, math.MaxInt64) {
		t.Error("no number of values states the 100th percentile")
	}
	if Enough(99, 0) || Enough(99, -1) {
		t.Error("no values state no percentile")
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	h := NewHistogram(int64(time.Hour))
	v := int64(1)
	if n := testing.AllocsPerRun(1000, func() {
		v = v * 5 % int64(time.Hour)
		if err := h.Record(v); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Record allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		if h.Record(math.MaxInt64) == nil {
			t.Fatal("no overflow")
		}
	}); n != 0 {
		t.Errorf("an overflowing Record allocates %v times", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	h := NewHistogram(int64(time.Hour))
	b.ReportAllocs()
	v := int64(1)
	for b.Loop() {
		v = v * 5 % int64(time.Hour)
		if err := h.Record(v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeHistogram(b *testing.B) {
	h := fill(b, int64(time.Minute), waits(rand.New(rand.NewPCG(6, 7)), 20_000, int64(time.Minute))...)
	s, e, err := h.Encode()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeHistogram(s, e); err != nil {
			b.Fatal(err)
		}
	}
}
