package safety

import (
	"cmp"
	"math"
	"slices"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// A session is one hold, from the ticket of its grant to that of its end. An end is taken
// before Release is called, and a grant after Acquire has returned, so the real hold is
// longer: two sessions that overlap have overlapped, and no history is accused wrongly.
type session struct {
	actor, key int
	from, to   int64
	shared     bool
}

// sessions are the holds of a history, by key and grant. A holder that never ends its
// hold has it for ever, one that was killed until its process had ended. A client that is
// granted a key which it holds has two: who re-enters is not granted it again.
func sessions(events []harness.Event) []session {
	type who struct{ actor, key int }
	open := map[who][]int{}
	var list []session
	for _, e := range events {
		w := who{e.Actor, e.Key}
		switch e.Deed {
		case harness.Granted:
			open[w] = append(open[w], len(list))
			list = append(list, session{actor: e.Actor, key: e.Key, from: e.Ticket, to: math.MaxInt64, shared: e.Shared})
		case harness.Left:
			if n := len(open[w]); n > 0 { // that of its last grant
				list[open[w][n-1]].to = e.Ticket
				open[w] = open[w][:n-1]
			}
		case harness.Killed:
			for w, holds := range open {
				if w.actor != e.Actor {
					continue
				}
				for _, i := range holds {
					list[i].to = e.Ticket
				}
				delete(open, w)
			}
		}
	}
	return sortSessions(list)
}

func sortSessions(list []session) []session {
	slices.SortFunc(list, func(a, b session) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.from, b.from)) })
	return list
}

// overlaps counts the sessions that began while an earlier one of the same key had not
// ended, two readers apart: one sweep over the sorted sessions, which is exact.
func overlaps(list []session) (n int) {
	var writers, all int64 // until when the last of them is inside
	for i, s := range list {
		if i == 0 || s.key != list[i-1].key {
			writers, all = math.MinInt64, math.MinInt64
		}
		if s.from < all && !s.shared || s.from < writers {
			n++
		}
		if !s.shared {
			writers = max(writers, s.to)
		}
		all = max(all, s.to)
	}
	return n
}

// A finding is what a history proves.
type finding struct {
	overlaps, stale, guarded int
	fence                    results.Fence
	// accused are the tickets of the grant that let another in, and of the first write
	// after it by the one who was inside; 0 if there was none.
	intruder, write int64
	late            []int64 // the tickets of all stale writes
}

// judge finds what events prove. A write is stale if another actor has been granted its
// key after the writer was. Outdated are actors whose grants reached them only when the
// service had granted the key to another: theirs are the older ones, whatever their tickets.
func judge(events []harness.Event, outdated map[int]bool) (f finding) {
	f.overlaps = overlaps(sessions(events))
	type grant struct {
		actor  int
		ticket int64
	}
	newest := map[int]grant{}
	for _, e := range events {
		switch e.Deed {
		case harness.Granted:
			if !outdated[e.Actor] {
				newest[e.Key] = grant{e.Actor, e.Ticket}
			}
		case harness.Wrote:
			now := newest[e.Key]
			if now.actor == e.Actor || now.ticket == 0 && !outdated[e.Actor] {
				continue
			}
			f.stale++
			f.late = append(f.late, e.Ticket)
			if e.Guarded {
				f.guarded++
			}
			if f.write == 0 {
				f.intruder, f.write = now.ticket, e.Ticket
			}
			switch {
			case !e.Fenced:
				f.fence = results.FenceNone
			case e.Taken:
				f.fence = results.FenceLost
			case f.fence == "":
				f.fence = results.FenceHeld
			}
		}
	}
	return f
}
