package bench

import (
	"slices"
	"strings"

	"github.com/lockbench/lockbench/impls/lock"
)

// A trait is a capability or a hazard as list shows it: by a letter in the table, by its
// name and in plain words elsewhere.
type trait struct{ letter, name, says string }

// capabilities are those of lock.Caps, in their order.
func capabilities() []trait {
	return []trait{
		{"t", "try", "tries once without waiting"},
		{"s", "shared", "lets many readers or one writer in"},
		{"m", "multi", "takes several keys as one"},
		{"r", "reentrant", "lets its owner in again"},
		{"e", "extend", "lets the holder extend its lease"},
		{"f", "fencing", "gives a token that grows with every grant of the key"},
		{"c", "cond", "has conditions to wait for and to signal"},
		{"w", "switch", "switches to another engine"},
		{"q", "fair", "grants in the order of arrival"},
		{"n", "notify", "wakes its waiters, which do not poll"},
		{"k", "renew", "keeps the lease alive while it is held"},
	}
}

// hazards are those of lock.Hazards, in their order.
func hazards() []trait {
	return []trait{
		{"c", "crash", "a holder that dies keeps the key for ever"},
		{"m", "crash-midway", "a holder that dies between two steps of its acquire keeps the key for ever"},
		{"l", "late-release", "a holder whose lease has ended frees the lease of the next owner"},
		{"t", "takeover-race", "two waiters may both take over the key of a dead holder"},
		{"p", "pause", "a holder that stalls past its lease goes on beside the next owner"},
		{"k", "client-clock", "clients whose clocks disagree may let two owners in"},
		{"s", "server-clock", "a forward jump of the server's clock ends leases early"},
		{"f", "failover", "a replica or an engine that takes over may not know of the grant"},
		{"r", "restart", "a server that comes back without its data has forgotten the grant"},
		{"e", "eviction", "a server without memory may remove the key of a holder"},
		{"d", "session-end", "a holder whose session the server ends, or whose connection breaks, goes on beside the next owner"},
		{"!", "no-exclusion", "nobody is kept out at all: it shows that the harness notices"},
	}
}

// exemptions are the cases of the conformance suite that some lock need not pass, in
// plain words. They have no letters.
func exemptions() []trait {
	return []trait{
		{name: "answer-late", says: "it may keep a key whose grant arrives after the caller gave up"},
		{name: "answer-lost", says: "it may keep a key whose grant never arrives"},
		{name: "client-clock", says: "the suite cannot set the clock that it sends to the server"},
		{name: "deadline", says: "it gives up a slow answer before the suite can see until when the lease lasts"},
		{name: "guard", says: "the holder is not told that its lease has ended"},
		{name: "lease-lasts", says: "closing the client frees what it holds, before the lease ends"},
		{name: "lost", says: "the holder is not told that its key is gone"},
		{name: "lost-to-next", says: "the holder is not told that the next owner has its key"},
		{name: "release-after-removal", says: "a release does not report that the key was gone"},
		{name: "release-answer-lost", says: "a release does not report that its answer never arrived"},
		{name: "service-dies", says: "a wait does not end with an error when the server dies"},
	}
}

// letters are those of the traits in list that has names, with a dot for each other one.
func letters(list []trait, has []string) string {
	var b strings.Builder
	for _, t := range list {
		if slices.Contains(has, t.name) {
			b.WriteString(t.letter)
		} else {
			b.WriteString(".")
		}
	}
	return b.String()
}

// legend says what the letters of list mean: "t try, s shared".
func legend(list []trait) string {
	var parts []string
	for _, t := range list {
		parts = append(parts, t.letter+" "+t.name)
	}
	return strings.Join(parts, ", ")
}

// sayings are lines for those of list that have these names, each with its name before
// it. A name that list does not know stands alone.
func sayings(list []trait, names []string) (lines [][2]string) {
	for _, name := range names {
		says := ""
		if i := slices.IndexFunc(list, func(t trait) bool { return t.name == name }); i >= 0 {
			says = list[i].says
		}
		lines = append(lines, [2]string{name, says})
	}
	return lines
}

// freed says when others get the key of a holder that died, or "" if none is kept.
func freed(v lock.Variant) string {
	switch {
	case v.Unsafe.Has(lock.NoExclusion):
		return ""
	case v.Unsafe.Has(lock.Crash):
		return "others never get the key"
	case v.Frees == lock.BySession:
		return "others get the key when its session ends, because the service no longer hears of its client"
	case v.Frees == lock.ByConnection:
		return "others get the key when the server notices that its connection is closed"
	}
	return "others get the key when its lease ends"
}
