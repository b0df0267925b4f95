package harness

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/lockbench/lockbench/results"
)

// A board is the memory that all processes of a run share: the window, the counters
// from which owners draw, the witness's words and the log of grants. It is mapped, so
// that what a process wrote there outlives its SIGKILL. All of it is zero at first.
type board struct {
	*header
	slots  []slot  // what owners have seen, see slotsOf
	waits  []since // of each owner
	words  []word  // of the keys
	log    []entry // see header.logged
	memory []byte
	close  func() error
}

// header is the part of a board that has one size. What is written often has a cache
// line of its own.
type header struct {
	window window
	_      [48]byte

	arrivals atomic.Int64 // of the plan of an open loop, that owners have taken
	_        [56]byte
	left     atomic.Int64 // operations that a run bounded by Ops may still measure
	_        [56]byte
	tickets  atomic.Int64 // one for each grant and each release: their order
	_        [56]byte
	logged   atomic.Int64 // grants for which an entry was asked; more than there are entries is an overflow
	cut      atomic.Int64 // the instant of the first grant without an entry, 0 if there is none
	_        [48]byte

	violations, stale atomic.Int64
	described         atomic.Int64 // of violations, that asked for a place in seen
	_                 [40]byte
	seen              [maxSeen]overlap
	// dead is, for each worker, the ticket at which its holds ended because it was
	// killed as planned; 0 while it lives.
	dead [results.MaxProcs]atomic.Int64
}

// overlap is a violation as the witness writes it down. Times are readings of the
// clock, owners are counted from 0.
type overlap struct {
	key, holder, intruder, since, at int64
}

// entry is one grant. Who holds writes it at the grant, and completes it at the
// release. Times are readings of the run's clock.
type entry struct {
	state       atomic.Int64 // 0 until the grant is written
	due, called int64
	granted     int64
	freed, done int64 // when Release was called, and when it returned
	token       uint64
	from, to    int64 // tickets of the grant and of the release
	key, owner  int32
	shared      bool
	_           [7]byte
}

// The states of an entry that is written. One whose holder was killed has ended, too, but
// not by a release.
const (
	entryOpen   = 1
	entryClosed = 2
	entryKilled = 3
)

// ended reports whether e is a hold that has ended.
func (e *entry) ended() bool { return e.state.Load() >= entryClosed }

// maxGrants bounds the log of a run. Its memory is taken page by page as it is
// written.
const maxGrants = 1 << 20

// logSize is how many grants the log of a run under l has room for.
func logSize(l results.Load) int {
	if l.Ops > 0 && l.Ops < maxGrants {
		return int(l.Ops)
	}
	return maxGrants
}

// boardSize is how many bytes the board of a run under l takes.
func boardSize(l results.Load) int {
	return int(unsafe.Sizeof(header{})) + slotsOf(l)*slotSize + l.Owners*sinceSize + l.Keys*int(unsafe.Sizeof(word{})) + logSize(l)*int(unsafe.Sizeof(entry{}))
}

// on lays the board of a run under l over memory, which is as long as boardSize says
// and begins at a multiple of 8.
func on(memory []byte, l results.Load) (*board, error) {
	if want := boardSize(l); len(memory) != want {
		return nil, fmt.Errorf("the shared memory of the run has %d bytes, and %d were expected", len(memory), want)
	}
	b := &board{memory: memory, header: (*header)(unsafe.Pointer(&memory[0]))}
	at := int(unsafe.Sizeof(header{}))
	b.slots = unsafe.Slice((*slot)(unsafe.Pointer(&memory[at])), slotsOf(l))
	at += slotsOf(l) * slotSize
	b.waits = unsafe.Slice((*since)(unsafe.Pointer(&memory[at])), l.Owners)
	at += l.Owners * sinceSize
	b.words = unsafe.Slice((*word)(unsafe.Pointer(&memory[at])), l.Keys)
	at += l.Keys * int(unsafe.Sizeof(word{}))
	b.log = unsafe.Slice((*entry)(unsafe.Pointer(&memory[at])), logSize(l))
	return b, nil
}

// grant begins an entry for o, which was just granted under ticket. It is nil if the
// log is full.
func (b *board) grant(o *op, ticket int64, token uint64) *entry {
	i := b.logged.Add(1) - 1
	if i >= int64(len(b.log)) {
		b.cut.CompareAndSwap(0, o.granted)
		return nil
	}
	e := &b.log[i]
	e.due, e.called, e.granted, e.from, e.token = o.due, o.called, o.granted, ticket, token
	e.key, e.owner, e.shared = int32(o.key), int32(o.owner), o.shared
	e.state.Store(entryOpen)
	return e
}

// complete ends the entry of o, whose release took ticket. E may be nil.
func (e *entry) complete(o *op, ticket int64) {
	if e == nil {
		return
	}
	e.freed, e.done, e.to = o.freed, o.done, ticket
	e.state.Store(entryClosed)
}

// withdraw takes e, which may be nil, out of the log: its operation does not count.
func (e *entry) withdraw() {
	if e != nil {
		e.state.Store(0)
	}
}

// entries are those that have been written. Nobody may be writing.
func (b *board) entries() []entry {
	return b.log[:min(b.logged.Load(), int64(len(b.log)))]
}

// kill notes that worker, of procs, is about to be killed as planned at now: its
// holds end here.
func (b *board) kill(worker int) { b.dead[worker].Store(b.tickets.Add(1)) }

// bury ends what the killed worker, of procs, had open: its words at the witness, and
// its entries in the log, which end with its ticket and at now. The worker is gone.
func (b *board) bury(worker, procs int, now int64) {
	for i := range b.words {
		w := &b.words[i]
		if holder := w.holder.Load(); holder > 0 && int(holder-1)%procs == worker {
			w.holder.CompareAndSwap(holder, 0)
		}
	}
	for i := range b.entries() {
		e := &b.log[i]
		if e.state.Load() == entryOpen && int(e.owner)%procs == worker {
			e.freed, e.done, e.to = max(now, e.granted), max(now, e.granted), b.dead[worker].Load()
			e.state.Store(entryKilled)
		}
	}
}

// inherit is the part of a worker that was killed, as far as the log has it: its grants.
// Of its waits that had not ended, and of what it did beside, nobody knows.
func (b *board) inherit(spec Spec) Part {
	rec := newRecording(spec.Load, spec.owners(), &b.window)
	for i := range b.entries() {
		e := &b.log[i]
		if int(e.owner)%spec.Workers != spec.Worker || !e.ended() {
			continue
		}
		rec.inherited(op{
			own: int(e.owner) / spec.Workers, owner: int(e.owner), key: int(e.key), due: e.due, called: e.called, granted: e.granted,
			freed: e.freed, done: e.done, shared: e.shared,
		}, e.state.Load() == entryClosed)
	}
	return rec.part()
}
