package plots

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// stack moves labels along one axis so that none overlaps: want is where each
// would like its centre, height what each takes, lo and hi the room. The sum of
// squared moves is the least possible (pool adjacent violators), and the order
// is that of want, equal ones in the order given. If the room is too small the
// labels share it evenly, and overlap.
func stack(want []vg.Length, height, lo, hi vg.Length) []vg.Length {
	n := len(want)
	if n == 0 {
		return nil
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(want[a], want[b]) })
	if room := hi - lo; vg.Length(n)*height > room {
		height = room / vg.Length(n)
	}
	// Subtracting i·height from the i-th wish turns "at least height apart" into
	// "not falling", which is isotonic regression; its solution stays optimal
	// when it is clamped.
	type pool struct {
		sum vg.Length
		n   int
	}
	var pools []pool
	for i, k := range order {
		pools = append(pools, pool{want[k] - vg.Length(i)*height, 1})
		for len(pools) > 1 {
			a, b := pools[len(pools)-2], pools[len(pools)-1]
			if a.sum*vg.Length(b.n) <= b.sum*vg.Length(a.n) {
				break
			}
			pools = append(pools[:len(pools)-2], pool{a.sum + b.sum, a.n + b.n})
		}
	}
	first, last := lo+height/2, hi-height/2-vg.Length(n-1)*height
	got := make([]vg.Length, n)
	i := 0
	for _, p := range pools {
		at := max(first, min(p.sum/vg.Length(p.n), max(first, last)))
		for range p.n {
			got[order[i]] = at + vg.Length(i)*height
			i++
		}
	}
	return got
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}

// outside tells how far r sticks out of room, 0 if not at all.
func outside(r, room vg.Rectangle) vg.Length {
	return max(0, room.Min.X-r.Min.X) + max(0, r.Max.X-room.Max.X) + max(0, room.Min.Y-r.Min.Y) + max(0, r.Max.Y-room.Max.Y)
}

// scatter finds a box of the given size near each point, inside room, clear of
// all other boxes and of a square of clear around every point. Points are served
// from the most crowded to the loneliest; each takes the nearest free place on
// circles around it, right side first. If nothing is free, the box with the least
// overlap is taken. Faint obstacles are avoided where it takes no long way.
func scatter(points, sizes []vg.Point, clear vg.Length, room vg.Rectangle, faint []vg.Rectangle) []vg.Rectangle {
	order := make([]int, len(points))
	crowd := make([]int, len(points))
	taken := make([]vg.Rectangle, 0, 2*len(points))
	for i, p := range points {
		order[i] = i
		taken = append(taken, vg.Rectangle{
			Min: vg.Point{X: p.X - clear, Y: p.Y - clear}, Max: vg.Point{X: p.X + clear, Y: p.Y + clear}})
		for _, q := range points {
			if math.Hypot(float64(p.X-q.X), float64(p.Y-q.Y)) < float64(8*clear) {
				crowd[i]++
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(crowd[b], crowd[a]) })
	boxes := make([]vg.Rectangle, len(points))
	for _, i := range order {
		p, size := points[i], sizes[i]
		if size == (vg.Point{}) {
			continue // nothing to place, only to keep clear of
		}
		best, least := vg.Rectangle{}, math.Inf(1)
		for radius := clear + 2; radius < 40*clear && float64(radius) < least; radius += clear / 2 {
			for step := range 24 {
				// 0, 1, -1, 2, -2 … twenty-fourths of a turn away from the right.
				turn := (step + 1) / 2
				if step%2 == 0 {
					turn = -turn
				}
				sin, cos := math.Sincos(2 * math.Pi * float64(turn) / 24)
				// The side of the box that faces the point lies on the circle.
				x := p.X + radius*vg.Length(cos) + size.X/2*vg.Length(cos-1)
				y := p.Y + radius*vg.Length(sin) + size.Y/2*vg.Length(sin-1)
				box := vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + size.X, Y: y + size.Y}}
				// A point is worth 1 pt of distance from the marker.
				cost := float64(radius) + 1000*float64(outside(box, room))
				for _, t := range taken {
					if overlap(box, t) {
						cost += 1e4
					}
				}
				for _, t := range faint {
					if overlap(box, t) {
						cost += 12
					}
				}
				if cost < least {
					best, least = box, cost
				}
			}
		}
		boxes[i] = best
		taken = append(taken, best)
	}
	return boxes
}
