package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockbench/lockbench/impls/lock"
)

// A loss of power takes what was not synced, and nothing else; and what hangs is the sync.
func TestLosePower(t *testing.T) {
	ctx := t.Context()
	s := start(t, lock.Needs{Kind: "redis"}, Options{Source: Binary, Persist: true, Disks: true})
	ask := func(args ...any) any {
		t.Helper()
		c := askRedis(s.Deployment.Nodes[0].Reveal()[len("redis://"):])
		defer func() { _ = c.Close() }()
		v, err := c.Do(ctx, args...).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatalf("%v: %v", args, err)
		}
		return v
	}
	again := func(power bool) (cut int64) {
		t.Helper()
		k, err := s.Kill(0)
		if err != nil {
			t.Fatal(err)
		}
		if power {
			if cut, err = k.LosePower(); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(s.Stick(0, false), k.Start(ctx, false)); err != nil {
			t.Fatal(err)
		}
		return cut
	}
	stuck := func() {
		t.Helper()
		if err := s.Stick(0, true); err != nil {
			t.Fatal(err)
		}
	}

	ask("SET", "synced", "1")
	if cut := again(true); cut != 0 || ask("GET", "synced") != "1" {
		t.Errorf("%d bytes were lost of a server that syncs each write, and the key is %v", cut, ask("GET", "synced"))
	}

	ask("CONFIG", "SET", "appendfsync", "everysec")
	stuck()
	ask("SET", "written", "1")
	if again(false); ask("GET", "written") != "1" {
		t.Error("what was written is lost with the process")
	}
	ask("CONFIG", "SET", "appendfsync", "everysec")
	stuck()
	ask("SET", "unsynced", "1")
	if cut := again(true); cut == 0 || ask("GET", "unsynced") != nil {
		t.Errorf("%d bytes were lost with the power, and the key is %v", cut, ask("GET", "unsynced"))
	}
	if ask("GET", "synced") != "1" || ask("GET", "written") != "1" {
		t.Errorf("lost, too: %v, %v", ask("GET", "synced"), ask("GET", "written"))
	}

	stuck()
	c := askRedis(s.Deployment.Nodes[0].Reveal()[len("redis://"):])
	defer func() { _ = c.Close() }()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := c.Set(short, "stuck", "1", 0).Err(); !timedOut(err) {
		t.Errorf("a server that syncs each write answers while the sync hangs: %v", err)
	}
	if err := s.Stick(0, false); err != nil {
		t.Fatal(err)
	}
	if ask("GET", "stuck") != "1" {
		t.Error("the write that hung is lost")
	}
}

// A server that was started as usual has no disk of its own.
func TestDiskless(t *testing.T) {
	s := start(t, lock.Needs{Kind: "redis"}, Options{Source: Binary, Persist: true})
	if err := s.Stick(0, true); !errors.Is(err, errDiskless) {
		t.Errorf("%v, want %v", err, errDiskless)
	}
	k, err := s.Kill(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.LosePower(); !errors.Is(err, errDiskless) {
		t.Errorf("%v, want %v", err, errDiskless)
	}
}
