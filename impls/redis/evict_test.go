package redis_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// The hazard that every lock declares is there: a server whose memory is full removes the
// key of a holder, and a second owner gets in.
func TestEviction(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		for _, v := range everyLock(s.Client) {
			if v.Needs.Nodes > 1 || v.Needs.Feature == "compare-and-delete" {
				continue // many such servers, and the same keys
			}
			for _, policy := range []string{"allkeys-random", "volatile-ttl"} {
				t.Run(v.Algo+"/"+policy, func(t *testing.T) { evict(t, s, v, policy) })
			}
		}
	})
}

func evict(t *testing.T, s *server, v lock.Variant, policy string) {
	if !v.Unsafe.Has(lock.Eviction) {
		t.Fatal("it declares no eviction")
	}
	l := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Minute, Renew: time.Hour})
	key := v.Algo
	redistest.MustTry(t, l, key)
	if policy == "volatile-ttl" && s.Do(t, "PTTL", key).(int64) < 0 {
		return // it takes no key without an end
	}
	defer s.Do(t, "CONFIG", "SET", "maxmemory", 0)
	s.Do(t, "CONFIG", "SET", "maxmemory-policy", policy)
	s.Do(t, "CONFIG", "SET", "maxmemory", usedMemory(t, s)+1<<20)
	var filled []any
	for n := 0; s.Do(t, "EXISTS", key) == int64(1); n++ {
		name := fmt.Sprint("fill", n)
		filled = append(filled, name)
		// Those with a later end go last where the end decides.
		s.Do(t, "SET", name, strings.Repeat("x", 1<<14), "PX", int64(time.Hour/time.Millisecond))
		if n > 1<<14 {
			t.Fatalf("%d keys were set, and that of the holder is still there", n)
		}
	}
	s.Do(t, "CONFIG", "SET", "maxmemory", 0)
	s.Do(t, append([]any{"DEL"}, filled...)...)
	second := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: time.Minute})
	redistest.Release(t, redistest.MustTry(t, second, key)) // beside the holder
}

func usedMemory(t *testing.T, s *server) int {
	t.Helper()
	for line := range strings.Lines(s.Do(t, "INFO", "memory").(string)) {
		if text, ok := strings.CutPrefix(line, "used_memory:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("INFO tells no used_memory")
	return 0
}
