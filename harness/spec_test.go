package harness

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness/locktest"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/goredis"
	"github.com/lockbench/lockbench/results"
)

// fillIn sets every field under v that JSON holds to something of its own.
func fillIn(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if d, ok := v.Addr().Interface().(*results.Dist); ok {
			*d = results.Dist{Kind: "lognormal", Mean: time.Duration(*n), Sigma: 0.5}
			return
		}
		if h, ok := v.Addr().Interface().(*results.Histogram); ok {
			made := results.NewHistogram(1000)
			for i := range *n {
				_ = made.Record(i)
			}
			_ = made.Record(2000) // one beyond its range
			*h = *made            // nobody else has it
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fillIn(v.Field(i), n)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillIn(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillIn(v.Index(0), n)
		fillIn(v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		one := reflect.New(v.Type().Elem()).Elem()
		fillIn(one, n)
		v.SetMapIndex(reflect.ValueOf("acquire"), one)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	case reflect.Uint16:
		v.SetUint(uint64(*n))
	default:
		v.SetInt(*n)
	}
}

// text is v as JSON.
func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What a conductor and a worker tell each other arrives whole.
func TestRoundTrip(t *testing.T) {
	for _, sent := range []any{new(Spec), new(Part), new(Counts), new(request), new(answer)} {
		n := int64(0)
		fillIn(reflect.ValueOf(sent).Elem(), &n)
		got := reflect.New(reflect.TypeOf(sent).Elem()).Interface()
		if err := json.Unmarshal([]byte(text(t, sent)), got); err != nil {
			t.Errorf("%T: %v", sent, err)
		} else if a, b := text(t, sent), text(t, got); a != b {
			t.Errorf("%T: sent\n%s\ngot\n%s", sent, a, b)
		}
		if s, ok := got.(*Spec); ok && !reflect.DeepEqual(s, sent) {
			t.Errorf("sent\n%+v\ngot\n%+v", sent, s)
		}
	}
}

// The password of a server goes to the worker, and nowhere else.
func TestSpecHasThePassword(t *testing.T) {
	d := lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{"redis://:CANARY@127.0.0.1:1"}}
	c := newConductor(Trial{}, d, "run", 1)
	if got := c.spec.deployment(); !reflect.DeepEqual(got, d) {
		t.Errorf("%v is not what was given", got)
	}
}

// Nothing that a worker saw is lost when the parts are merged: each field of two equal
// parts adds up, or is that of both.
func TestMergeLosesNothing(t *testing.T) {
	var p, q Part
	n := int64(0)
	fillIn(reflect.ValueOf(&p).Elem(), &n)
	n = 0
	fillIn(reflect.ValueOf(&q).Elem(), &n)
	all := merge(results.Load{Owners: 4}, []Part{p, q})
	for i := range reflect.TypeFor[Part]().NumField() {
		f := reflect.TypeFor[Part]().Field(i)
		one, both := reflect.ValueOf(p).Field(i), reflect.ValueOf(all).Field(i)
		switch f.Name {
		case "LongestWrite", "LongestWait", "LongestOpen", "FirstError":
			if !reflect.DeepEqual(one.Interface(), both.Interface()) {
				t.Errorf("%s: %v, want %v", f.Name, both, one)
			}
		case "Hist":
			h, g := p.Hist["acquire"], all.Hist["acquire"]
			if g.Exact.Count != 2*h.Exact.Count || g.Exact.Sum != 2*h.Exact.Sum || g.Overflow != 2 {
				t.Errorf("histogram %+v, overflow %d, want twice %+v", g.Exact, g.Overflow, h.Exact)
			}
		case "Owners":
			if o := all.Owners; !slices.Equal(o, []int64{p.Owners[0], q.Owners[0], p.Owners[1], q.Owners[1]}) {
				t.Errorf("owners %v", o)
			}
		case "Acquire":
			if a := all.Acquire; len(a) != 4 || a[0] != p.Acquire[0] || a[1] != q.Acquire[0] || a[2] != p.Acquire[1] {
				t.Errorf("acquire of each owner: %v", a)
			}
		case "Windows":
			if w := all.Windows; w[0] != 2*p.Windows[0] || w[1] != 2*p.Windows[1] {
				t.Errorf("windows %v", w)
			}
		case "Sale": // which is merged by itself, as a sale is no run
		default:
			if both.Int() != 2*one.Int() || one.Int() == 0 {
				t.Errorf("%s: %v, want twice %v", f.Name, both, one)
			}
		}
	}
}

// Every owner is that of one worker.
func TestOwnersAreDealtOut(t *testing.T) {
	for _, c := range []struct{ owners, workers int }{{1, 1}, {32, 8}, {10, 3}, {5, 5}} {
		seen := make([]int, c.owners)
		for w := range c.workers {
			s := Spec{Load: results.Load{Owners: c.owners}, Worker: w, Workers: c.workers}
			for i := range s.owners() {
				seen[s.owner(i)]++
			}
		}
		if slices.ContainsFunc(seen, func(n int) bool { return n != 1 }) {
			t.Errorf("%+v: %v", c, seen)
		}
	}
}

// The log tells the same overlaps as the witness.
func TestSweep(t *testing.T) {
	b := testBoard(t, results.Load{Keys: 2, Ops: 10}.Filled())
	for i, o := range []op{
		{granted: 10, freed: 20},
		{granted: 20, freed: 40},         // at the moment of the release
		{granted: 35, freed: 38, key: 1}, // another key
		{granted: 39, freed: 41},         // inside the second
		{granted: 40, freed: 50},         // inside the fourth
		{granted: 60, freed: 70},
	} {
		o.owner = i
		b.grant(&o, int64(i), 0).complete(&o, int64(i)+100)
	}
	b.swept()
	if b.violations.Load() != 2 || b.seen[0] != (overlap{0, 1, 3, 20, 39}) || b.seen[1] != (overlap{0, 3, 4, 39, 40}) {
		t.Errorf("%d violations, %+v", b.violations.Load(), b.seen[:3])
	}
}

// A log that is full says since when it tells nothing.
func TestLogOverflowIsCounted(t *testing.T) {
	b := testBoard(t, results.Load{Ops: 2}.Filled())
	for i := range 5 {
		o := op{granted: int64(10 + i), freed: 100}
		b.grant(&o, 0, 0).complete(&o, 1)
	}
	if len(b.entries()) != 2 || b.logged.Load() != 5 || b.cut.Load() != 12 {
		t.Errorf("%d entries of %d, cut at %d", len(b.entries()), b.logged.Load(), b.cut.Load())
	}
}

// crewed is a rig with a crew, on a redis of whatever source.
func crewed(t *testing.T) *Rig {
	t.Helper()
	if !processes {
		t.Skip("NOT RUN: owners live in processes of their own on Linux only")
	}
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(t.Context(), lock.Needs{Kind: "redis"}, o)
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{Server: s, Crew: new(Crew)}
	t.Cleanup(func() {
		if err := r.Crew.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func onRedis(t *testing.T, algo string) lock.Variant {
	t.Helper()
	all := redis.Variants("goredis", goredis.Dial)
	i := slices.IndexFunc(all, func(v lock.Variant) bool { return v.Algo == algo })
	if i < 0 {
		t.Fatalf("there is no %s", algo)
	}
	return all[i]
}

// A worker that is killed as planned does not end the run: the others go on, and what it
// held ends with the ticket that was taken before.
func TestPlannedKill(t *testing.T) {
	r := crewed(t)
	l := results.Load{Procs: 3, Owners: 6, Hold: results.Dist{Mean: 5 * time.Millisecond}, For: 3 * time.Second}
	trial := Trial{Variant: onRedis(t, "redis-handoff"), Load: l, Config: lock.Config{TTL: 500 * time.Millisecond}}
	var killed error
	var cut, after int64
	run, err := r.run(t.Context(), trial, tweaks{begun: func(c *conductor) {
		// While an owner of the second worker holds: its word says so.
		for c.board.words[0].holder.Load()%3 != 2 {
			time.Sleep(50 * time.Microsecond)
		}
		killed = c.kill(1)
		cut, after = c.board.dead[1].Load(), c.board.tickets.Load()
	}})
	if err != nil || killed != nil {
		t.Fatal(err, killed)
	}
	if n := run.Metrics[results.Violations]; n != 0 {
		locktest.Violation(t, "%v owners inside beside one that was killed: %+v", n, run.Violations)
	}
	if cut == 0 || after < cut {
		t.Errorf("the ticket of the kill is %d, and then %d", cut, after)
	}
	for i, n := range run.Series.OwnerGrants {
		if dead := i%3 == 1; !dead && n == 0 || dead && n > run.Series.OwnerGrants[(i+1)%6] {
			t.Errorf("grants of the owners, of whom 1 and 4 were killed: %v", run.Series.OwnerGrants)
			break
		}
	}
	trial.Load.For = 300 * time.Millisecond
	again, err := r.Run(t.Context(), trial)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range again.Series.OwnerGrants {
		if n == 0 {
			t.Errorf("in the next run owner %d got nothing", i)
		}
	}
}

// What a killed worker had open ends with its ticket; its words are free.
func TestBury(t *testing.T) {
	b := testBoard(t, results.Load{Keys: 2, Ops: 10}.Filled())
	w := &witness{board: b, procs: 2}
	mine, theirs := op{owner: 1, key: 0, granted: 10}, op{owner: 2, key: 1, granted: 11}
	w.enter(0, 1, 10)
	w.enter(1, 2, 11)
	open, other := b.grant(&mine, b.tickets.Add(1), 0), b.grant(&theirs, b.tickets.Add(1), 0)
	b.kill(1)
	if !w.enter(0, 4, 20) {
		t.Error("who was granted the key before the dead worker was reaped counts as a violation")
	}
	w.leave(0, 4)
	b.bury(1, 2, 30)
	if open.state.Load() != entryKilled || open.freed != 30 || open.to != 3 {
		t.Errorf("the open hold ended as %+v", open)
	}
	if other.state.Load() != entryOpen || b.words[1].holder.Load() != 3 || b.violations.Load() != 0 {
		t.Errorf("who lives lost its hold: %+v", other)
	}
}
