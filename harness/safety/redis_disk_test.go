package safety_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/harness/safety"
	"github.com/lockbench/lockbench/results"
)

// A server that syncs each second answers before it writes while a sync is under way. The
// fault in which it keeps what it wrote waits for the grant to be written.
func TestEverysecKillWaitsForTheWrite(t *testing.T) {
	one := cell(t, "redis-token", "redis", "everysec-kill")
	play := one.Fault.Play
	one.Fault.Play = func(ctx context.Context, s *safety.Scene) error {
		o, err := redis.ParseURL(s.Server.Deployment.Nodes[0].Reveal())
		if err != nil {
			return err
		}
		c := redis.NewClient(o)
		defer func() { _ = c.Close() }()
		kept := regexp.MustCompile(`aof_buffer_length:[1-9]`)
		says := func(what *regexp.Regexp) error {
			for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
				text, err := c.Info(ctx, "persistence").Result()
				if err != nil || what.MatchString(text) {
					return err
				}
			}
			return errors.New("INFO never said " + what.String())
		}
		if err := errors.Join(
			c.ConfigSet(ctx, "appendfsync", "everysec").Err(),
			s.Server.Stick(0, true),
			c.Set(ctx, "any", "", time.Minute).Err(),
			says(regexp.MustCompile(`aof_pending_bio_fsync:1`)),
		); err != nil {
			return err
		}
		went := make(chan error, 1)
		go func() { went <- errors.Join(says(kept), s.Server.Stick(0, false)) }()
		return errors.Join(play(ctx, s), <-went)
	}
	got := played(t, options(t), one)[0]
	needed(t, one.Variant, got)
	if got.Verdict != results.Held || !strings.Contains(strings.Join(got.Evidence, "\n"), "wrote the grant") {
		t.Errorf("it was %q: %s %s\n%v", got.Verdict, got.Sentence, got.Why, got.Evidence)
	}
}
