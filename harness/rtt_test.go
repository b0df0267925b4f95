package harness_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockbench/lockbench/harness"
	"github.com/lockbench/lockbench/harness/server"
	"github.com/lockbench/lockbench/impls/lock"
	"github.com/lockbench/lockbench/results"
)

// Every round trip of the clients takes the added time, to one server or to
// several, and the record tells the real servers.
func TestRoundTripsTakeLonger(t *testing.T) {
	const rtt = 4 * time.Millisecond
	quorum := variant(t, "redis-redlock", "redigo")
	quorum.Needs.Nodes = 3
	o, err := server.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	several, err := server.Start(t.Context(), quorum.Needs, o)
	if errors.Is(err, server.ErrMissing) && !required("redis") {
		t.Logf("NOT TESTED ON SEVERAL NODES: %v", err)
	} else if err != nil { // or LOCKBENCH_REQUIRE lists redis
		t.Fatal(err)
	} else {
		defer func() {
			if err := several.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	for _, c := range []struct {
		rig *harness.Rig
		v   lock.Variant
	}{
		{rig(t, false), variant(t, "redis-token", "goredis")},
		{&harness.Rig{Server: several}, quorum},
	} {
		if c.rig.Server == nil {
			continue
		}
		l := load(2, time.Millisecond)
		l.RTT = rtt
		run, err := c.rig.Run(t.Context(), harness.Trial{Variant: c.v, Load: l, Config: lock.Config{NodeTimeout: 2 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		if run.Metrics["errors"] != 0 || run.Exact["acquire"].Count == 0 {
			t.Errorf("%s: %v grants, valid %+v", c.v.Name(), run.Exact["acquire"].Count, run.Valid)
		}
		for _, name := range []string{results.Acquire, results.Release} {
			if least := time.Duration(run.Exact[name].Min); least < rtt {
				t.Errorf("%s: the fastest %s took %v, less than a round trip of %v", c.v.Name(), name, least, rtt)
			}
		}
		if got := time.Duration(run.Env.RTTp50); got < rtt {
			t.Errorf("%s: the record says that a PING took %v", c.v.Name(), got)
		}
		if want := server.Describe(c.rig.Server); !slices.Equal(run.Server.Nodes, want.Nodes) {
			t.Errorf("%s: the record names %v, not %v", c.v.Name(), run.Server.Nodes, want.Nodes)
		}
		if run.Load.RTT != rtt || !strings.Contains(run.Trial, "/rtt=4ms") {
			t.Errorf("%s: %+v", run.Trial, run.Load)
		}
	}
}

// A server that is reached by TLS is named, and nothing is measured without the
// delay that was asked for.
func TestNoRoundTripsThroughTLS(t *testing.T) {
	r := &harness.Rig{Server: &server.Server{Kind: "redis", Deployment: lock.Deployment{
		Kind: "redis", Nodes: []lock.Endpoint{"rediss://u:canary@127.0.0.1:1"}}}}
	l := load(1, 0)
	l.RTT = time.Millisecond
	_, err := r.Run(t.Context(), harness.Trial{Variant: variant(t, "redis-token", "goredis"), Load: l})
	if err == nil || !strings.Contains(err.Error(), "TLS") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}
