package bench

import (
	"strings"
	"testing"

	"github.com/lockbench/lockbench/harness/server"
)

// A server that may remove the keys of locks is warned of once, also by a user who must
// not ask for its configuration; one that removes none is not.
func TestWarnsOfEviction(t *testing.T) {
	if source(t) != server.Binary {
		lacking(t, "redis", "no redis-server on PATH, whose memory can be bounded")
	}
	url := redisServer(t)
	conn := look(t, url)
	do(t, conn, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-config")
	bounded := strings.Replace(url, "redis://", "redis://app:secret@", 1)
	for _, c := range []struct {
		policy string
		bytes  int
		warns  bool
	}{
		{"noeviction", 1 << 30, false}, {"allkeys-random", 0, false},
		{"allkeys-lru", 1 << 30, true}, {"volatile-ttl", 1 << 30, true},
	} {
		do(t, conn, "CONFIG", "SET", "maxmemory", c.bytes)
		do(t, conn, "CONFIG", "SET", "maxmemory-policy", c.policy)
		for _, u := range []string{url, bounded} {
			for name, args := range map[string][]string{
				"lock": {"lock", "-redis", u, "-key", "k", "--", "true"},
				"run":  {"run", "-redis", u, "-algo", "redis-token,redis-fenced", "-client", "goredis", "-procs", "1", "-owners", "1", "-for", "50ms", "-warmup", "10ms"},
			} {
				o := finish(t, process(t, args...))
				want := 0
				if c.warns {
					want = 1
				}
				// A run is short, and may be no valid measurement.
				if n := strings.Count(o.stderr, "the maxmemory-policy of"); name == "lock" && o.status != 0 || n != want || c.warns && !strings.Contains(o.stderr, " is "+c.policy+":") {
					t.Errorf("%s on %s of %d bytes: %d warnings, want %d: %+v", name, c.policy, c.bytes, n, want, o)
				}
				if strings.Contains(o.stderr, "secret") {
					t.Errorf("%s tells the password: %s", name, o.stderr)
				}
			}
		}
	}
}
