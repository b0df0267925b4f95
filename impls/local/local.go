// Package local holds the yardsticks: locks in the memory of one process, which
// no distributed lock beats, and one that excludes nobody, which a safety
// check has to catch.
package local

import "github.com/lockbench/lockbench/impls/lock"

// Variants returns the locks of this package. The locks of one such list share
// their keys: all Lockers opened from one of its variants exclude each other,
// as the clients of one server do, and those of another list do not see them.
func Variants() []lock.Variant {
	return []lock.Variant{
		mutex(newTable()),
		rw(new(rooms)),
		none(),
	}
}
