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

// Memory is the bytes that a server keeps for connections of each bytes: a fixed cost of
// a connection, whether its owner waits or not. What the queue of a lock keeps beside it,
// about a hundred bytes for a waiter, is not in it. Neither may be below 0, or the error
// wraps [ErrRange].
func Memory(connections int, each int64) (int64, error) {
	if connections < 0 || each < 0 {
		return 0, fmt.Errorf("%w: %d connections of %d bytes", ErrRange, connections, each)
	}
	return int64(connections) * each, nil
}
