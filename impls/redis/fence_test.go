package redis_test

import (
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// Tokens grow with every grant, however the one before ended.
func TestTokenGrows(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		const key = "k"
		var last uint64
		for i := range 6 {
			lease := redistest.MustTry(t, s.Open(t, "redis-fenced", nil), key)
			token := lease.(lock.Fenced).Token()
			if token <= last {
				t.Errorf("grant %d has token %d, the one before had %d", i, token, last)
			}
			last = token
			if i%2 == 0 {
				s.Expire(t, key)
			} else if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if ttl := s.Do(t, "PTTL", "k{k}:fence").(int64); ttl != -1 {
				t.Errorf("the counter has PTTL %d, want none", ttl)
			}
		}
	})
}

// The lock and its counter live in one hash slot.
func TestFenceSlot(t *testing.T) {
	v := redistest.Find(t, redis.Variants("", nil), "redis-fenced")
	for _, key := range []string{
		"k", "lb:1:k", "a b", "{t}", "{t}:k", "pre{t}post", "{a}{b}", "{{a}}", "open{", "{open", "a{b",
	} {
		names := v.Names(key)
		if len(names) != 2 || names[0] != key || names[1] == key {
			t.Errorf("Names(%q) = %q", key, names)
			continue
		}
		if a, b := hashed(names[0]), hashed(names[1]); a != b {
			t.Errorf("%q is placed by %q, its counter %q by %q", names[0], a, names[1], b)
		}
	}
	seen := map[string]string{}
	for _, key := range []string{"k", "{k}", "{k}x", "x{k}", "k:fence", "{k}:fence", "k{k}", "k{k}:fence", "{k", "k}"} {
		name := v.Names(key)[1]
		if other, dup := seen[name]; dup {
			t.Errorf("%q and %q share the counter %q", key, other, name)
		}
		seen[name] = key
	}
}

// hashed is the part of key that Redis Cluster hashes, as the cluster
// specification words it: what is between the first { and the first } to the
// right of it, if both exist and there is something between them.
func hashed(key string) string {
	open := strings.IndexByte(key, '{')
	if open < 0 {
		return key
	}
	shut := strings.IndexByte(key[open+1:], '}')
	if shut <= 0 {
		return key
	}
	return key[open+1 : open+1+shut]
}
