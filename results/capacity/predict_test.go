package capacity

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/lockbench/lockbench/results"
)

// always is a distribution of one value.
func always(d time.Duration) samples {
	return samples{values: []int64{int64(d)}, upTo: []int64{1}, mean: float64(d)}
}

// ideal is a lock that takes no time, and whose domain is wide.
func ideal(o Order) *Model {
	return &Model{Order: o, Nodes: 1, Cores: 1, parts: make([]parts, 1), Domain: Domain{Rate: 1e6, Owners: 1e5, Keys: 1e4, Most: time.Hour}}
}

func predict(t *testing.T, m *Model, l results.Load, o Options) Prediction {
	t.Helper()
	p, err := m.Predict(t.Context(), l, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A lock in order with a fixed hold is M/D/1, and with a drawn one M/M/1, of which the mean
// wait and all its percentiles are known.
func TestAgainstQueueingTheory(t *testing.T) {
	const hold = time.Millisecond
	for _, rho := range []float64{0.2, 0.5, 0.8} {
		l := results.Load{Owners: 1000, Rate: rho / hold.Seconds(), For: 400 * time.Second, Warmup: 5 * time.Second}
		l.Hold = results.Dist{Mean: hold}
		p := predict(t, ideal(FIFO), l, Options{Plans: 5, Seed: 1})
		want := pollaczek(rho, float64(hold), 0)
		near(t, "mean wait of M/D/1", p.Mean.Mid, want, 0.05)
		near(t, "utilisation", p.Hottest, rho, 0.02)
		near(t, "rate", p.Rate.Mid, l.Rate, 0.02)

		l.Hold = results.Dist{Kind: "exp", Mean: hold}
		p = predict(t, ideal(FIFO), l, Options{Plans: 5, Seed: 2})
		want = pollaczek(rho, float64(hold), 1)
		near(t, "mean wait of M/M/1", p.Mean.Mid, want, 0.08)
		// P(W > t) = ρ·exp(−(1−ρ)t/E[S])
		near(t, "p99 of M/M/1", p.P99.Mid, math.Log(100*rho)/(1-rho)*float64(hold), 0.08)
	}
}

// pollaczek is the mean wait at a server of M/G/1 by Pollaczek and Khinchine, from its
// utilisation, the mean service and the square of that one's coefficient of variation.
func pollaczek(rho, service, cv2 float64) float64 { return rho * service * (1 + cv2) / 2 / (1 - rho) }

func near(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if !(math.Abs(got-want) <= share*want) { // a NaN is not near
		t.Errorf("%s is %.4g, want %.4g", what, got, want)
	}
}

// Over several keys each is a queue of its own, and a skew makes the first the bottleneck.
func TestKeysAreQueuesOfTheirOwn(t *testing.T) {
	l := results.Load{Owners: 1000, Keys: 8, Rate: 4000, For: 100 * time.Second, Hold: results.Dist{Mean: time.Millisecond}}
	p := predict(t, ideal(FIFO), l, Options{Plans: 3})
	want := pollaczek(0.5, 1e6, 0)
	near(t, "mean wait", p.Mean.Mid, want, 0.05)
	l.Rate, l.Skew = 1000, 1
	p = predict(t, ideal(FIFO), l, Options{Plans: 3})
	near(t, "use of the hottest key", p.Hottest, 1/(1+1./2+1./3+1./4+1./5+1./6+1./7+1./8), 0.03)
}

// In a closed loop a single key gives 1 ÷ (hold + hand-off), whoever waits.
func TestClosedLoop(t *testing.T) {
	m := ideal(FIFO)
	m.parts[0].handoff, m.parts[0].free, m.parts[0].release = always(200*time.Microsecond), always(300*time.Microsecond), always(100*time.Microsecond)
	l := results.Load{Owners: 16, Hold: results.Dist{Mean: time.Millisecond}, For: 20 * time.Second, Warmup: time.Second}
	p := predict(t, m, l, Options{Plans: 2})
	near(t, "rate", p.Rate.Mid, 1/1.2e-3, 0.01)
	near(t, "wait of 16 owners", p.P50.Mid, 16*1.2e6-1.1e6, 0.01)
	l.Owners = 1
	p = predict(t, m, l, Options{Plans: 2})
	near(t, "rate of a single owner", p.Rate.Mid, 1/1.4e-3, 0.01)
}

// Who polls finds a free key late: beside a queue the median of those who wait is longer,
// and the tail much longer.
func TestPollingHasALongerTail(t *testing.T) {
	l := results.Load{Owners: 200, Rate: 500, Hold: results.Dist{Mean: time.Millisecond}, For: 60 * time.Second, Warmup: time.Second}
	in := predict(t, ideal(FIFO), l, Options{Plans: 3})
	m := ideal(Polling)
	m.retry = retry{Delay: 2 * time.Millisecond, Max: 32 * time.Millisecond}
	polls := predict(t, m, l, Options{Plans: 3})
	if polls.P99.Low < 3*in.P99.High {
		t.Errorf("p99 is %.0f by polling and %.0f in order", polls.P99.Low, in.P99.High)
	}
	if polls.Commands < 2.5 {
		t.Errorf("%.2f commands for a grant of a lock that polls", polls.Commands)
	}
}

// Exclusion holds in every order: one key cannot be held for longer than time lasts.
func TestNoOrderGrantsTwice(t *testing.T) {
	for _, o := range []Order{FIFO, Polling, Waking, Quorum} {
		m := ideal(o)
		m.retry = retry{Delay: time.Millisecond, Max: 8 * time.Millisecond}
		m.parts[0].free, m.parts[0].handoff, m.parts[0].release = always(100*time.Microsecond), always(150*time.Microsecond), always(80*time.Microsecond)
		if o == Quorum {
			m.Nodes = 5
		}
		p := predict(t, m, results.Load{Owners: 16, Hold: results.Dist{Mean: time.Millisecond}, For: 10 * time.Second}, Options{Plans: 2})
		if p.Hottest > 1+1e-9 || p.Rate.High > 1000 {
			t.Errorf("%s: the key is held for %.3f of the time, %.0f grants/s", o, p.Hottest, p.Rate.High)
		}
		if p.Rate.Low < 100 {
			t.Errorf("%s: only %.0f grants/s", o, p.Rate.Low)
		}
	}
}

// A server with one core is a queue of its own: at its limit waits grow though no key is hot.
func TestServerIsAQueue(t *testing.T) {
	m := ideal(FIFO)
	m.parts[0].perAcq = 1e6 // 500 µs for each of two commands
	l := results.Load{Owners: 1000, Keys: 1000, Rate: 900, For: 60 * time.Second}
	p := predict(t, m, l, Options{Plans: 3})
	near(t, "use of the server", p.Server, 0.9, 0.03)
	if p.Mean.Low < 1e6 {
		t.Errorf("mean wait %v ns at a server that is busy for 0.9 of the time", p.Mean)
	}
}

func TestSameSeedSameAnswer(t *testing.T) {
	l := results.Load{Owners: 32, Keys: 4, Skew: 1, Rate: 800, Hold: results.Dist{Kind: "exp", Mean: time.Millisecond}, For: 5 * time.Second}
	a, b := predict(t, ideal(Waking), l, Options{Seed: 7}), predict(t, ideal(Waking), l, Options{Seed: 7})
	if a != b {
		t.Errorf("%+v\nand %+v", a, b)
	}
	if c := predict(t, ideal(Waking), l, Options{Seed: 8}); c == a {
		t.Error("another seed gave the same answer")
	}
}

// Given arrivals are used as they are.
func TestGivenArrivals(t *testing.T) {
	l := results.Load{Owners: 4, Rate: 1, For: time.Second}
	ms := time.Millisecond
	p := predict(t, ideal(FIFO), l, Options{Arrivals: []Arrival{{Due: 0, Hold: 10 * ms}, {Due: 4 * ms, Hold: ms}, {Due: 20 * ms, Hold: ms}}})
	if p.Rate.Mid != 3 || p.P99.Mid != 6e6 || p.P50.Mid != 0 {
		t.Errorf("%+v", p)
	}
}

func TestRefusals(t *testing.T) {
	m := ideal(FIFO)
	m.Domain = Domain{Rate: 100, Owners: 8, Keys: 2, Least: time.Millisecond, Most: time.Millisecond}
	good := results.Load{Owners: 8, Rate: 100, Hold: results.Dist{Mean: time.Millisecond}, For: time.Second}
	if _, err := m.Predict(t.Context(), good, Options{Plans: 1}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*results.Load){
		"rate":       func(l *results.Load) { l.Rate = 201 },
		"owners":     func(l *results.Load) { l.Owners = 17 },
		"readers":    func(l *results.Load) { l.Shared = 0.1 },
		"keys":       func(l *results.Load) { l.Keys = 5 },
		"long hold":  func(l *results.Load) { l.Hold.Mean = 3 * time.Millisecond },
		"short hold": func(l *results.Load) { l.Hold.Mean = 400 * time.Microsecond },
	} {
		l := good
		change(&l)
		if _, err := m.Predict(t.Context(), l, Options{Plans: 1}); !errors.Is(err, ErrRange) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*results.Load){
		"bounded waits": func(l *results.Load) { l.Wait = time.Second },
		"tries":         func(l *results.Load) { l.Try = true },
	} {
		l := good
		change(&l)
		if _, err := m.Predict(t.Context(), l, Options{Plans: 1}); !errors.Is(err, ErrNoModel) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Predict(ctx, good, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func BenchmarkPredict(b *testing.B) {
	l := results.Load{Owners: 64, Rate: 500, Hold: results.Dist{Mean: time.Millisecond}, For: 200 * time.Second} // 100 000 acquires
	m := ideal(Polling)
	m.retry = retry{Delay: 2 * time.Millisecond, Max: 32 * time.Millisecond}
	for b.Loop() {
		if _, err := m.Predict(b.Context(), l, Options{Plans: 1}); err != nil {
			b.Fatal(err)
		}
	}
}
