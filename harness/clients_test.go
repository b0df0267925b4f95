package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/impls/lock"
)

// Each of Load.Clients is as real as a process: the server sees connections of
// its own for its commands and one of its own for its messages.
func TestEveryClientHasConnectionsOfItsOwn(t *testing.T) {
	r := rig(t, true)
	o, err := redis.ParseURL(r.Server.Deployment.Nodes[0].Reveal())
	if err != nil {
		t.Fatal(err)
	}
	o.PoolSize = 1
	look := redis.NewClient(o)
	defer func() { _ = look.Close() }()
	for _, v := range []lock.Variant{
		variant(t, "redis-handoff", "goredis"), variant(t, "redis-handoff", "redigo"),
		variant(t, "redis-reentrant", "goredis"), variant(t, "redis-reentrant", "redigo"),
	} {
		for _, clients := range []int{1, 3} {
			before := connections(t, look)
			ctx, enough := context.WithCancel(t.Context())
			l := load(3*clients, time.Millisecond)
			l.Clients, l.For = clients, time.Hour
			ended := make(chan error, 1)
			go func() {
				_, err := r.Run(ctx, harness.Trial{Variant: v, Load: l, Config: lock.Config{Conns: 1}})
				ended <- err
			}()
			var commands, messages int
			for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
				commands, messages = 0, 0
				for id, flags := range connections(t, look) {
					switch {
					case before[id] != "":
					case strings.Contains(flags, "P"):
						messages++
					default:
						commands++
					}
				}
				if commands == clients && messages == clients {
					break
				}
			}
			enough()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the run ended with %v", v.Name(), err)
			}
			if commands != clients || messages != clients {
				t.Errorf("%s: %d clients have %d connections for commands and %d for messages", v.Name(), clients, commands, messages)
			}
		}
	}
}

// connections lists the connections that the server sees: id → flags.
func connections(t *testing.T, c *redis.Client) map[string]string {
	t.Helper()
	text, err := c.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[string]string)
	for line := range strings.Lines(text) {
		fields := make(map[string]string)
		for _, f := range strings.Fields(line) {
			name, value, _ := strings.Cut(f, "=")
			fields[name] = value
		}
		list[fields["id"]] = fields["flags"]
	}
	return list
}
