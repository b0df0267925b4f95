package redis_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/impls/redis"
)

// Many clients change one register at once: each change is made by one of them.
func TestRegister(t *testing.T) {
	eachServer(t, func(t *testing.T, s *server) {
		const name, clients, rounds = "register", 4, 50
		var won atomic.Int64
		var all sync.WaitGroup
		for n := range clients {
			r, err := redis.OpenRegister(t.Context(), s.Dial, lock.Deployment{Kind: "redis", Nodes: []lock.Endpoint{s.At}}, lock.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := r.Close(); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				for range rounds {
					old, err := r.Read(t.Context(), name)
					if err != nil {
						t.Error(err)
						return
					}
					next := fmt.Sprintf("%s%d", old, n)
					ok, err := r.Swap(t.Context(), name, old, next)
					if err != nil {
						t.Error(err)
						return
					}
					if ok {
						won.Add(1)
					}
				}
			})
		}
		all.Wait()
		text, ok := s.Do(t, "GET", name).(string)
		if !ok || int64(len(text)) != won.Load() || won.Load() == 0 {
			t.Errorf("%d changes were made, and the register has %q", won.Load(), text)
		}
		if s.Do(t, "TTL", name) != int64(-1) {
			t.Error("the register has an end")
		}
	})
}
