package lock

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
)

// A Variant is one lock algorithm on one client library, as data: what it is,
// what it can do, what it needs, what breaks it, and how to open it.
type Variant struct {
	// Algo is the name of the algorithm, such as "redis-token". It never ends
	// in a dash and digits, which benchstat would read as GOMAXPROCS.
	Algo string
	// Client names the client library, such as "goredis"; it is "" where there
	// is only one.
	Client string
	// Doc describes the variant; its first sentence is the synopsis.
	Doc string
	// Source says where the algorithm comes from.
	Source string
	Caps   Caps
	Needs  Needs
	Unsafe Hazards
	// Frees says when others get the key of a holder that died, unless Unsafe has
	// Crash: then nobody ever does.
	Frees Frees
	// Engines are the names of those between which a Switcher switches, in the order
	// in which it falls back.
	Engines []string
	// Over lists the topologies that the variant runs on besides Single.
	Over []Topology
	// Exempt names the cases of the conformance suite that the variant cannot
	// pass, beyond those that its hazards explain. Only the locks of other people
	// may have any; the source says why, for each.
	Exempt []string
	// Keys lists every name that the variant may leave in the store for key,
	// so that a run can remove what it made by name. Nil means just key.
	Keys func(key string) []string
	// Grants lists the rules by which the store lets a user use all keys that begin with
	// prefix and what the variant keeps for them, in the store's own words, such as
	// "~app:*" of a Redis ACL for the prefix "app:". Nil says that none are known.
	Grants func(prefix string) []string
	// State lists every name that the variant may leave in the store for all keys of
	// a Config.Group together. Nil means none.
	State func(group string) []string
	// Open connects to d. It returns an error that names what could not be
	// reached, never one that repeats a password. A TTL beyond what the engine can
	// hold is refused with an error that wraps ErrRange and says how much that is.
	Open func(ctx context.Context, d Deployment, c Config) (Locker, error)
}

// Frees is the event that frees the key of a holder that died.
type Frees string

// The events. The zero value is the end of the lease.
const (
	ByLease      Frees = ""           // its lease ends, which nobody renews
	BySession    Frees = "session"    // the service has not heard of its client for the time-out of a session
	ByConnection Frees = "connection" // the server notices that its connection is closed
)

// Name is algo/client, or algo alone where there is only one client.
func (v Variant) Name() string {
	if v.Client == "" {
		return v.Algo
	}
	return v.Algo + "/" + v.Client
}

// Synopsis is the first sentence of Doc.
func (v Variant) Synopsis() string {
	if i := strings.Index(v.Doc, ". "); i >= 0 {
		return v.Doc[:i+1]
	}
	return v.Doc
}

// Names lists what v may leave in the store for key; see Variant.Keys.
func (v Variant) Names(key string) []string {
	if v.Keys == nil {
		return []string{key}
	}
	return v.Keys(key)
}

// Needs says which servers a variant runs on. The zero value needs none.
type Needs struct {
	Kind       string `json:"kind,omitempty"`        // "redis"; "" runs in memory
	Nodes      int    `json:"nodes,omitempty"`       // independent servers, 0 means 1
	MinVersion string `json:"min_version,omitempty"` // lowest server version, "" any
	Feature    string `json:"feature,omitempty"`     // a command or module the server must have
}

// String is "redis", "5 × redis ≥ 7.0 with DELEX", or "nothing".
func (n Needs) String() string {
	if n.Kind == "" {
		return "nothing"
	}
	var b strings.Builder
	if n.Nodes > 1 {
		b.WriteString(strconv.Itoa(n.Nodes) + " × ")
	}
	b.WriteString(n.Kind)
	if n.MinVersion != "" {
		b.WriteString(" ≥ " + n.MinVersion)
	}
	if n.Feature != "" {
		b.WriteString(" with " + n.Feature)
	}
	return b.String()
}

// Caps is the set of things that a variant can do beyond Acquire and Release.
// The zero value is the empty set. It is stored as a list of names.
type Caps uint32

// The first group is backed by an interface of the same purpose, and a
// conformance case compares the two; the second describes behaviour.
const (
	Try       Caps = 1 << iota // Tryer
	Shared                     // Sharer
	Multi                      // MultiLocker
	Reentrant                  // Owned
	Extend                     // Extender
	Fencing                    // Fenced
	Cond                       // Conder
	Switch                     // Switcher

	Fair   // grants in the order of arrival
	Notify // waiters are woken, they do not poll
	Renew  // leases are kept alive while held
)

// Hazards is the set of faults that are known to let two owners in, or nobody
// in ever again. The zero value claims to survive everything. It is stored as
// a list of names.
type Hazards uint32

// The faults of the safety matrix, by what they do to a variant that declares
// them.
const (
	Crash        Hazards = 1 << iota // a holder that dies keeps the key for ever
	CrashMidway                      // as Crash, if it dies between two steps of its Acquire
	LateRelease                      // a holder whose lease has ended frees the next owner's
	TakeoverRace                     // two waiters both take over one dead lock
	Pause                            // a holder that stalls past its lease goes on beside the next
	ClientClock                      // clients whose clocks disagree let two in
	ServerClock                      // a forward jump of the server's clock ends leases early
	Failover                         // a replica is promoted, or another engine takes over, that does not know of the grant
	Restart                          // the server comes back without its data
	Eviction                         // a server without memory removes keys: the holder's, or the counter of its tokens
	SessionEnd                       // the server ends the holder's session, or its connection breaks, and the holder goes on beside the next
	NoExclusion                      // nothing is excluded at all: the negative control
)

type flag struct {
	bit  uint32
	name string
}

func capNames() []flag {
	return []flag{
		{uint32(Try), "try"}, {uint32(Shared), "shared"}, {uint32(Multi), "multi"},
		{uint32(Reentrant), "reentrant"}, {uint32(Extend), "extend"}, {uint32(Fencing), "fencing"},
		{uint32(Cond), "cond"}, {uint32(Switch), "switch"}, {uint32(Fair), "fair"},
		{uint32(Notify), "notify"}, {uint32(Renew), "renew"},
	}
}

func hazardNames() []flag {
	return []flag{
		{uint32(Crash), "crash"}, {uint32(CrashMidway), "crash-midway"},
		{uint32(LateRelease), "late-release"}, {uint32(TakeoverRace), "takeover-race"},
		{uint32(Pause), "pause"}, {uint32(ClientClock), "client-clock"},
		{uint32(ServerClock), "server-clock"}, {uint32(Failover), "failover"},
		{uint32(Restart), "restart"}, {uint32(Eviction), "eviction"},
		{uint32(SessionEnd), "session-end"}, {uint32(NoExclusion), "no-exclusion"},
	}
}

func names(set uint32, table []flag) []string {
	list := []string{}
	for _, f := range table {
		if set&f.bit != 0 {
			list = append(list, f.name)
		}
	}
	return list
}

// Has reports whether all of want are in c.
func (c Caps) Has(want Caps) bool { return c&want == want }

// List names the capabilities in the order of their declaration.
func (c Caps) List() []string { return names(uint32(c), capNames()) }

func (c Caps) String() string { return strings.Join(c.List(), " ") }

// MarshalJSON writes the list of names.
func (c Caps) MarshalJSON() ([]byte, error) { return json.Marshal(c.List()) }

// Has reports whether all of want are in h.
func (h Hazards) Has(want Hazards) bool { return h&want == want }

// List names the hazards in the order of their declaration.
func (h Hazards) List() []string { return names(uint32(h), hazardNames()) }

func (h Hazards) String() string { return strings.Join(h.List(), " ") }

// MarshalJSON writes the list of names.
func (h Hazards) MarshalJSON() ([]byte, error) { return json.Marshal(h.List()) }
