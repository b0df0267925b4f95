package server

import (
	"context"

	"github.com/lockbench/lockbench/impls/lock"
)

// Evicts returns the maxmemory-policy by which the Redis at e, or one of those behind it,
// may remove the keys of locks when its memory is full, such as "allkeys-lru". It is ""
// where none may, or where e does not let us ask.
func Evicts(ctx context.Context, e lock.Endpoint) string {
	n, err := connectRedis(ctx, e)
	if err != nil {
		return "" // who uses the server says what is wrong with it
	}
	defer func() { _ = n.close() }() // the answer is here
	return n.about().evicts
}

// evicting is the policy in the INFO of a server that may remove keys. Those that only
// take keys with an end take those of locks, too. INFO tells more users than CONFIG does.
func evicting(info map[string]string) string {
	if policy := info["maxmemory_policy"]; policy != "noeviction" && info["maxmemory"] != "0" {
		return policy
	}
	return ""
}
