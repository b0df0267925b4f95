package bench

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/search"
	"github.com/lockbench/lockbench/results"
)

// What a search takes where nothing else is said.
const (
	searchWindow = "5s"
	searchOwners = "64"
	mostFloor    = 500.0 // arrivals a second
	leastFloor   = 10.0
	floorShare   = 0.125 // of what the hottest key can bear, were there nothing but holds
)

// objective declares the flags that say what a run has to meet.
func (j *job) objective(fs *flag.FlagSet) {
	fs.Func("slo", "`bounds` that each run of an open loop has to meet, such as response-p99<20ms, several with commas; an arrival that is never served misses it", func(text string) (err error) {
		j.slo, err = results.ParseSLO(text)
		return err
	})
	fs.BoolVar(&j.search, "search", false, "find the highest rate at which each lock meets -slo: double from -rate (default an eighth of what the holds allow, from 10 to 500) until it is missed, bisect to 5 %, and confirm five times between both neighbours. -owners is then 64 and -for 5s unless given")
}

// aim checks what was asked of the objective, and makes the grids of a search.
func (j *job) aim(given map[string]bool) error {
	if j.slo == nil && !j.search {
		return nil
	}
	if j.slo == nil {
		return misuse("-search needs an objective: give one, such as -slo 'response-p99<20ms'")
	}
	for i := range j.grids {
		g := &j.grids[i]
		rates := g.values[rate]
		open := len(g.values[stages]) > 0 || len(rates) > 0
		for _, text := range rates {
			if x, _ := strconv.ParseFloat(text, 64); x == 0 { // its flag has checked it
				open = false
			}
		}
		if !j.search {
			if !open {
				return misuse("-slo judges an open loop: give arrivals, such as -rate 100,200,400, or -search to find their highest rate")
			}
			continue
		}
		switch {
		case j.print:
			return misuse("-search chooses each rate by what the one before has shown, so -print cannot list them: leave one away")
		case len(g.values[stages]) > 0:
			return misuse("-search looks for one rate, and -stages has several: leave one away")
		case len(g.values[ops]) > 0:
			return misuse("-search measures an open loop, which -ops does not bound: give -for")
		case len(rates) > 1:
			return misuse("-search finds the rate: give no -rate, or the one to begin with")
		case len(rates) == 1 && !open:
			return misuse("-search needs an open loop, and -rate 0 is none: give the rate to begin with, or none")
		}
		if len(g.values[owners]) == 0 {
			g.put(owners, searchOwners)
		}
		if len(g.values[window]) == 0 {
			g.put(window, searchWindow)
		}
		g.yardstick = g.yardstick && given["yardstick"] // it is nobody's bound at a rate
	}
	return nil
}

// put gives one dimension of g one value.
func (g *grid) put(name, value string) {
	values := map[string][]string{name: {value}}
	for k, v := range g.values {
		if k != name {
			values[k] = v
		}
	}
	g.values = values
}

// floor is where the search of a load begins that has no rate: well below what the hottest
// key could bear if a hand-over took no time.
func floor(l results.Load) float64 {
	hold := l.Hold.Mean.Seconds()
	if hold == 0 {
		return mostFloor
	}
	return min(max(floorShare/(l.Filled().HottestShare()*hold), leastFloor), mostFloor)
}

// begin is the rate with which the search of t begins, and the lowest one whose arrivals are
// enough in the longest window. An error says what of t cannot be searched.
func (j *job) begin(t harness.Trial) (begin, least float64, err error) {
	longest := t.Load.For * time.Duration(j.grow)
	least = float64(j.samples()) / longest.Seconds()
	asked := t.Load.Rate
	if begin = asked; begin == 0 {
		begin = max(floor(t.Load), least)
	}
	t.Load.Rate = begin
	if err := t.Check(); err != nil {
		return 0, 0, misuse("%s: %w", t.Name(), err)
	}
	if begin < least {
		return 0, 0, misuse("-rate %g is too low: %s takes %d arrivals, and a window is at most %v; give -rate %.0f or more, or a longer -for",
			begin, j.slo, j.samples(), longest, math.Ceil(least))
	}
	return begin, least, nil
}

// samples is how many arrivals a window should have, so that those that there are by chance
// state the percentiles of the SLO: four standard deviations more than that takes.
func (j *job) samples() int64 {
	n := float64(j.slo.Samples())
	return int64(math.Ceil(n + 4*math.Sqrt(n)))
}

// A seeker finds the rate of one trial.
type seeker struct {
	*session
	t     harness.Trial // without a rate
	s     *search.Search
	first int // of its runs among those of the session
	tries []results.SearchTry
}

// seek searches the rate of each trial in the place of measuring it. It returns the runs.
func (j *job) seek(ctx context.Context, std stdio, b *bank, trials []harness.Trial, file *results.Writer) ([]results.Run, error) {
	s := &session{job: j, std: std, bank: b, file: file, p: b.watched(std.err, 0), m: newMeasurer(j.grow)}
	var found []results.Search
	var err error
	for _, t := range trials {
		var one *results.Search
		if one, err = s.seek(ctx, t); one != nil {
			found = append(found, *one)
		}
		if err != nil {
			break
		}
	}
	s.p.clear()
	if j.format != "json" && j.format != "benchfmt" && len(found) > 0 {
		if shown := searchTable(std.out, found); err == nil {
			err = shown
		}
	}
	if err == nil && s.failed > 0 {
		err = fmt.Errorf("%d of %d trials could not be measured, the first: %w", s.failed, s.p.total, s.first)
	}
	return results.Latest(s.done), err
}

// seek searches the rate of t and stores what it found, also if it is ended early. It is
// nil if there was no run.
func (s *session) seek(ctx context.Context, t harness.Trial) (*results.Search, error) {
	k := seeker{session: s, t: t, first: len(s.done)}
	begin, least, err := s.begin(t)
	if err != nil {
		return nil, err
	}
	k.t.Load.Rate = 0
	k.s = search.New(search.Config{
		Floor: begin, Least: least,
		Most: math.Floor(harness.MaxArrivals / (t.Load.Warmup + t.Load.For).Seconds()),
	})
	for rate, ok := k.s.Next(); ok; rate, ok = k.s.Next() {
		if measured, err := k.try(ctx, rate); err != nil || !measured {
			return k.conclude(err)
		}
	}
	return k.conclude(nil)
}

// try measures the trial at a rate, and tells the search. It is false if that failed, which
// the session has taken down.
func (k *seeker) try(ctx context.Context, rate float64) (measured bool, err error) {
	t := k.t
	t.Load.Rate = rate
	// Each run is a block and has arrivals of its own, or five would be no better than one.
	n := len(k.tries)
	t.Block, t.Seed = maxTries*k.t.Block+n, k.t.Seed+uint64(maxTries*k.t.Block+n)
	times := int(math.Ceil(float64(k.samples()) / (rate * t.Load.For.Seconds())))
	k.m.grown[t.Name()] = min(max(times, 1), k.grow) // and not by its waits: above the knee they have no end
	k.p.more(1)
	phase := k.s.Phase()
	var run *results.Run
	for again := range maxGoes {
		if again > 0 {
			k.p.more(1)
		}
		last := len(k.done)
		if err := k.measure(ctx, t, again); err != nil || len(k.done) == last {
			return false, err
		}
		// A harness that is late may have been disturbed; a machine that is full stays so.
		if run = &k.done[last]; run.SLO.Answer != results.Limited || run.Valid.Limit == results.MachineLimit {
			break
		}
	}
	k.tries = append(k.tries, results.SearchTry{Rate: rate, Phase: phase, Answer: run.SLO.Answer, Why: run.SLO.Why, Run: run.ID})
	k.s.Tell(run.SLO.Answer)
	return true, nil
}

// maxTries is more than a search makes; it keeps the blocks of its repetitions apart.
const maxTries = 1000

// conclude makes the record of the search and stores it. Cause is what ended it early.
func (k *seeker) conclude(cause error) (*results.Search, error) {
	runs := results.Latest(k.done[k.first:])
	if len(runs) == 0 {
		return nil, cause
	}
	r := k.s.Result()
	one := runs[len(runs)-1]
	load := k.t.Load.Filled()
	found := results.Search{
		Schema: results.SearchSchema, ID: harness.NewID(), Session: one.Session, Time: time.Now().UTC().Round(time.Microsecond), Trial: k.t.Name(),
		Algo: one.Algo, Client: one.Client, Server: one.Server, Config: one.Config, Load: load, Env: one.Env,
		SLO: k.slo.String(), Tolerance: search.DefaultTolerance, Low: r.Low, High: r.High, End: string(r.End),
		Tries: k.tries, Metrics: results.Metrics{},
	}
	if r.End == "" {
		found.End = "interrupted"
	}
	at := func(rate float64, answered func(results.Answer) bool) (list []*results.Run) {
		for i := range runs {
			if runs[i].Load.Rate == rate && answered(runs[i].SLO.Answer) {
				list = append(list, &runs[i])
			}
		}
		return list
	}
	low := at(r.Low, func(a results.Answer) bool { return a == results.Met })
	high := at(r.High, func(a results.Answer) bool { return a != results.Met })
	if len(high) > 0 {
		found.Why = high[len(high)-1].SLO.Why
	}
	median := func(of func(*results.Run) (float64, bool)) float64 {
		var list []float64
		for _, run := range low {
			if v, ok := of(run); ok {
				list = append(list, v)
			}
		}
		if len(list) == 0 {
			return 0
		}
		return results.PointOf(list).Median
	}
	for _, run := range low {
		for name := range run.Metrics {
			found.Metrics[name] = median(func(r *results.Run) (float64, bool) { v, ok := r.Metrics[name]; return v, ok })
		}
	}
	found.Rho = median((*results.Run).Rho)
	found.ServerCPU = median(func(r *results.Run) (float64, bool) {
		cpu, ok := r.Metrics[results.SrvCPUPerAcq]
		return cpu * r.Metrics[results.AcqRate] / 1e9, ok
	})
	full := slices.ContainsFunc(low, func(run *results.Run) bool { return run.Valid.Limit == results.MachineLimit })
	found.Limit = limitOf(&found, r.Limited, full, high)
	if k.file != nil {
		if err := k.file.WriteSearch(&found); err != nil && cause == nil {
			cause = err
		}
	}
	if k.format == "json" {
		line, err := json.Marshal(found)
		if err == nil {
			_, err = fmt.Fprintf(k.std.out, "%s\n", line)
		}
		if cause == nil {
			cause = err
		}
	}
	return &found, cause
}

// What stands out as the limit of a search.
const (
	busyLock   = 0.6 // ρ of the hottest key: from here on the queue of M/D/1 is as long as one service
	busyServer = 0.8 // CPUs of the servers; Redis has one
)

// limitOf names what limited found, see results.Search.Limit.
func limitOf(found *results.Search, limited, full bool, high []*results.Run) string {
	switch {
	case limited:
		for _, run := range high {
			if run.Valid.Limit == results.MachineLimit {
				return results.MachineLimit
			}
		}
		return results.HarnessLimit
	case found.Rho >= busyLock:
		return "lock"
	case full:
		return results.MachineLimit
	case found.ServerCPU >= busyServer:
		return "server"
	}
	return ""
}
