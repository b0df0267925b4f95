package results

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// digits is the precision of every histogram, in significant decimal digits:
// a value is known to within 0.1 %. It is part of the schema, because only
// histograms of equal precision merge exactly.
const digits = 3

// ErrOverflow is returned by Histogram.Record for a value outside its range.
var ErrOverflow = errors.New("results: value outside the range of the histogram")

// A Histogram counts int64 values, durations in ns or plain counts, in buckets
// of 3 significant digits, and keeps beside them what buckets round away. It
// never clamps: a load tool that files everything above its range under the
// last bucket reports a bound of its own as the latency of a server.
//
// It is not safe for concurrent use: the harness gives one to each owner and
// merges them at the end. The zero value has room for nothing and is of use
// only to Merge into. A Histogram must not be copied.
type Histogram struct {
	// Exact counts, bounds and sums the values in range. Sum stays at
	// math.MaxInt64 once it has got there (292 years of nanoseconds).
	Exact Exact
	// Overflow is the number of values that Record refused. A run whose
	// histograms refused any is not valid.
	Overflow int64

	max int64
	hdr *hdrhistogram.Histogram // nil in the zero value
}

// NewHistogram returns an empty histogram for the values 0 … max. A max below 2
// is taken as 2, since other HdrHistogram libraries read no narrower one. It
// takes 8 KiB for each doubling of max from 2 000 on: 0.3 MB for an hour
// in ns.
func NewHistogram(max int64) *Histogram {
	if max < 2 {
		max = 2
	}
	return &Histogram{max: max, hdr: hdrhistogram.New(1, max, digits)}
}

// Record counts v. It returns ErrOverflow, and counts an Overflow instead, if v
// is negative or above the histogram's max. It does not allocate.
func (h *Histogram) Record(v int64) error {
	if v < 0 || v > h.max || h.hdr == nil {
		h.Overflow++
		return ErrOverflow
	}
	// The only errors left are of values out of range, which was just ruled out,
	// and of a count beyond 2⁶³.
	if err := h.hdr.RecordValue(v); err != nil {
		h.Overflow++
		return ErrOverflow
	}
	h.Exact.add(Exact{Count: 1, Min: v, Max: v, Sum: v})
	return nil
}

// add pools the values behind f into e.
func (e *Exact) add(f Exact) {
	if f.Count == 0 {
		return
	}
	if e.Count == 0 {
		*e = f
		return
	}
	e.Count += f.Count
	e.Min = min(e.Min, f.Min)
	e.Max = max(e.Max, f.Max)
	if e.Sum > math.MaxInt64-f.Sum {
		e.Sum = math.MaxInt64
	} else {
		e.Sum += f.Sum
	}
}

// Merge adds everything that o counted to h, which grows if o has the wider
// range. The result does not depend on the order of merges. O is unchanged.
func (h *Histogram) Merge(o *Histogram) {
	h.Overflow += o.Overflow
	if o.hdr == nil {
		return
	}
	if h.hdr == nil || o.max > h.max {
		wide := hdrhistogram.New(1, o.max, digits)
		if h.hdr != nil {
			wide.Merge(h.hdr)
		}
		h.max, h.hdr = o.max, wide
	}
	// Nothing can be dropped: the range covers o's, and the precision is equal.
	h.hdr.Merge(o.hdr)
	h.Exact.add(o.Exact)
}

// Reset forgets all values and keeps the range.
func (h *Histogram) Reset() {
	if h.hdr != nil {
		h.hdr.Reset()
	}
	h.Exact, h.Overflow = Exact{}, 0
}

// Quantile returns the p-th percentile (p from 0 to 100): the least value that
// at least p percent of the values do not exceed (nearest rank), to 3 digits
// upwards, but never beyond the exact minimum and maximum. It is 0 if h is empty.
func (h *Histogram) Quantile(p float64) int64 {
	n := h.Exact.Count
	switch {
	case n == 0:
		return 0
	case p <= 0:
		return h.Exact.Min
	case p >= 100:
		return h.Exact.Max
	}
	// The library rounds the rank half up, which for 160 values answers the
	// 158th as p99 although only 98.75 % lie up to there. Asking for a quarter
	// of a rank less than the right one makes it round to that. The tiny
	// factor undoes 99.9/100·1000 > 999.
	rank := math.Ceil(p / 100 * float64(n) * (1 - 1e-15))
	v := h.hdr.ValueAtPercentile((rank - 0.25) / float64(n) * 100)
	return min(max(v, h.Exact.Min), h.Exact.Max)
}

// Mean returns the exact mean, or 0 if h is empty.
func (h *Histogram) Mean() float64 {
	if h.Exact.Count == 0 {
		return 0
	}
	return float64(h.Exact.Sum) / float64(h.Exact.Count)
}

// Bars yields the buckets that hold something, in rising order, as their
// largest value (at most the exact maximum) and their count.
func (h *Histogram) Bars() iter.Seq2[int64, int64] {
	return func(yield func(value, count int64) bool) {
		if h.hdr == nil {
			return
		}
		for _, bar := range h.hdr.Distribution() {
			if bar.Count > 0 && !yield(min(bar.To, h.Exact.Max), bar.Count) {
				return
			}
		}
	}
}

// Encode returns h in HdrHistogram's V2 compressed encoding as base64, and what
// that encoding rounds. Overflow is not in it: a run says it in its Valid.
func (h *Histogram) Encode() (string, Exact, error) {
	hdr := h.hdr
	if hdr == nil {
		hdr = hdrhistogram.New(1, 2, digits)
	}
	b, err := hdr.EncodeV2()
	if err != nil {
		return "", Exact{}, fmt.Errorf("encoding a histogram: %w", err)
	}
	return string(b), h.Exact, nil
}

// DecodeHistogram reads what Encode returned. It refuses an encoding of another
// precision, and exact numbers that cannot belong to it.
func DecodeHistogram(s string, e Exact) (*Histogram, error) {
	if err := precheck(s); err != nil {
		return nil, err
	}
	hdr, err := hdrhistogram.Decode([]byte(s))
	if err != nil {
		return nil, err
	}
	h := &Histogram{Exact: e, max: hdr.HighestTrackableValue(), hdr: hdr}
	if err := h.check(); err != nil {
		return nil, err
	}
	return h, nil
}

// stored is a Histogram as JSON has it.
type stored struct {
	HDR      string `json:"hdr"` // as Encode returns it
	Exact    Exact  `json:"exact"`
	Overflow int64  `json:"overflow"`
}

// MarshalJSON writes all of h, its overflow too.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	text, exact, err := h.Encode()
	if err != nil {
		return nil, err
	}
	return json.Marshal(stored{text, exact, h.Overflow})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	read, err := DecodeHistogram(s.HDR, s.Exact)
	if err != nil {
		return err
	}
	*h = *read
	h.Overflow = s.Overflow
	return nil
}

// precheck looks at the header of an encoded histogram before the library
// allocates the buckets that it asks for: a line of a results file may come
// from anywhere, and five digits up to 2⁶³ are 50 MB.
func precheck(s string) error {
	const outer, inner = 8, 32
	b64 := base64.NewDecoder(base64.StdEncoding, strings.NewReader(s))
	if _, err := io.CopyN(io.Discard, b64, outer); err != nil {
		return fmt.Errorf("no HdrHistogram in base64: %w", err)
	}
	z, err := zlib.NewReader(b64)
	if err != nil {
		return fmt.Errorf("no HdrHistogram in V2 compressed encoding: %w", err)
	}
	var header [inner]byte
	if _, err := io.ReadFull(z, header[:]); err != nil {
		return fmt.Errorf("HdrHistogram cut short: %w", err)
	}
	var f struct {
		Cookie, Payload, Offset, Digits int32
		Low, High                       int64
	}
	if err := binary.Read(bytes.NewReader(header[:]), binary.BigEndian, &f); err != nil {
		return fmt.Errorf("HdrHistogram header: %w", err)
	}
	if f.Digits != digits || f.Low != 1 || f.High < 2 {
		return fmt.Errorf("HdrHistogram of %d digits over %d … %d: want %d digits from 1", f.Digits, f.Low, f.High, digits)
	}
	return nil
}

// check tells whether the exact numbers of h can belong to its buckets.
func (h *Histogram) check() error {
	e, n := h.Exact, h.hdr.TotalCount()
	if e.Count != n {
		return fmt.Errorf("histogram of %d values with an exact count of %d", n, e.Count)
	}
	if n == 0 {
		if e != (Exact{}) {
			return errors.New("empty histogram with exact bounds")
		}
		return nil
	}
	if e.Min < 0 || e.Min > e.Max ||
		!h.hdr.ValuesAreEquivalent(e.Min, h.hdr.Min()) || !h.hdr.ValuesAreEquivalent(e.Max, h.hdr.Max()) {
		return fmt.Errorf("histogram of %d … %d with exact bounds %d … %d", h.hdr.Min(), h.hdr.Max(), e.Min, e.Max)
	}
	const slack = 1e-9 // of the conversion to float64
	sum, count := float64(e.Sum), float64(e.Count)
	if e.Sum != math.MaxInt64 && (sum < count*float64(e.Min)*(1-slack) || sum > count*float64(e.Max)*(1+slack)) {
		return fmt.Errorf("histogram of %d values from %d to %d with an exact sum of %d", e.Count, e.Min, e.Max, e.Sum)
	}
	return nil
}

// Summarise writes the metrics that the histogram called name yields into m:
// name-p50-ns, -p90-ns, -p99-ns, -p99.9-ns and -max-ns; for Bypass, which
// counts, bypass-p50, bypass-p99 and bypass-max. It writes none if h is empty.
func (h *Histogram) Summarise(m Metrics, name string) {
	if h.Exact.Count == 0 {
		return
	}
	for _, p := range percentilesOf(name) {
		m[p.Metric] = float64(h.Quantile(p.Q))
	}
}

// a summary is one metric that a histogram yields.
type summary struct {
	Metric string
	Q      float64 // in percent; 100 is the exact maximum
}

// percentilesOf lists the metrics that the histogram called name yields.
func percentilesOf(name string) []summary {
	if name == Bypass {
		return []summary{{Bypass + "-p50", 50}, {Bypass + "-p99", 99}, {Bypass + "-max", 100}}
	}
	var list []summary
	for _, p := range percentiles() {
		list = append(list, summary{name + "-" + p.Suffix + "-ns", p.Q})
	}
	return append(list, summary{name + "-max-ns", 100})
}

// Put stores h in r under name: its buckets, its exact numbers and the metrics
// that it yields. An empty histogram is left out. R's maps may be nil.
func (r *Run) Put(name string, h *Histogram) error {
	if h.Exact.Count == 0 {
		return nil
	}
	s, e, err := h.Encode()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if r.Hist == nil {
		r.Hist = make(map[string]string)
	}
	if r.Exact == nil {
		r.Exact = make(map[string]Exact)
	}
	if r.Metrics == nil {
		r.Metrics = make(Metrics)
	}
	r.Hist[name], r.Exact[name] = s, e
	h.Summarise(r.Metrics, name)
	return nil
}

// Histogram decodes the histogram that r holds under name, or returns an empty
// one if r has none.
func (r *Run) Histogram(name string) (*Histogram, error) {
	s, ok := r.Hist[name]
	if !ok {
		return new(Histogram), nil
	}
	h, err := DecodeHistogram(s, r.Exact[name])
	if err != nil {
		return nil, fmt.Errorf("histogram %s: %w", name, err)
	}
	return h, nil
}

// Enough tells whether n values suffice to state the p-th percentile (p from 0
// to 100) at 99 % confidence: whether at least one of them lies beyond it with
// that probability, qⁿ ≤ 0.01. That takes 44 values for p90, 459 for p99 and
// 4 603 for p99.9. A percentile of fewer is greyed out. (The zero-failure case
// of the binomial bound by which MLPerf's LoadGen stops early.)
//
// The values must be independent, which waits for one lock are not, so enough
// is a lower bound.
func Enough(p float64, n int64) bool {
	q := max(p, 100-p) / 100
	return q < 1 && math.Pow(q, float64(n)) <= 0.01
}
