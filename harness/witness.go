package harness

import "sync/atomic"

// A witness watches from outside the lock who is inside. Each key has a word in
// the memory that all processes of the run share, which a holder claims after its Acquire has returned and clears before
// it calls Release; whoever finds the word claimed has overlapped with another
// holder. It can miss an overlap shorter than its own few instructions, and it
// never reports one that did not happen.
//
// Beside the word stands a fenced resource: it remembers the newest fencing
// token that has written to it and refuses older ones.
type witness struct {
	board *board
	procs int // owner i belongs to the process i mod procs
}

// maxSeen bounds the violations that are described; all are counted.
const maxSeen = 100

// word is one key, alone on its cache line so that keys do not slow each other.
type word struct {
	holder atomic.Int64  // owner + 1 of the writer, −n for n readers, 0 if nobody is inside
	reader atomic.Int64  // owner + 1 of the reader that entered last
	since  atomic.Int64  // when holder entered
	token  atomic.Uint64 // newest fencing token seen
	stock  atomic.Int64  // units of the good that the key protects, in a sale
	freed  atomic.Int64  // when Release was called last, 0 once the next has been granted the key
	_      [16]byte
}

// enter claims key for owner and reports whether it was free.
func (w *witness) enter(key, owner int, now int64) bool {
	at := &w.board.words[key]
	for {
		holder := at.holder.Load()
		if holder != 0 && !w.gone(holder) {
			w.overlap(at, key, owner, now)
			return false
		}
		if at.holder.CompareAndSwap(holder, int64(owner)+1) {
			at.since.Store(now)
			return true
		}
	}
}

// gone reports whether holder, a word's, is an owner whose process was killed as
// planned: its hold has ended, also while the process is not reaped yet.
func (w *witness) gone(holder int64) bool {
	return holder > 0 && w.board.dead[int(holder-1)%w.procs].Load() != 0
}

// enterShared lets owner in beside other readers of key and reports whether no
// writer was inside.
func (w *witness) enterShared(key, owner int, now int64) bool {
	at := &w.board.words[key]
	for {
		n := at.holder.Load()
		if n > 0 {
			w.overlap(at, key, owner, now)
			return false
		}
		if at.holder.CompareAndSwap(n, n-1) {
			at.reader.Store(int64(owner) + 1)
			at.since.Store(now)
			return true
		}
	}
}

// leaveShared ends what a successful enterShared began.
func (w *witness) leaveShared(key int) { w.board.words[key].holder.Add(1) }

// overlap records that owner was let in beside whoever holds at.
func (w *witness) overlap(at *word, key, owner int, now int64) {
	w.board.violations.Add(1)
	holder, since := at.holder.Load(), at.since.Load()
	if holder < 0 {
		holder = at.reader.Load()
	}
	if i := w.board.described.Add(1) - 1; i < maxSeen {
		w.board.seen[i] = overlap{int64(key), holder - 1, int64(owner), since, now}
	}
}

// leave clears what a successful enter claimed.
func (w *witness) leave(key, owner int) {
	w.board.words[key].holder.CompareAndSwap(int64(owner)+1, 0)
}

// write offers a write under token to the fenced resource of key and reports
// whether it was accepted. A token that was seen before belongs to the same
// grant.
func (w *witness) write(key int, token uint64) bool {
	at := &w.board.words[key]
	for {
		newest := at.token.Load()
		if token < newest {
			w.board.stale.Add(1)
			return false
		}
		if token == newest || at.token.CompareAndSwap(newest, token) {
			return true
		}
	}
}
