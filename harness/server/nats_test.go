package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockbench/lockbench/harness/fault"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/harness/server/builtin"
	"github.com/lockbench/lockbench/impls/lock"
)

func startNATS(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	o.Source, o.Embeds = server.Embedded, builtin.Embeds()
	s, err := server.Start(t.Context(), lock.Needs{Kind: "nats"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// bucket is a bucket of keys on s, with a time limit for all that is done to it.
func bucket(t *testing.T, s *server.Server, replicas int) (context.Context, jetstream.KeyValue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	hosts, _, err := s.Deployment.Nodes[0].Split()
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, h := range hosts {
		urls = append(urls, h.Reveal())
	}
	c, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "lockbench_test", Replicas: replicas, LimitMarkerTTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, kv
}

// valueOf is the value of key, "" if there is none.
func valueOf(ctx context.Context, t *testing.T, kv jetstream.KeyValue, key string) string {
	t.Helper()
	e, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(e.Value())
}

// The NATS that is built in serves, says what it is, costs what it costs, and leaves
// nothing behind, alone and as one of three, whenever it syncs its disk.
func TestBuiltInNATS(t *testing.T) {
	for _, c := range []struct {
		topology         lock.Topology
		sync             bool
		options, durable string
	}{
		{lock.Single, false, "sync_interval 2m", "each write, in the memory of its system"},
		{lock.Single, true, "sync_interval always", "each write, on disk"},
		{lock.Ensemble, false, "sync_interval 2m", "each write, in the memory of its system"},
		{lock.Ensemble, true, "sync_interval always", "each write, on disk"},
	} {
		members := 1
		if c.topology == lock.Ensemble {
			members = 3
		}
		t.Run(fmt.Sprintf("members=%d/sync=%t", members, c.sync), func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			s := startNATS(t, server.Options{SyncAlways: c.sync, Topologies: map[string]lock.Topology{"nats": c.topology}})
			d := server.Describe(s)
			if d.Source != "embedded" || d.Product != "nats" || d.Version == "" || d.Options != c.options || s.Durable != c.durable {
				t.Errorf("it is described as %+v, %s", d, s.Durable)
			}
			if len(d.Nodes) != members || len(s.Processes()) != members || slices.ContainsFunc(s.Processes(), func(p server.Process) bool { return p.PID == os.Getpid() }) {
				t.Errorf("%d members want as many processes, and not ours: %v, %v", members, d.Nodes, s.Processes())
			}
			// What it was told is in its configuration, which it refuses if it does not know a word of it.
			files, err := filepath.Glob(filepath.Join(dir, "*", "*", "nats.conf"))
			if err != nil || len(files) != members {
				t.Fatalf("%d configurations %v, %v", len(files), files, err)
			}
			for _, f := range files {
				if b, err := os.ReadFile(f); err != nil || strings.Contains(string(b), "sync_interval: always") != c.sync {
					t.Errorf("configuration %s, %v", b, err)
				}
			}
			before, err := s.Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx, kv := bucket(t, s, members)
			for _, key := range []string{"a", "a/b", "ab"} {
				if _, err := kv.Create(ctx, key, []byte("of "+key)); err != nil {
					t.Fatal(err)
				}
			}
			if v := valueOf(ctx, t, kv, "a/b"); v != "of a/b" {
				t.Errorf("a key has the value %q", v)
			}
			after, err := s.Usage(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if after.Cmds-before.Cmds < 4 || !(after.CPU > before.CPU) || !(after.NetBytes > before.NetBytes) || !(s.Memory() > 0) {
				t.Errorf("four requests: %+v, then %+v, and it has %v bytes", before, after, s.Memory())
			}
			if n, err := s.Remove(ctx, "a", "nosuch"); n != 1 || err != nil {
				t.Errorf("removed %d keys, error %v, want 1", n, err)
			}
			if v, w := valueOf(ctx, t, kv, "a"), valueOf(ctx, t, kv, "ab"); v != "" || w == "" {
				t.Errorf("of two keys one was removed, and they have the values %q and %q", v, w)
			}
			for range 2 {
				if n, err := s.Remove(ctx, "KV_lockbench_test"); n > 1 || err != nil {
					t.Errorf("removed %d buckets, error %v", n, err)
				}
			}
			if _, err := kv.Status(ctx); !errors.Is(err, jetstream.ErrStreamNotFound) {
				t.Errorf("the bucket was removed, and its status is %v", err)
			}
			if list, err := s.RTT(t.Context(), 5); len(list) != 5 || err != nil {
				t.Errorf("round trips: %v, %v", list, err)
			}
			processes := s.Processes()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			for _, p := range processes {
				if p.Alive() {
					t.Errorf("process %d goes on after Close", p.PID)
				}
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 || err != nil {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// A child can be stopped and killed like an installed server. What it was told outlives
// its end, unless it is to come back empty.
func TestBuiltInNATSFaults(t *testing.T) {
	s := startNATS(t, server.Options{})
	ctx, kv := bucket(t, s, 1)
	if _, err := kv.Create(ctx, "k", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	paused, err := fault.Pause{}.Inject(ctx, &fault.Env{Server: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := paused.Heal(ctx); err != nil {
		t.Error(err)
	}
	if v := valueOf(ctx, t, kv, "k"); v != "kept" {
		t.Errorf("after the pause the key has the value %q", v)
	}
	first := s.Processes()[0]
	for _, empty := range []bool{false, true} {
		killed, err := s.Kill(0)
		if err != nil {
			t.Fatal(err)
		}
		if first.Alive() || len(s.Processes()) != 0 {
			t.Errorf("process %d goes on after Kill; there are %v", first.PID, s.Processes())
		}
		if err := killed.Start(ctx, empty); err != nil {
			t.Fatal(err)
		}
		_, kv := bucket(t, s, 1)
		if v := valueOf(ctx, t, kv, "k"); (v == "kept") == empty {
			t.Errorf("started again, empty %t, the key has the value %q", empty, v)
		}
	}
}

// A nats-server on PATH goes before the one that is built in, unless its keys cannot end
// by themselves; one that was named is not replaced.
func TestOldNATS(t *testing.T) {
	bin := t.TempDir()
	program := filepath.Join(bin, "nats-server")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho nats-server: v2.10.7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	found := server.Find(t.Context(), "nats", server.Options{Embeds: builtin.Embeds()})
	i := slices.IndexFunc(found, func(f server.Found) bool { return f.Source == server.Binary })
	if f := found[i]; f.OK || f.Version != "2.10.7" || !strings.Contains(f.Hint, "is nats-server 2.10.7, and its keys end by themselves from 2.11 on") {
		t.Errorf("found %+v", f)
	}
	for _, named := range []bool{false, true} {
		o := server.Options{Source: server.Binary}
		if named {
			o.Programs = map[string]string{"nats": program}
		}
		_, err := server.Start(t.Context(), lock.Needs{Kind: "nats"}, o)
		if err == nil || errors.Is(err, server.ErrMissing) == named || !strings.Contains(err.Error(), "2.10.7") {
			t.Errorf("named %t: %v", named, err)
		}
	}
}
