package safety

import (
	"fmt"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/results"
)

// sentence tells in words what the events of a cell prove.
func sentence(c results.Cell, events []harness.Event, f finding) string {
	switch c.Verdict {
	case results.Violated, results.Careless:
		return accuse(c, events, f)
	case results.Blocked:
		return fmt.Sprintf("Nobody was let in beside the holder, and others had to wait: they got in %v after the fault.", short(c.Blocked))
	case results.Stuck:
		return fmt.Sprintf("Nobody was let in beside the holder, and nobody got the key any more: a client waited %v for it.", short(c.Blocked))
	case results.Held:
		return "Nobody was let in beside the holder."
	case results.NotExercised:
		return "It proves nothing: " + c.Why + "."
	}
	return ""
}

// instant is when something happened, since the scene began: near enough to tell apart
// what happened one after the other.
func instant(d time.Duration) string {
	return fmt.Sprintf("+%.1f ms", float64(d)/float64(time.Millisecond))
}

func short(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }

// accuse tells of the first stale write: who was inside since when, who was let in, and
// what the older one did and believed.
func accuse(c results.Cell, events []harness.Event, f finding) string {
	var write, intruder harness.Event
	for _, e := range events {
		switch e.Ticket {
		case f.write:
			write = e
		case f.intruder:
			intruder = e
		}
	}
	holder := harness.Event{Ticket: -1}
	stopped := time.Duration(-1)
	for _, e := range events {
		if e.Ticket >= write.Ticket || e.Actor != write.Actor {
			continue
		}
		switch {
		case e.Deed == harness.Granted && e.Key == write.Key:
			holder = e
		case e.Deed == harness.Stopped:
			stopped = e.At
		}
	}
	a, b := name(write.Actor), name(intruder.Actor)
	text := fmt.Sprintf("violation: %s was granted the key at %s", b, instant(intruder.At))
	switch {
	case stopped >= 0 && stopped < intruder.At:
		text += fmt.Sprintf(" while %s, inside since %s and stopped since %s, still held it by its own lights", a, instant(holder.At), instant(stopped))
	case holder.At > intruder.At:
		text += fmt.Sprintf(", and %s heard at %s of a grant that was over by then", a, instant(holder.At))
	default:
		text += fmt.Sprintf(" while %s was inside since %s", a, instant(holder.At))
	}
	text += fmt.Sprintf("; at %s %s wrote", instant(write.At), a)
	if write.Guarded {
		text += " although it had looked at its guard before"
	} else {
		text += ", which a holder that heeds its guard would not have done"
	}
	switch c.Fence {
	case results.FenceHeld:
		text += ". A resource that checks the fencing token refused the write."
	case results.FenceLost:
		text += ". The fencing tokens did not grow, so that a resource which checks them took the write."
	default:
		text += ". The lock has no fencing token by which it could have been refused."
	}
	return text
}
