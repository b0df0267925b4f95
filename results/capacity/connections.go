package capacity

import "fmt"

// Connections is how many connections a server sees: those of each client for its
// commands, one for each owner so that no wait for a connection hides in the wait for the
// lock, and one more to be woken by where the lock does that. Procs is the processes,
// clients those of each process, owners all owners together. All are at least 1, or the
// error wraps [ErrRange].
func Connections(procs, clients, owners int, woken bool) (int, error) {
	if procs < 1 || clients < 1 || owners < 1 {
		return 0, fmt.Errorf("%w: %d processes with %d clients for %d owners", ErrRange, procs, clients, owners)
	}
	each := (owners + procs*clients - 1) / (procs * clients)
	if woken {
		each++
	}
	return procs * clients * each, nil
}

// Memory is what the servers of a lock have in RAM, as far as it was measured.
type Memory struct {
	// Resident is the bytes of all servers that one lock asks, in a run with Owners owners.
	Resident float64 `json:"resident_bytes"`
	Owners   int     `json:"measured_with_owners"`
	// PerOwner is the bytes that each owner adds to them, with its connections and its
	// place in a queue; 0 if the server does not tell.
	PerOwner float64 `json:"per_owner_bytes,omitempty"`
}

// For is the bytes of shards such servers that owners owners are connected to:
//
//	shards·(resident + per owner·(owners − measured owners))
//
// Where PerOwner is 0 it is what was measured, for whatever owners. Owners and shards are
// at least 1, and owners at most [Reach] times those measured, or the error wraps
// [ErrRange].
func (m Memory) For(owners, shards int) (float64, error) {
	if owners < 1 || shards < 1 || owners > Reach*m.Owners {
		return 0, fmt.Errorf("%w: %d owners on %d shards, where %d owners were measured", ErrRange, owners, shards, m.Owners)
	}
	return float64(shards) * (m.Resident + m.PerOwner*float64(owners-m.Owners)), nil
}
