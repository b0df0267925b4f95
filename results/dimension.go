package results

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Dimension is one thing in which two trials may differ. Runs that differ in one are
// never pooled. [Dimensions] is the only list of them: flags, the settings of a
// scenario, names of trials, grouping, order, pictures and captions all follow from it.
type Dimension struct {
	// Name is that of the flag and of the setting in a scenario.
	Name string
	// Key stands for Name in the name of a trial; "" is Name.
	Key string
	// Kind says how values are read, compared and printed.
	Kind Kind
	// Default is the value of a trial that says nothing about it. The name of a trial and a
	// caption leave it out.
	Default string
	// Always puts the default into names and captions, too.
	Always bool
	// Quiet keeps it out of the names of trials. Such a setting takes one value, since
	// trials of one grid have to have different names.
	Quiet bool
	// Min and Max bound numbers, and durations in seconds. A Max of 0 is no bound.
	Min, Max float64
	// Help describes the flag; the word in back quotes stands for its value. "" is no flag.
	Help string
	// Parts says whether it keeps runs out of one picture.
	Parts Parting
	// Last sorts it behind all others: along it runs a line of a picture.
	Last bool
	// Served is set if it means nothing for a lock in memory.
	Served bool
	// Caption is how a caption tells its value, which it has in the place of {}:
	// "{} keys" ("{} key(s)" if the word has a plural). "" is left out of captions.
	Caption string
	// Otherwise is what a caption says of the default; "" is nothing.
	Otherwise string

	load   func(*Load) any   // a pointer to the field that holds it, or nil
	config string            // the field of the stored configuration, such as "retry.delay_ns", or ""
	of     func(*Run) string // what the record holds elsewhere, or otherwise than load
}

// A Parting says whether a dimension keeps runs out of one picture.
type Parting int

// The ways of parting.
const (
	Together Parting = iota // a picture may show all its values
	Apart                   // each value has pictures of its own
	Crowded                 // likewise, but only where one place would otherwise have two points
)

// A Kind is what the values of a dimension are.
type Kind int

// The kinds of values.
const (
	Text   Kind = iota // ordered by its letters; no flag has it
	Whole              // a whole number
	Real               // a number
	Share              // a part of 1
	Span               // a duration
	Times              // a Dist
	Flag               // yes or no
	Course             // Stages; its commas stand within one value
)

// A Settings is what the flags of a trial say beside its variant.
type Settings struct {
	Load   Load
	Config map[string]any // what differs from the default configuration, by the dotted names of its fields
}

// Set puts the value that text says into s, or returns an error that says what d wants.
// Only dimensions with Help can be set.
func (d Dimension) Set(s *Settings, text string) error {
	v, err := d.parse(text)
	if err != nil {
		return err
	}
	switch {
	case d.load != nil:
		assign(d.load(&s.Load), v)
	case d.config != "":
		if s.Config == nil {
			s.Config = make(map[string]any)
		}
		s.Config[d.config] = v
	}
	return nil
}

// ConfigJSON is the configuration of s in the form in which runs store it.
func (s Settings) ConfigJSON() ([]byte, error) {
	tree := make(map[string]any)
	for name, v := range s.Config {
		into := tree
		path := strings.Split(name, ".")
		for _, part := range path[:len(path)-1] {
			next, ok := into[part].(map[string]any)
			if !ok {
				next = make(map[string]any)
				into[part] = next
			}
			into = next
		}
		into[path[len(path)-1]] = v
	}
	return json.Marshal(tree)
}

// OfLoad reports whether a Load holds d.
func (d Dimension) OfLoad() bool { return d.load != nil }

// OfConfig reports whether the configuration of a lock holds d.
func (d Dimension) OfConfig() bool { return d.config != "" }

// Value is what r was asked for, as Set reads it; "" if r does not tell.
func (d Dimension) Value(r *Run) string {
	switch {
	case d.of != nil:
		return d.of(r)
	case d.load != nil:
		l := r.Load.Filled()
		return text(d.load(&l))
	}
	return d.fromConfig(r.Config)
}

// At is Value, but "" where d means nothing for the lock of r.
func (d Dimension) At(r *Run) string {
	if d.Served && r.Server.Kind == "" {
		return ""
	}
	return d.Value(r)
}

// fromConfig is the value in a stored configuration.
func (d Dimension) fromConfig(raw json.RawMessage) string {
	for part := range strings.SplitSeq(d.config, ".") {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			return ""
		}
		raw = fields[part]
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return ""
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if d.Kind == Span && err == nil {
		return time.Duration(n).String()
	}
	return string(raw)
}

// Named reports whether the name of a trial and a caption tell that d has this value.
func (d Dimension) Named(value string) bool {
	if d.Always {
		return true
	}
	zero := value == "" || value == "0" || value == "0s" || value == "false"
	return !zero && value != d.Default
}

// Part is the part of a trial's name that tells value.
func (d Dimension) Part(value string) string { return cmp.Or(d.Key, d.Name) + "=" + value }

// Compare orders two values: numbers and durations by size, other texts by letters, and
// what is no value of its kind first.
func (d Dimension) Compare(a, b string) int {
	return cmp.Or(cmp.Compare(d.Number(a), d.Number(b)), cmp.Compare(a, b))
}

// Number is the size of a value: of a duration in ns, of a distribution its mean; NaN if
// it has none.
func (d Dimension) Number(value string) float64 {
	v, err := d.read(value)
	if err != nil {
		return math.NaN()
	}
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	case time.Duration:
		return float64(v)
	case Dist:
		return float64(v.Mean)
	}
	return math.NaN()
}

// parse reads a value and checks its bounds.
func (d Dimension) parse(text string) (any, error) {
	v, err := d.read(text)
	if err == nil && !d.within(v) || err != nil && d.Kind != Times && d.Kind != Course {
		return nil, errors.New(d.wants())
	}
	return v, err
}

func (d Dimension) read(text string) (any, error) {
	switch d.Kind {
	case Whole:
		return strconv.Atoi(text)
	case Real, Share:
		return strconv.ParseFloat(text, 64)
	case Span:
		if text == "0" {
			return time.Duration(0), nil
		}
		return time.ParseDuration(text)
	case Times:
		return ParseDist(text)
	case Flag:
		return strconv.ParseBool(text)
	case Course:
		return ParseStages(text)
	}
	return text, nil
}

func (d Dimension) within(v any) bool {
	var x float64
	switch v := v.(type) {
	case int:
		x = float64(v)
	case float64:
		x = v
	case time.Duration:
		x = v.Seconds()
	case Dist:
		x = v.Mean.Seconds()
	default:
		return true
	}
	return x >= d.Min && (d.Max == 0 || x <= d.Max) // and no NaN
}

// wants says what a value of d looks like.
func (d Dimension) wants() string {
	switch d.Kind {
	case Whole:
		if d.Max == 0 {
			return fmt.Sprintf("want a whole number from %g, such as %g", d.Min, max(d.Min, 1000))
		}
		return fmt.Sprintf("want whole numbers from %.0f to %.0f, such as %.0f", d.Min, d.Max, min(max(d.Min, 8), d.Max))
	case Real:
		return "want numbers from 0, such as 0.99 or 500"
	case Share:
		return "want numbers from 0 to 1, such as 0.95"
	case Flag:
		return "want true or false, or both"
	case Span:
		return "want a time with its unit, such as 500ms or 2s" + d.limits()
	}
	return "want a value" + d.limits()
}

// limits says which durations d takes, or "" if all from 0.
func (d Dimension) limits() string {
	seconds := func(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
	switch {
	case d.Min > 0 && d.Max > 0:
		return fmt.Sprintf(", above 0 and at most %v", seconds(d.Max))
	case d.Min > 0:
		return ", above 0"
	case d.Max > 0:
		return fmt.Sprintf(", at most %v", seconds(d.Max))
	}
	return ""
}

// assign puts v into the field that p points to.
func assign(p, v any) {
	switch p := p.(type) {
	case *int:
		*p = v.(int)
	case *int64:
		*p = int64(v.(int))
	case *float64:
		*p = v.(float64)
	case *bool:
		*p = v.(bool)
	case *time.Duration:
		*p = v.(time.Duration)
	case *Dist:
		*p = v.(Dist)
	case *Stages:
		*p = v.(Stages)
	}
}

// text is what the field that p points to holds.
func text(p any) string {
	switch p := p.(type) {
	case *int:
		return strconv.Itoa(*p)
	case *int64:
		return strconv.FormatInt(*p, 10)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *bool:
		return strconv.FormatBool(*p)
	case *time.Duration:
		return p.String()
	case *Dist:
		return p.String()
	case *Stages:
		return string(*p)
	}
	return ""
}

// Check returns an error if a setting of l lies outside the bounds of its dimension.
func (l Load) Check() error {
	r := Run{Load: l}
	for _, d := range Dimensions() {
		if d.load == nil || d.Kind == Course && l.Stages == "" || d.Quiet && d.Min > 0 && d.Number(d.Value(&r)) == 0 { // not given
			continue
		}
		if _, err := d.parse(d.Value(&r)); err != nil {
			return fmt.Errorf("%s=%s: %w", d.Name, d.Value(&r), err)
		}
	}
	return nil
}

// TrialName is the benchstat-ready name of a trial that is given as a run which was
// not measured yet:
//
//	algo=redis-token/client=goredis/owners=32/keys=1/hold=1ms
//
// Values at their default are left out but for a few, so that names stay as they are
// when a dimension is added.
func TrialName(r *Run) string {
	var parts []string
	for _, d := range Dimensions() {
		if v := d.Value(r); !d.Quiet && d.Named(v) && v != "" {
			parts = append(parts, d.Part(v))
		}
	}
	return strings.Join(parts, "/")
}

// DimensionOf returns the dimension with this name, and false if there is none.
func DimensionOf(name string) (Dimension, bool) {
	all := Dimensions()
	i := slices.IndexFunc(all, func(d Dimension) bool { return d.Name == name })
	if i < 0 {
		return Dimension{}, false
	}
	return all[i], true
}
