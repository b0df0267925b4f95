package lock_test

import (
	"encoding/json"
	"math/bits"
	"reflect"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		set  interface{ List() []string }
		text string
		json string
	}{
		{lock.Caps(0), "", `[]`},
		{lock.Try, "try", `["try"]`},
		{lock.Renew | lock.Try | lock.Fencing, "try fencing renew", `["try","fencing","renew"]`},
		{
			lock.Try | lock.Shared | lock.Multi | lock.Reentrant | lock.Extend | lock.Fencing | lock.Cond | lock.Switch |
				lock.Fair | lock.Notify | lock.Renew,
			"try shared multi reentrant extend fencing cond switch fair notify renew",
			`["try","shared","multi","reentrant","extend","fencing","cond","switch","fair","notify","renew"]`,
		},
		{lock.Hazards(0), "", `[]`},
		{lock.Restart | lock.Crash, "crash restart", `["crash","restart"]`},
		{
			lock.Crash | lock.CrashMidway | lock.LateRelease | lock.TakeoverRace | lock.Pause | lock.ClientClock |
				lock.ServerClock | lock.Failover | lock.Restart | lock.Eviction | lock.SessionEnd | lock.NoExclusion,
			"crash crash-midway late-release takeover-race pause client-clock server-clock failover restart eviction session-end no-exclusion",
			`["crash","crash-midway","late-release","takeover-race","pause","client-clock","server-clock","failover","restart","eviction","session-end","no-exclusion"]`,
		},
	} {
		if got := c.set.(interface{ String() string }).String(); got != c.text {
			t.Errorf("String is %q, want %q", got, c.text)
		}
		b, err := json.Marshal(c.set)
		if err != nil || string(b) != c.json {
			t.Errorf("JSON is %s, %v; want %s", b, err, c.json)
		}
	}
}

func TestHas(t *testing.T) {
	both := lock.Try | lock.Fair
	if !both.Has(lock.Try) || !both.Has(both) || !both.Has(0) || both.Has(lock.Try|lock.Renew) || lock.Caps(0).Has(lock.Try) {
		t.Error("Caps.Has")
	}
	h := lock.Pause | lock.Restart
	if !h.Has(lock.Pause) || !h.Has(h) || h.Has(lock.Pause|lock.Crash) || lock.Hazards(0).Has(lock.Crash) {
		t.Error("Hazards.Has")
	}
}

// Every bit has one name of its own; a new one without a name shows here.
func TestAllNamed(t *testing.T) {
	if got, want := len(lock.Caps(^uint32(0)).List()), bits.Len32(uint32(lock.Renew)); got != want {
		t.Errorf("%d names of Caps, want %d", got, want)
	}
	if got, want := len(lock.Hazards(^uint32(0)).List()), bits.Len32(uint32(lock.NoExclusion)); got != want {
		t.Errorf("%d names of Hazards, want %d", got, want)
	}
}

func TestNeedsString(t *testing.T) {
	for _, c := range []struct {
		needs lock.Needs
		want  string
	}{
		{lock.Needs{}, "nothing"},
		{lock.Needs{Nodes: 3}, "nothing"},
		{lock.Needs{Kind: "redis"}, "redis"},
		{lock.Needs{Kind: "redis", Nodes: 1}, "redis"},
		{lock.Needs{Kind: "redis", Nodes: 5}, "5 × redis"},
		{lock.Needs{Kind: "redis", MinVersion: "7.0"}, "redis ≥ 7.0"},
		{lock.Needs{Kind: "redis", Feature: "DELEX"}, "redis with DELEX"},
		{lock.Needs{Kind: "redis", Nodes: 5, MinVersion: "7.0", Feature: "DELEX"}, "5 × redis ≥ 7.0 with DELEX"},
	} {
		if got := c.needs.String(); got != c.want {
			t.Errorf("%+v prints as %q, want %q", c.needs, got, c.want)
		}
	}
	if b, err := json.Marshal(lock.Needs{}); err != nil || string(b) != "{}" {
		t.Errorf("JSON of nothing: %s, %v", b, err)
	}
}

func TestVariantNames(t *testing.T) {
	v := lock.Variant{Algo: "a", Doc: "One. Two. Three."}
	if v.Name() != "a" || v.Synopsis() != "One." || !reflect.DeepEqual(v.Names("k"), []string{"k"}) {
		t.Errorf("%q, %q, %q", v.Name(), v.Synopsis(), v.Names("k"))
	}
	v = lock.Variant{Algo: "a", Client: "c", Doc: "Redis 2.6 and later", Keys: func(k string) []string { return []string{k, k + "2"} }}
	if v.Name() != "a/c" || v.Synopsis() != "Redis 2.6 and later" || !reflect.DeepEqual(v.Names("k"), []string{"k", "k2"}) {
		t.Errorf("%q, %q, %q", v.Name(), v.Synopsis(), v.Names("k"))
	}
}
