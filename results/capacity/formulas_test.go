package capacity

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestMG1(t *testing.T) {
	// M/D/1 has half the wait of M/M/1, which is ρ/(1−ρ)·E[S].
	s := 2 * time.Millisecond
	fixed, err := MG1(250, s, s.Seconds()*s.Seconds())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "M/D/1 at ρ = 0.5", fixed.Seconds(), 0.001, 1e-6)
	drawn, err := MG1(250, s, 2*s.Seconds()*s.Seconds())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "M/M/1 at ρ = 0.5", drawn.Seconds(), 0.002, 1e-6)
}

func TestClosedBound(t *testing.T) {
	x, err := ClosedBound(2, 8*time.Millisecond, 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "two owners that mostly think", x, 200, 1e-9)
	x, err = ClosedBound(50, 8*time.Millisecond, 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "fifty owners", x, 500, 1e-9)
	n, err := ClosedKnee(8*time.Millisecond, 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the knee", n, 5, 1e-9)
}

func TestHottestKey(t *testing.T) {
	share, err := TopShare(3, 1)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the share of the first of three keys", share, 6.0/11, 1e-9)
	x, err := HottestKey(share, 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "its bound", x, 500*11/6.0, 1e-9)
}

func TestPolling(t *testing.T) {
	h, err := PollHandoff(10*time.Millisecond, 4, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the hand-off", h.Seconds(), 0.003, 1e-9)
	w, err := PollWaste(10*time.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the waste", w, 400, 1e-9)
}

func TestBill(t *testing.T) {
	b := Bill{PerAcq: 50_000, At: 1000}
	near(t, "a million", b.PerMillion(), 50, 1e-9)
	c, err := b.Cores(2000)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the cores", c, 0.1, 1e-9)
	each, err := PerWaiter(b, Bill{PerAcq: 90_000, At: 1000}, 8)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "a waiter", each, 5e6, 1e-9)
	n, err := Connections(8, 1, 65, true)
	if err != nil || n != 80 {
		t.Errorf("8 processes with 9 owners and an inbox each have %d connections (%v), want 80", n, err)
	}
	if m, err := (Memory{Resident: 10e6, Owners: 64, PerOwner: 20e3}).For(80, 2); err != nil || m != 2*(10e6+16*20e3) {
		t.Errorf("80 owners on two servers take %v bytes (%v)", m, err)
	}
}

// TestOutOfDomain has every formula refuse what it is not made for.
func TestOutOfDomain(t *testing.T) {
	nan := math.NaN()
	for name, err := range map[string]error{
		"full":              second(MG1(500, 2*time.Millisecond, 4e-6)),
		"negative rate":     second(MG1(-1, time.Millisecond, 1e-6)),
		"no rate":           second(MG1(nan, time.Millisecond, 1e-6)),
		"impossible square": second(MG1(1, time.Millisecond, 1e-7)),
		"no owner":          second(ClosedBound(0, 0, time.Second)),
		"no service":        second(ClosedBound(1, 0, 0)),
		"knee of nothing":   second(ClosedKnee(time.Second, 0)),
		"no key":            second(TopShare(0, 1)),
		"no skew":           second(TopShare(1, nan)),
		"no share":          second(HottestKey(0, time.Second)),
		"two shares":        second(HottestKey(2, time.Second)),
		"no waiter":         second(PollHandoff(time.Second, 0, 0)),
		"no delay":          second(PollWaste(0, 1)),
		"far bill":          second(Bill{1, 10}.Cores(21)),
		"no waiting":        second(PerWaiter(Bill{1, 1}, Bill{1, 1}, 0)),
		"far bills":         second(PerWaiter(Bill{1, 1}, Bill{1, 3}, 1)),
		"no process":        second(Connections(0, 1, 1, false)),
		"far memory":        second(Memory{Owners: 3}.For(7, 1)),
		"three points":      second(FitUSL([]Scaling{{1, 1}, {2, 2}, {3, 3}, {3, 3}})),
		"no throughput":     second(FitUSL([]Scaling{{1, nan}, {2, 2}, {3, 3}, {4, 4}})),
	} {
		if !errors.Is(err, ErrRange) {
			t.Errorf("%s: %v, want a refusal that wraps ErrRange", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
