package plots

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/plot/vg"
)

func TestStack(t *testing.T) {
	const height = 10
	for _, tc := range []struct {
		name   string
		want   []vg.Length
		lo, hi vg.Length
		got    []vg.Length
	}{
		{"none", nil, 0, 100, nil},
		{"free places are kept", []vg.Length{20, 50, 80}, 0, 100, []vg.Length{20, 50, 80}},
		{"a pair parts evenly", []vg.Length{50, 50}, 0, 100, []vg.Length{45, 55}},
		{"in the order of the wishes", []vg.Length{51, 50}, 0, 100, []vg.Length{55.5, 45.5}},
		{"pushed in at the bottom", []vg.Length{1, 2}, 0, 100, []vg.Length{5, 15}},
		{"pushed in at the top", []vg.Length{99, 98}, 0, 100, []vg.Length{95, 85}},
		{"too little room is shared", []vg.Length{10, 10, 10, 10}, 0, 20, []vg.Length{2.5, 7.5, 12.5, 17.5}},
	} {
		if got := stack(tc.want, height, tc.lo, tc.hi); !slices.Equal(got, tc.got) {
			t.Errorf("%s: stack(%v) = %v, want %v", tc.name, tc.want, got, tc.got)
		}
	}

	rng := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		want := make([]vg.Length, 1+rng.IntN(30))
		for i := range want {
			want[i] = vg.Length(rng.NormFloat64()*40 + 150)
		}
		got := stack(want, height, 0, 300)
		for i := range got {
			if got[i] < height/2-1e-9 || got[i] > 300-height/2+1e-9 {
				t.Fatalf("stack(%v) = %v: %v leaves the room", want, got, got[i])
			}
			for j := range i {
				if d := got[i] - got[j]; d < height-1e-9 && d > -height+1e-9 {
					t.Fatalf("stack(%v) = %v: %d and %d overlap", want, got, j, i)
				}
				if want[i] < want[j] && got[i] > got[j] || want[i] > want[j] && got[i] < got[j] {
					t.Fatalf("stack(%v) = %v: %d and %d changed places", want, got, j, i)
				}
			}
		}
	}
}

func TestScatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	room := vg.Rectangle{Max: vg.Point{X: 600, Y: 400}}
	for range 50 {
		// A dozen points in a knot and a few apart, as polling locks are.
		var points, sizes []vg.Point
		for i := range 16 {
			p := vg.Point{X: vg.Length(rng.Float64() * 600), Y: vg.Length(rng.Float64() * 400)}
			if i < 12 {
				p = vg.Point{X: vg.Length(200 + rng.NormFloat64()*25), Y: vg.Length(200 + rng.NormFloat64()*20)}
			}
			points = append(points, p)
			sizes = append(sizes, vg.Point{X: vg.Length(50 + rng.IntN(40)), Y: 11})
		}
		boxes := scatter(points, sizes, 5, room, nil)
		for i, a := range boxes {
			if outside(a, room) > 0 {
				t.Fatalf("label %d is at %v, outside %v", i, a, room)
			}
			for j, b := range boxes[:i] {
				if overlap(a, b) {
					t.Fatalf("labels %d and %d overlap: %v %v", j, i, b, a)
				}
			}
			for j, p := range points {
				if overlap(a, vg.Rectangle{Min: p.Sub(vg.Point{X: 4, Y: 4}), Max: p.Add(vg.Point{X: 4, Y: 4})}) {
					t.Fatalf("label %d covers point %d", i, j)
				}
			}
		}
	}
}

func TestLooks(t *testing.T) {
	type sight struct {
		colour any
		shape  string
	}
	of := func(l look) sight {
		shape := ""
		for _, p := range l.marker() {
			shape += nanos(float64(p.X)) + nanos(float64(p.Y))
		}
		return sight{l.colour, shape}
	}
	colours, shapes := make(map[any]string), make(map[string]string)
	for _, sh := range algos() {
		s := of(lookOf(sh, "goredis"))
		if other, ok := colours[s.colour]; ok {
			t.Errorf("%s and %s have one colour", sh, other)
		}
		if other, ok := shapes[s.shape]; ok {
			t.Errorf("%s and %s have one marker", sh, other)
		}
		colours[s.colour], shapes[s.shape] = sh, sh
	}
	for _, algo := range []string{"redis-token", "nobody-knows-this"} {
		a, b, c := lookOf(algo, "goredis"), lookOf(algo, "redigo"), lookOf(algo, "another")
		if of(a) != of(b) || of(a) != of(c) {
			t.Errorf("%s has another colour or marker on another client", algo)
		}
		if slices.Equal(a.dash, b.dash) || a.dotted == b.dotted || len(c.dash) == 0 {
			t.Errorf("%s looks the same on two clients", algo)
		}
		if of(lookOf(algo, "goredis")) != of(a) {
			t.Errorf("the look of %s changes from call to call", algo)
		}
	}
	if of(lookOf("one-unknown", "")) == of(lookOf("another-unknown", "")) {
		t.Error("two unknown algorithms look alike")
	}
}

// algos lists the names of the synthetic variants.
func algos() []string {
	var list []string
	for _, s := range shapes() {
		list = append(list, s.algo)
	}
	return list
}
