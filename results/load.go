package results

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Load is how a lock is used in a trial. It belongs to the record because two
// runs compare only under equal loads.
type Load struct {
	Procs   int     `json:"procs,omitempty"` // processes that share the owners, as asked; 0 is the one that measures. Env.Processes tells how many there were
	Clients int     `json:"clients"`         // Lockers of a process, each with connections of its own; 0 means 1
	Owners  int     `json:"owners"`          // concurrent acquirers, spread evenly over processes and clients; 0 means 1
	Keys    int     `json:"keys"`            // 0 means 1
	Skew    float64 `json:"skew"`            // Zipf exponent over the keys: P(k) ∝ 1/k^Skew; 0 is uniform
	OwnKeys bool    `json:"own_keys"`        // owner i always takes key i mod Keys: no contention if Keys ≥ Owners; not for open loops

	// Shared is the share of readers, 0 … 1. In a closed loop it is one of the
	// owners, each of which reads or writes for the whole run: see
	// [Load.ReadingOwners]. Were roles drawn for each acquire, then sooner or later
	// all owners would be writers that wait, and readers could not be seen to
	// overlap. In an open loop it is one of the arrivals.
	Shared   float64 `json:"shared,omitempty"`
	Depth    int     `json:"depth,omitempty"`    // re-entries inside each hold, by the same owner; they count into the achieved hold
	Try      bool    `json:"try,omitempty"`      // TryAcquire in the place of Acquire; closed loop only
	Together int     `json:"together,omitempty"` // keys that are taken at once as one lock; 0 means 1

	// RTT is what a proxy before each server adds to a round trip, half of it
	// each way; 0 is no proxy, and so are locks that need no server.
	RTT time.Duration `json:"rtt_ns,omitempty"`

	Hold  Dist `json:"hold"`  // time inside the lock, as asked
	Think Dist `json:"think"` // closed loop: time between a release and the next acquire

	Rate float64 `json:"rate"` // arrivals a second (Poisson, open loop); 0 is a closed loop
	// Stages is an open loop whose rate changes, in the place of Rate; For is then their total.
	Stages Stages        `json:"stages,omitempty"`
	Wait   time.Duration `json:"wait_ns"` // bound of one acquire; 0 waits until the run ends

	Warmup time.Duration `json:"warmup_ns"` // least time before measuring
	For    time.Duration `json:"for_ns"`    // measured window
	// Grown is how many times as long as asked the window was made, so that waits fit in
	// it; 0 is as asked.
	Grown int   `json:"grown,omitempty"`
	Ops   int64 `json:"ops"` // if not 0, measure this many attempts, granted or not, and not a time; such a run says nothing about fairness
}

// Dist is a distribution of durations. The zero value is always 0.
type Dist struct {
	Kind  string        // "fixed" or "" , "exp", "lognormal"
	Mean  time.Duration //
	Sigma float64       // lognormal only: the standard deviation of the logarithm
}

// ParseDist reads "1ms", "exp:1ms" or "lognormal:1ms:0.5" (mean, sigma).
func ParseDist(s string) (Dist, error) {
	bad := func() (Dist, error) {
		return Dist{}, fmt.Errorf("%q is no duration distribution: want 1ms, exp:1ms or lognormal:1ms:0.5", s)
	}
	parts := strings.Split(s, ":")
	d := Dist{Kind: "fixed"}
	if len(parts) > 1 {
		d.Kind, parts = parts[0], parts[1:]
	}
	mean, err := time.ParseDuration(parts[0])
	if err != nil && parts[0] != "0" || mean < 0 {
		return bad()
	}
	d.Mean = mean
	switch {
	case (d.Kind == "fixed" || d.Kind == "exp") && len(parts) == 1:
	case d.Kind == "lognormal" && len(parts) == 2:
		d.Sigma, err = strconv.ParseFloat(parts[1], 64)
		if err != nil || !(d.Sigma > 0 && d.Sigma <= 5) {
			return bad()
		}
	default:
		return bad()
	}
	return d, nil
}

// String is the form that ParseDist reads.
func (d Dist) String() string {
	switch d.Kind {
	case "exp":
		return "exp:" + d.Mean.String()
	case "lognormal":
		return "lognormal:" + d.Mean.String() + ":" + strconv.FormatFloat(d.Sigma, 'g', -1, 64)
	}
	return d.Mean.String()
}

// MarshalText encodes d as String.
func (d Dist) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText decodes what MarshalText wrote.
func (d *Dist) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDist(string(b))
	return err
}

// Draw takes one duration from d, at most 100 × its mean, so that one draw
// cannot outlast a run.
func (d Dist) Draw(r *rand.Rand) time.Duration {
	x := float64(d.Mean)
	switch d.Kind {
	case "exp":
		x *= r.ExpFloat64()
	case "lognormal":
		// exp(N(µ, σ)) has mean exp(µ + σ²/2).
		x *= math.Exp(d.Sigma*r.NormFloat64() - d.Sigma*d.Sigma/2)
	}
	return time.Duration(min(x, 100*float64(d.Mean)))
}

// Filled returns l with every default in the place of its zero.
func (l Load) Filled() Load {
	l.Clients = max(l.Clients, 1)
	l.Owners = max(l.Owners, 1)
	l.Keys = max(l.Keys, 1)
	l.Together = max(l.Together, 1)
	return l
}

// AskedFor is the window that was asked for, of which For may be a multiple.
func (l Load) AskedFor() time.Duration { return l.For / time.Duration(max(l.Grown, 1)) }

// ReadingOwners is how many of the owners of a closed loop read: Shared of them
// to the nearest, but at least one that reads, and one that writes, if there are
// two owners or more and Shared is neither 0 nor 1. The first owners write, the
// rest read, so that each kind is spread evenly over clients and own keys.
func (l Load) ReadingOwners() int {
	n := max(l.Owners, 1)
	readers := int(math.Round(l.Shared * float64(n)))
	if n > 1 && l.Shared > 0 && l.Shared < 1 {
		readers = min(max(readers, 1), n-1)
	}
	return readers
}

// Reads reports whether owner, counted from 0, reads in a closed loop.
func (l Load) Reads(owner int) bool { return owner >= max(l.Owners, 1)-l.ReadingOwners() }
