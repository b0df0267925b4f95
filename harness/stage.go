package harness

import (
	"os"
	"sync/atomic"
	"time"
	"unsafe"
)

// A stage is the memory that the processes of a [Cast] share: one counter that orders all
// that they do, without any clock, the log of it, and the resources that their locks
// protect. It is mapped, so that what a process wrote there outlives its SIGKILL.
type stage struct {
	logged    atomic.Int64 // entries asked for; the place of one is its ticket
	_         [56]byte
	resources [maxKeys]resource
	log       [maxEvents]happening
}

// The bounds of one scene.
const (
	maxKeys   = 16
	maxEvents = 4096
)

// A resource is what a key protects. It takes every write, and says of each whether a
// resource that remembers the newest fencing token would have taken it.
type resource struct {
	newest atomic.Uint64 // token
	by     atomic.Int64  // actor + 1 that wrote under it
	_      [48]byte
}

// take reports whether the fenced resource takes a write of actor under token. One
// token in two hands is as stale as an old one.
func (r *resource) take(actor int, token uint64) bool {
	newest := r.newest.Load()
	if token < newest || token == newest && r.by.Load() != int64(actor)+1 {
		return false
	}
	r.newest.Store(token)
	r.by.Store(int64(actor) + 1)
	return true
}

// happening is an Event as it stands on the stage.
type happening struct {
	written atomic.Bool
	kind    Deed
	actor   int16
	key     int16
	at      int64
	token   uint64
	flags   uint64
}

const (
	flagFenced = 1 << iota
	flagTaken
	flagGuarded
	flagShared
)

// stageSize is how many bytes a stage takes.
const stageSize = int64(unsafe.Sizeof(stage{}))

// add adds e and returns its ticket. What does not fit is counted, and lost: see
// Cast.Events.
func (s *stage) add(e Event) int64 {
	i := s.logged.Add(1) - 1
	if i >= maxEvents {
		return i
	}
	h := &s.log[i]
	h.kind, h.actor, h.key, h.at, h.token = e.Deed, int16(e.Actor), int16(e.Key), int64(e.At), e.Token
	if e.Fenced {
		h.flags |= flagFenced
	}
	if e.Taken {
		h.flags |= flagTaken
	}
	if e.Guarded {
		h.flags |= flagGuarded
	}
	if e.Shared {
		h.flags |= flagShared
	}
	h.written.Store(true)
	return i
}

// events are those that were written so far, and how many places were taken and not
// filled.
func (s *stage) events() (list []Event, gaps int) {
	for i := range min(s.logged.Load(), maxEvents) {
		h := &s.log[i]
		if !h.written.Load() {
			gaps++
			continue
		}
		list = append(list, Event{
			Ticket: i, At: time.Duration(h.at), Actor: int(h.actor), Key: int(h.key), Deed: h.kind, Token: h.token,
			Fenced: h.flags&flagFenced != 0, Taken: h.flags&flagTaken != 0, Guarded: h.flags&flagGuarded != 0,
			Shared: h.flags&flagShared != 0,
		})
	}
	return list, gaps
}

// clear makes memory an empty stage.
func clearStage(memory *os.File) error {
	if err := memory.Truncate(0); err != nil {
		return err
	}
	return memory.Truncate(stageSize)
}

// A Deed is what an [Event] tells of.
type Deed uint16

// The deeds. Those of an actor are written by its own process.
const (
	Called    Deed = iota + 1 // an acquire was called
	Granted                   // it returned with the key: the actor is inside
	Refused                   // it returned without the key: another holds it, or the wait was over
	Doubted                   // it returned without knowing whether the service granted the key
	Failed                    // it returned with another error
	Wrote                     // the holder wrote to what the key protects
	Warned                    // the holder's Guard ended: who heeds it is outside from here on
	Left                      // the holder is done, and calls Release
	Released                  // Release freed the key
	Lost                      // Release, or Extend, said that the lease had ended
	Unfreed                   // Release failed otherwise
	Extended                  // the lease was extended
	Asked                     // the wall clock of the client was asked for, by the lock
	Killed                    // by the driver: the process was killed and has ended
	Stopped                   // by the driver: all its threads have stopped
	Continued                 // by the driver: it goes on
	Noted                     // by the driver: a fault, or what was seen of one
)

// String is the name of d in stored results.
func (d Deed) String() string {
	names := [...]string{
		Called: "called", Granted: "granted", Refused: "refused", Doubted: "doubted", Failed: "failed", Wrote: "wrote", Warned: "warned",
		Left: "left", Released: "released", Lost: "lost", Unfreed: "unfreed", Extended: "extended", Asked: "asked", Killed: "killed",
		Stopped: "stopped", Continued: "continued", Noted: "noted",
	}
	if int(d) < len(names) {
		return names[d]
	}
	return "unknown"
}

// An Event is one thing that happened in a scene. Events are ordered by their tickets,
// which come from one counter that all processes share. A grant takes its ticket after
// Acquire has returned, and the end of a hold before Release is called, so that holds
// which overlap by their tickets have overlapped.
type Event struct {
	Ticket int64
	At     time.Duration // since the scene began, by CLOCK_MONOTONIC; the order is that of the tickets
	Actor  int           // from 0; −1 is the driver
	Key    int           // from 0; −1 is none
	Deed   Deed
	Token  uint64 // of a grant or a write under a fencing token

	Shared  bool // the grant is a reader's, who may be inside with others
	Fenced  bool // the grant has a token
	Taken   bool // of a write: a fenced resource would take it
	Guarded bool // of a write: the holder had looked at its Guard before, which had not ended

	Note string // of Noted, and the error of what failed
}
