package results

import "time"

// CellSchema is the version of a stored cell of the safety matrix.
const CellSchema = 1

// A Cell is one cell of the safety matrix, played once: one lock under one fault, on a
// real server, and what really happened. It is stored as one line of JSON.
type Cell struct {
	Schema int       `json:"cell_schema"`
	Time   time.Time `json:"time"` // when it began, UTC
	Algo   string    `json:"algo"`
	Client string    `json:"client,omitempty"`
	Fault  string    `json:"fault"`
	Repeat int       `json:"repeat"` // 0, 1, …: which of several plays of one cell
	Commit string    `json:"commit,omitempty"`
	Server Server    `json:"server"`

	// Verdict is what was seen, Expected what the table of expected verdicts says.
	Verdict  Outcome `json:"verdict"`
	Expected Outcome `json:"expected"`
	// Fence is what a resource that checks fencing tokens did about the stale writes.
	Fence Fence `json:"fence,omitempty"`
	// Blocked is how long after the fault nobody got the key, of Blocked; of Stuck how long
	// was waited.
	Blocked time.Duration `json:"blocked_ns,omitempty"`
	// Overlaps are holds of one key that overlapped, Stale the writes of a holder after a
	// later one had been granted the key, and StaleGuarded those of them before which the
	// holder had looked at its Guard.
	Overlaps     int `json:"overlaps,omitempty"`
	Stale        int `json:"stale_writes,omitempty"`
	StaleGuarded int `json:"stale_guarded_writes,omitempty"`
	// Contention is how many other clients asked for the key while the fault was in force.
	Contention int `json:"contention"`

	// Why says why nothing was exercised.
	Why string `json:"why,omitempty"`
	// Evidence is what was done and seen of the fault, in order.
	Evidence []string `json:"evidence,omitempty"`
	// Sentence tells in words what happened.
	Sentence string `json:"sentence,omitempty"`
	// Events is the history on which the verdict rests.
	Events []CellEvent `json:"events,omitempty"`
	// Took is how long the play took.
	Took time.Duration `json:"took_ns"`
}

// A CellEvent is one thing that happened in a cell; the order is that of the list.
type CellEvent struct {
	At      time.Duration `json:"at_ns"`         // since the cell began
	Who     string        `json:"who,omitempty"` // "A", "B", …; "" is the one who struck the fault
	Did     string        `json:"did"`           // see harness.Deed
	Key     int           `json:"key,omitempty"` // −1 is none
	Token   uint64        `json:"token,string,omitempty"`
	Guarded bool          `json:"guarded,omitempty"` // of a write: the holder had looked at its Guard before
	Stale   bool          `json:"stale,omitempty"`   // of a write: another had been granted the key after the writer was
	Refused bool          `json:"refused,omitempty"` // of a write under a token: a fenced resource refused it
	Note    string        `json:"note,omitempty"`
}

// An Outcome is what became of a lock under a fault.
type Outcome string

// The outcomes.
const (
	Held         Outcome = "held"          // nobody else got in while the holder was inside
	Blocked      Outcome = "blocked"       // as Held, and others had to wait until the lock freed the key by itself
	Stuck        Outcome = "stuck"         // as Held, and nobody got the key any more
	Violated     Outcome = "violated"      // two were inside, and the older one wrote
	Careless     Outcome = "careless"      // as Violated, but not where the holder heeds its Guard
	NotExercised Outcome = "not-exercised" // the fault did not strike, or nobody competed: it proves nothing
	NoServer     Outcome = "no-server"     // there was no server to play it on
)

// Letter is what stands for o where there is room for no more: "-" if the fault cannot
// strike, "" if there was no server, and "#" for an outcome of another program.
func (o Outcome) Letter() string {
	switch o {
	case Held:
		return "+"
	case Blocked:
		return "B"
	case Stuck:
		return "X"
	case Violated:
		return "U"
	case Careless:
		return "T"
	case NotExercised:
		return "?"
	case NoServer:
		return ""
	case "":
		return "-"
	}
	return "#"
}

// A Fence is what a resource that remembers the newest fencing token made of stale writes.
type Fence string

// What there is. The zero value is that there was no stale write.
const (
	FenceHeld Fence = "refused" // it refused each
	FenceLost Fence = "lost"    // it took one: the tokens did not grow
	FenceNone Fence = "none"    // the lock has no tokens
)
