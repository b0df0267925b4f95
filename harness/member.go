package harness

import (
	"context"
	"runtime/metrics"

	"github.com/lockbench/lockbench/impls/lock"
)

// A member is a worker as the conductor sees it, wherever it runs. Its methods are
// called in the order in which they stand here; cost any number of times.
type member interface {
	// prepare connects the clients of spec, and has everything ready for start.
	prepare(ctx context.Context, spec Spec) (ready, error)
	// start lets the owners loose, see worker.start.
	start(ctx context.Context, zero int64) error
	// cost is what was spent so far.
	cost(ctx context.Context) (Counts, error)
	// quit lets the owners finish what they have begun; cut ends their waits as well.
	quit() error
	cut() error
	// over is closed when all owners have come to their end.
	over() <-chan struct{}
	// part is what was seen. All owners have come to their end.
	part(ctx context.Context) (Part, error)
	// fate is closed when the member has died, and why tells of what.
	fate() <-chan struct{}
	why() error
	// leave ends what is left of the run, also after an error. Spoilt tells that
	// something still goes on in it.
	leave(spoilt bool)
}

// inside is the worker of a run that lives in this process.
type inside struct {
	*worker
	variant lock.Variant
	board   *board
	clock   clock
	config  lock.Config // of the trial: what of it no JSON holds
	timers  timersOf
}

func (m *inside) prepare(ctx context.Context, spec Spec) (ready, error) {
	m.worker = newWorker(spec, m.variant, m.board, m.clock)
	m.worker.config.Hook, m.worker.config.Now = m.config.Hook, m.config.Now
	m.worker.timers = m.timers
	return m.open(ctx)
}

func (m *inside) start(ctx context.Context, zero int64) error {
	m.worker.start(ctx, zero)
	return nil
}

func (m *inside) cost(context.Context) (Counts, error) { return m.spent(), nil }

func (m *inside) quit() error {
	m.worker.quit()
	return nil
}

func (m *inside) cut() error {
	m.worker.cut()
	return nil
}

func (m *inside) over() <-chan struct{} { return m.worker.over }

func (m *inside) part(context.Context) (Part, error) { return m.worker.part() }

func (m *inside) fate() <-chan struct{} { return nil }

func (m *inside) why() error { return nil }

// leave lets owners that still go on keep their timers.
func (m *inside) leave(bool) {
	if m.worker == nil {
		return
	}
	m.closeLockers()
	if m.endWaits != nil {
		m.endWaits()
		select {
		case <-m.worker.over:
		default:
			return
		}
	}
	_ = m.shut() // what failed matters to nobody any more
}

// spent is what w has spent since it began.
func (w *worker) spent() Counts {
	var c Counts
	c.CPU = processCPU()
	objects := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(objects)
	c.Allocs = float64(objects[0].Value.Uint64())
	c.Cmds, c.Attempts, c.Wakeups = w.count.Read()
	c.Pooled, c.PoolWait = w.count.PoolWait()
	_, c.Grants = w.rec.total()
	c.Runnable = readRunnable()
	return c
}
