package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// An operation is one that a worker in another language reports. Times are in ns of
// CLOCK_MONOTONIC; see PROTOCOL.md.
type operation struct {
	Owner   int    `json:"owner"`
	Key     int    `json:"key"`
	Due     int64  `json:"due_ns"`
	Called  int64  `json:"called_ns"`
	Granted int64  `json:"granted_ns"` // when the acquire returned, with or without a grant
	Freed   int64  `json:"freed_ns"`
	Done    int64  `json:"done_ns"` // when the release returned
	Outcome string `json:"outcome"` // one of those below
	Error   string `json:"error"`   // of outcomeError
}

// How an operation came to its end.
const (
	outcomeReleased = "released" // granted, held and given back
	outcomeLost     = "lost"     // granted, and the lease had ended before its release
	outcomeTimeout  = "timeout"  // not granted in the time that the load gives
	outcomeWaiting  = "waiting"  // not granted when the run was over
	outcomeError    = "error"
)

// reportsOperations is what a greeting says of a worker that has no part of its own.
const reportsOperations = "operations"

// foreign is a worker in another language: it reports single operations, and what a
// worker of this program records is recorded here.
type foreign struct {
	*process
	board *board
	spec  Spec
	rec   *recording
	begun map[int]int64 // by owner, when its last round ended
	bad   error         // the first report that makes no sense
}

func (f *foreign) prepare(ctx context.Context, spec Spec) (ready, error) {
	if spec.Load.Ops > 0 || spec.Load.Open() || spec.Load.Shared > 0 {
		return ready{}, errors.New("a worker in another language plays closed loops of exclusive locks that are bounded by time")
	}
	f.spec, f.rec, f.begun = spec, newRecording(spec.Load, spec.owners(), &f.board.window), make(map[int]int64)
	f.rec.slots = f.board.slots
	f.onOp(f.take)
	return f.process.prepare(ctx, spec)
}

// take records what was reported.
func (f *foreign) take(r operation) {
	own := (r.Owner - f.spec.Worker) / f.spec.Workers
	if r.Owner < 0 || r.Owner >= f.spec.Load.Owners || f.spec.owner(own) != r.Owner || r.Key < 0 || r.Key >= f.spec.Load.Keys {
		f.bad = cmp.Or(f.bad, fmt.Errorf("it reported owner %d and key %d, which it was not given", r.Owner, r.Key))
		return
	}
	at := func(ns int64) int64 { return ns - f.spec.Zero }
	o := op{
		own: own, owner: r.Owner, key: r.Key, due: at(r.Due), called: at(r.Called), granted: at(r.Granted),
		freed: at(r.Freed), done: at(r.Done), lost: r.Outcome == outcomeLost,
	}
	switch r.Outcome {
	case outcomeReleased, outcomeLost:
		if r.Called > r.Granted || r.Granted > r.Freed || r.Freed > r.Done {
			f.bad = cmp.Or(f.bad, fmt.Errorf("it reported an operation whose instants are in no order: %+v", r))
			return
		}
		if f.rec.logs(o.granted) {
			f.board.grant(&o, f.board.tickets.Add(1), 0).complete(&o, f.board.tickets.Add(1))
		}
		if began, ok := f.begun[r.Owner]; ok {
			o.cycle = o.done - began
		} else {
			o.cycle = o.done - o.called
		}
		f.begun[r.Owner] = o.done
		f.rec.granted(o)
	case outcomeTimeout:
		f.rec.empty(own, r.Owner, o.due, o.called, o.granted, timedOut, nil)
	case outcomeWaiting:
		f.rec.empty(own, r.Owner, o.due, o.called, o.granted, abandoned, nil)
	case outcomeError:
		f.rec.empty(own, r.Owner, o.due, o.called, o.granted, broken, errors.New(r.Error))
	default:
		f.bad = cmp.Or(f.bad, fmt.Errorf("it reported the outcome %q, which there is not", r.Outcome))
	}
}

// cost has the grants of those operations that were reported.
func (f *foreign) cost(ctx context.Context) (Counts, error) {
	c, err := f.process.cost(ctx)
	_, c.Grants = f.rec.total()
	return c, err
}

func (f *foreign) part(ctx context.Context) (Part, error) {
	if _, err := f.ask(ctx, request{Do: doPart}, partPatience); err != nil {
		return Part{}, err
	}
	return f.rec.part(), f.bad
}

// sweep finds the overlaps of holds in a log, where no witness was asked at the time:
// grants of a key at which an earlier one of it had not been freed yet. See is called for
// each, until it has been for all.
func sweep(log []entry, see func(holder, intruder *entry)) {
	var order []*entry
	for i := range log {
		if e := &log[i]; e.ended() {
			order = append(order, e)
		}
	}
	slices.SortFunc(order, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.granted, b.granted)) })
	var last *entry // of those of the key so far, the one that is freed last
	for _, e := range order {
		if last != nil && last.key == e.key && e.granted < last.freed {
			see(last, e)
		}
		if last == nil || last.key != e.key || e.freed > last.freed {
			last = e
		}
	}
}

// swept enters the overlaps of its log into b.
func (b *board) swept() {
	sweep(b.entries(), func(holder, intruder *entry) {
		b.violations.Add(1)
		if i := b.described.Add(1) - 1; i < maxSeen {
			b.seen[i] = overlap{int64(intruder.key), int64(holder.owner), int64(intruder.owner), holder.granted, intruder.granted}
		}
	})
}

// A Trace is one operation that was granted, as -trace stores it. Times are in ns since
// the measured window began.
type Trace struct {
	Run     string `json:"run"` // as results.Run.ID
	Due     int64  `json:"due_ns"`
	Called  int64  `json:"called_ns"`
	Granted int64  `json:"granted_ns"`
	Freed   int64  `json:"freed_ns"`
	Key     int32  `json:"key"`
	Owner   int32  `json:"owner"`
	Token   uint64 `json:"token,omitempty"` // of a variant that fences
}
