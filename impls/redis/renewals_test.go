package redis_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// A client that holds a thousand leases renews them by the hundred, and loses
// one of them alone.
func TestRenewsTogether(t *testing.T) {
	eachReal(t, func(t *testing.T, s *server) {
		for _, algo := range []string{"redis-watchdog", "redis-reentrant", "redis-rw"} {
			const leases = 1000
			var mu sync.Mutex
			commands, keys, renewed := 0, 0, map[string]int{}
			w := &redistest.Lossy{Before: func(args []any) error {
				mu.Lock()
				defer mu.Unlock()
				if args[0] == "EVALSHA" {
					n := args[2].(int)
					commands, keys = commands+1, keys+n
					for _, key := range args[3 : 3+n] {
						renewed[key.(string)]++
					}
					if n > lock.DefaultBatch {
						t.Errorf("%s: %d keys in one command", algo, n)
					}
				}
				return nil
			}}
			name := func(i int) string { return fmt.Sprint(algo, i) }
			l := redistest.OpenVariant(t, redistest.Find(t, redis.Variants(s.Name, w.Dial(s.Dial)), algo), s.At,
				lock.Config{TTL: 10 * time.Minute, Renew: 500 * time.Millisecond})
			var all []lock.Lease
			for i := range leases {
				if r, ok := l.(lock.Sharer); ok && i%2 == 1 {
					lease, err := r.AcquireShared(t.Context(), name(i))
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, lease)
					continue
				}
				all = append(all, redistest.MustTry(t, l, name(i)))
			}
			mu.Lock()
			commands, keys, renewed = 0, 0, map[string]int{} // from here on all are renewals
			mu.Unlock()
			redistest.Until(t, algo+": three renewals of each", func() bool {
				mu.Lock()
				defer mu.Unlock()
				for i := range leases {
					if renewed[name(i)] < 3 {
						return false
					}
				}
				return true
			})
			mu.Lock()
			// However the grants lie in time, there are at most four rounds in an
			// interval, and each has at most one command that is not full.
			if keys < 50*commands {
				t.Errorf("%s: %d commands renewed %d leases, want at least 50 by each", algo, commands, keys)
			}
			mu.Unlock()

			// One is gone, one is of another type: the others go on.
			var timeouts []string // of a reader, which outlive its lock
			if algo == "redis-rw" {
				for field := range s.hash(t, name(1)) {
					timeouts = append(timeouts, "{"+name(1)+"}:"+field+":rwlock_timeout:1")
				}
			}
			s.Do(t, "DEL", name(1), name(2))
			s.Do(t, "RPUSH", name(2), "x")
			redistest.Wait(t, "the loss of a deleted key", all[1].Lost())
			redistest.Wait(t, "the loss of a key that is a list", all[2].Lost())
			mu.Lock()
			base := renewed[name(3)]
			mu.Unlock()
			redistest.Until(t, algo+": two more renewals of another", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return renewed[name(3)] >= base+2
			})
			s.Do(t, "DEL", name(2))
			for _, key := range timeouts {
				s.Do(t, "DEL", key)
			}
			for i, lease := range all {
				err := lease.Release(t.Context())
				if gone := i == 1 || i == 2; gone != errors.Is(err, lock.ErrLost) || !gone && err != nil {
					t.Fatalf("%s: Release of lease %d: %v", algo, i, err)
				}
			}
			if got := s.Do(t, "DBSIZE"); got != int64(0) {
				t.Errorf("%s: %v keys are left", algo, got)
			}
		}
	})
}
