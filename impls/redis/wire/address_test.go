package wire

import (
	"strings"
	"testing"

	"github.com/lockbench/lockbench/impls/lock"
)

func TestParseURL(t *testing.T) {
	for in, want := range map[string]string{
		"redis://h":              "redis://h:6379",
		"redis://h/":             "redis://h:6379",
		"redis://h:1/2":          "redis://h:1/2",
		"redis://[::1]/2":        "redis://[::1]:6379/2",
		"rediss://:p@h":          "rediss://:p@h:6379",
		"redis://u:p%40%2F@h:1":  "redis://u:p%40%2F@h:1",
		"unix:///run/redis?db=3": "unix:///run/redis?db=3",
	} {
		u, err := parseURL(lock.Endpoint(in))
		if err != nil || u.String() != want {
			t.Errorf("ParseURL(%q) = %v, %v; want %s", in, u, err, want)
		}
	}
}

func TestParseAddress(t *testing.T) {
	for in, want := range map[lock.Endpoint]string{
		"redis://h":                        "h:6379",
		"redis+cluster://h,g:1":            "h:6379,g:1",
		"redis+cluster://:canary@h:1/0":    "h:1",
		"redis+sentinel://h,g:1/m":         "h:26379,g:1/m",
		"redis+sentinel://h:6379,g/m/2":    "h:6379,g:26379/m",
		"rediss+sentinel://u:canary@h/m/0": "h:26379/m",
	} {
		if a, err := ParseAddress(in); err != nil || a.String() != want {
			t.Errorf("%s: %s, %v; want %s", in, a, err, want)
		}
	}
	for _, in := range []lock.Endpoint{
		"redis+cluster://h:1/2", "redis+sentinel://h:1", "redis+sentinel://h:1/m/x", "redis+cluster://canary@h:1",
		"http+cluster://h:1", "redis+ring://h:1", "redis+cluster://h:1,:2", "unix+cluster:///x",
	} {
		if a, err := ParseAddress(in); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %s, %v; want an error", in, a, err)
		}
	}
	if _, err := parseURL("redis+cluster://h:1"); err == nil || !strings.Contains(err.Error(), "single server") {
		t.Errorf("a cluster where a server is needed: %v", err)
	}
}
