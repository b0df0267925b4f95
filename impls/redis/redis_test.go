package redis_test

import (
	"testing"
	"time"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
	"github.com/lockbench/lockbench/impls/redis/internal/redistest"
)

// TTLs are never rounded to less than was asked for.
func TestRounding(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		for algo, want := range map[string]int64{
			"redis-setnx-expire": 2, // s
			"redis-setnx-lua":    2,
			"redis-set-ex":       2,
			"redis-get-del":      1501, // ms
			"redis-token":        1501,
			"redis-watchdog":     1501,
			"redis-fenced":       1501,
		} {
			var sent []any
			w := &redistest.Lossy{Before: func(args []any) error { sent = args; return nil }}
			v := redistest.Find(t, redis.Variants(s.Name, w.Dial(s.Dial)), algo)
			l := redistest.OpenVariant(t, v, s.At, lock.Config{TTL: 1500*time.Millisecond + time.Microsecond, Renew: time.Hour})
			before := time.Now()
			lease := redistest.MustTry(t, l, algo)
			if got := sent[len(sent)-1]; got != want {
				t.Errorf("%s: the TTL sent is %v, want %v: %v", algo, got, want, sent)
			}
			if d := lease.(lock.Deadliner).Deadline(); d.Before(before.Add(1500 * time.Millisecond)) {
				t.Errorf("%s: deadline after %v", algo, d.Sub(before))
			}
		}
	})
}
